// What a report costs: from a sweep in memory to the page's text, and from a saved file.
#include <benchmark/benchmark.h>

#include <string>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/reports/page.hpp"

namespace {

using namespace ac_advisor;

/// Llama-3.2-1B over eight ranks, 500 configurations.
const advise::Sweep& sweep_of_500() {
  static const advise::Sweep sweep = [] {
    const model::ModelSpec model = model::load_model("llama-3.2-1b");
    const StepConfig base =
        resolve_options({{"--batch", "8"}, {"--seq", "2048"}, {"--world", "8"}});
    advise::Space space = advise::default_space(model, base);
    space.set("--batch", {"1", "2", "4", "8", "16"});
    advise::Sweep all = advise::sweep(model, base, space);
    all.rows.resize(500);
    return all;
  }();
  return sweep;
}

/// All that `--format html` adds to a sweep: the details are planned too.
void html_of_500(benchmark::State& state) {
  const advise::Sweep& sweep = sweep_of_500();
  std::size_t bytes = 0;
  for (auto _ : state)
    bytes = reports::html({{{"", sweep}}, reports::details(sweep), "llama-3.2-1b"}).size();
  state.counters["bytes"] = static_cast<double>(bytes);
}

void read_500(benchmark::State& state) {
  const std::string text = reports::json(sweep_of_500());
  for (auto _ : state) benchmark::DoNotOptimize(reports::read_document(text, "sweep.json"));
}

void markdown_of_500(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(reports::markdown(sweep_of_500()));
}

BENCHMARK(html_of_500)->Unit(benchmark::kMillisecond);
BENCHMARK(read_500)->Unit(benchmark::kMillisecond);
BENCHMARK(markdown_of_500)->Unit(benchmark::kMillisecond);

}  // namespace
