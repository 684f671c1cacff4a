// What sweeps cost, in work that is the same on any machine and as a ratio to one plan in the same
// run.
#include <benchmark/benchmark.h>

#include <ctime>
#include <limits>
#include <string>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/advise/resolve.hpp"
#include "ac_advisor/ir/work.hpp"
#include "ac_advisor/model/spec.hpp"

namespace {

using namespace ac_advisor;

std::clock_t time_of_plan(const model::ModelSpec& model, const StepConfig& config) {
  constexpr int times = 20;
  const std::clock_t begin = std::clock();
  for (int i = 0; i < times; ++i)
    benchmark::DoNotOptimize(advise::plan(model, config, false).memory.peak_allocated);
  return (std::clock() - begin) / times;
}

/// As `advise` sweeps it. Counters: configurations in all and simulated, work of each that was
/// simulated, and its time of the CPU in plans of the base.
void sweep(benchmark::State& state, const std::string& name, const OptionList& typed) {
  const model::ModelSpec model = model::load_model(name);
  const advise::Resolved resolved = advise::resolve(model, typed);
  std::size_t simulated = 0, bounded = 0;
  std::clock_t took = 0;
  const ir::WorkDone before = ir::work_done();
  for (auto _ : state) {
    const std::clock_t begin = std::clock();
    const advise::Sweep sweep = advise::sweep(
        model, resolved.config, advise::space_around(model, resolved.config, resolved.options));
    took += std::clock() - begin;
    simulated = sweep.configurations;
    bounded = sweep.too_large + sweep.too_heavy + sweep.too_slow;
  }
  const ir::WorkDone after = ir::work_done();
  const double each = static_cast<double>(simulated) * static_cast<double>(state.iterations());
  state.counters["configurations"] = static_cast<double>(simulated + bounded);
  state.counters["simulated"] = static_cast<double>(simulated);
  for (std::size_t i = 0; i < ir::work_kinds; ++i)
    state.counters[ir::name_of(static_cast<ir::Work>(i)) + std::string("/simulated")] =
        static_cast<double>(after[i] - before[i]) / each;
  state.counters["plans' time"] =
      static_cast<double>(took) /
      (each * static_cast<double>(time_of_plan(model, resolved.config)));
}

void sweep_1b_of_8(benchmark::State& state) {
  sweep(state, "llama-3.2-1b", {{"--world", "8"}, {"--batch", "8"}, {"--seq", "2048"}});
}
void sweep_70b_of_64(benchmark::State& state) {
  sweep(state, "llama-3.1-70b",
        {{"--framework", "torchtitan"}, {"--world", "64"}, {"--batch", "1"}, {"--seq", "8192"}});
}
void sweep_405b_of_512(benchmark::State& state) {
  sweep(state, "llama-3.1-405b",
        {{"--framework", "torchtitan"}, {"--world", "512"}, {"--batch", "1"}, {"--seq", "8192"}});
}

BENCHMARK(sweep_1b_of_8)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(sweep_70b_of_64)->Unit(benchmark::kMillisecond)->UseRealTime()->Iterations(1);
BENCHMARK(sweep_405b_of_512)->Unit(benchmark::kMillisecond)->UseRealTime()->Iterations(1);

}  // namespace
