// What planning costs, in process: from a config.json's text to a profile. The ratios are printed
// by the counters of each line; no time is asserted anywhere.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/advise/resolve.hpp"
#include "ac_advisor/model/spec.hpp"
#include "embedded/embedded.hpp"

namespace {

using namespace ac_advisor;

std::string config_text(const std::string& sample) {
  for (const embedded::File& file : embedded::files())
    if (file.path == "sample_models/" + sample + "/config.json") return std::string(file.text);
  return {};
}

StepConfig documented() {
  StepConfig config;
  config.run.batch = 8;
  config.run.seq = 2048;
  return config;
}

void plan_from_text(benchmark::State& state, const std::string& sample, StepConfig config) {
  const std::string text = config_text(sample);
  for (auto _ : state) {
    const model::ModelSpec model = model::parse_config(text, sample, sample);
    benchmark::DoNotOptimize(advise::plan(model, config, false).memory.peak_allocated);
  }
  const model::ModelSpec model = model::parse_config(text, sample, sample);
  state.counters["blocks"] = static_cast<double>(model.layers);
  state.counters["s/block"] = benchmark::Counter(
      static_cast<double>(model.layers),
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void llama_1b(benchmark::State& state) { plan_from_text(state, "llama-3.2-1b", documented()); }
void llama_8b(benchmark::State& state) { plan_from_text(state, "llama-3.1-8b", documented()); }
void llama_405b(benchmark::State& state) { plan_from_text(state, "llama-3.1-405b", documented()); }

void llama_1b_full_fsdp2(benchmark::State& state) {
  StepConfig config = documented();
  config.memory.ac = AcMode::full;
  config.layout.shard = Sharding::fsdp2;
  config.layout.world = state.range(0);
  plan_from_text(state, "llama-3.2-1b", config);
}

void llama_1b_tokens(benchmark::State& state) {
  StepConfig config = documented();
  config.run.batch = state.range(0);
  config.run.seq = state.range(1);
  plan_from_text(state, "llama-3.2-1b", config);
}

/// A graph beside its family, both from their text, at the graph's sizes: AC_ADVISOR_BENCH_GRAPH is
/// a capture of Llama-3.2-1B (docs/graphs.md; no capture is in the repository: they have
/// megabytes).
void graph_of_llama_1b(benchmark::State& state) {
  const char* const path = std::getenv("AC_ADVISOR_BENCH_GRAPH");
  if (path == nullptr) {
    state.SkipWithError("AC_ADVISOR_BENCH_GRAPH names no capture");
    return;
  }
  std::stringstream file;
  file << std::ifstream(path).rdbuf();
  const std::string text = file.str();
  using Clock = std::chrono::steady_clock;
  std::chrono::duration<double> of_graph{}, of_family{};
  for (auto _ : state) {
    const auto begin = Clock::now();
    const model::ModelSpec graph = model::parse_config(text, path, path);
    const StepConfig config = advise::resolve(graph, {}).config;
    benchmark::DoNotOptimize(advise::plan(graph, config, false).memory.peak_allocated);
    const auto middle = Clock::now();
    const model::ModelSpec family = model::parse_config(config_text("llama-3.2-1b"), "llama", "1b");
    benchmark::DoNotOptimize(advise::plan(family, config, false).memory.peak_allocated);
    of_graph += middle - begin;
    of_family += Clock::now() - middle;
  }
  state.counters["times the family's"] = of_graph / of_family;
}

/// At least a thousand configurations, on as many threads as there are cores.
void sweep_1000(benchmark::State& state) {
  const model::ModelSpec model =
      model::parse_config(config_text("llama-3.2-1b"), "llama-3.2-1b", "llama-3.2-1b");
  StepConfig base = documented();
  base.layout.world = 8;
  base.layout.shard = Sharding::fsdp2;
  advise::Space space = advise::default_space(model, base);
  space.set("--batch", {"1", "2", "3", "4", "5", "6", "8", "10", "12", "16"});
  space.simulate_up_to = std::numeric_limits<std::size_t>::max();
  std::size_t configurations = 0;
  for (auto _ : state) {
    const advise::Sweep sweep = advise::sweep(model, base, space);
    configurations = sweep.configurations;
  }
  state.counters["configurations"] = static_cast<double>(configurations);
}

/// TorchTitan's layouts of 16,384 ranks, most of them excluded by bounds (docs/layouts.md).
void layouts_of_405b(benchmark::State& state) {
  const model::ModelSpec model =
      model::parse_config(config_text("llama-3.1-405b"), "llama-3.1-405b", "llama-3.1-405b");
  const OptionList typed{{"--framework", "torchtitan"},
                         {"--world", "16384"},
                         {"--batch", "1"},
                         {"--grad-accum", "16"},
                         {"--seq", "8192"}};
  const advise::Resolved resolved = advise::resolve(model, typed);
  std::size_t simulated = 0, bounded = 0;
  for (auto _ : state) {
    const advise::Sweep sweep = advise::sweep(
        model, resolved.config, advise::space_around(model, resolved.config, resolved.options));
    simulated = sweep.configurations;
    bounded = sweep.too_large + sweep.too_heavy + sweep.too_slow;
  }
  state.counters["simulated"] = static_cast<double>(simulated);
  state.counters["bounded"] = static_cast<double>(bounded);
}

/// A compiled step of Llama-3.1-8B beside an eager one, in time of the CPU: range 0 each block, 1
/// the model as one graph, 2 that with a memory budget.
void compiled_8b(benchmark::State& state) {
  const model::ModelSpec model =
      model::parse_config(config_text("llama-3.1-8b"), "llama-3.1-8b", "llama-3.1-8b");
  StepConfig eager = documented();
  eager.run.attention = Attention::cudnn;
  StepConfig compiled = eager;
  compiled.memory.kernels = Kernels::compiled;
  compiled.memory.compile_unit = state.range(0) > 0 ? CompileUnit::model : CompileUnit::block;
  if (state.range(0) == 2) {
    compiled.memory.ac = AcMode::memory_budget;
    compiled.memory.memory_budget = 0.3;
  }
  std::clock_t of_compiled = 0, of_eager = 0;
  for (auto _ : state) {
    const std::clock_t begin = std::clock();
    benchmark::DoNotOptimize(advise::plan(model, compiled, false).memory.peak_allocated);
    const std::clock_t middle = std::clock();
    benchmark::DoNotOptimize(advise::plan(model, eager, false).memory.peak_allocated);
    of_compiled += middle - begin;
    of_eager += std::clock() - middle;
  }
  state.counters["times eager's"] =
      static_cast<double>(of_compiled) / static_cast<double>(of_eager);
}

BENCHMARK(llama_1b)->Unit(benchmark::kMicrosecond);
BENCHMARK(llama_8b)->Unit(benchmark::kMicrosecond);
BENCHMARK(llama_405b)->Unit(benchmark::kMicrosecond);
BENCHMARK(graph_of_llama_1b)->Unit(benchmark::kMicrosecond);
BENCHMARK(llama_1b_full_fsdp2)->Arg(2)->Arg(8)->Arg(1024)->Unit(benchmark::kMicrosecond);
BENCHMARK(llama_1b_tokens)
    ->Args({1, 512})
    ->Args({8, 2048})
    ->Args({64, 8192})
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(compiled_8b)->Arg(0)->Arg(1)->Arg(2)->Unit(benchmark::kMillisecond);
BENCHMARK(layouts_of_405b)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(sweep_1000)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
