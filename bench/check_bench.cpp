// The gate on 100 simulated cases, as ac-advisor check runs it: the file read, every case planned,
// judged against its baseline and rendered.
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "ac_advisor/gate/check.hpp"
#include "ac_advisor/reports/reports.hpp"

namespace {

using namespace ac_advisor;
namespace fs = std::filesystem;

/// Ten models with ten configurations each: 16 to 80 blocks.
std::string gate_text() {
  const char* const models[] = {"llama-3.2-1b", "llama-3.1-8b", "qwen3-0.6b", "qwen3-8b",
                                "gemma-2-2b",   "mistral-7b",   "gemma-3-1b", "phi-3-mini",
                                "mixtral-8x7b", "qwen2.5-1.5b"};
  const char* const modes[] = {"none",    "full",    "selective", "attention", "sqrt",
                               "every:2", "every:4", "grouped:2", "grouped:4", "grouped:8"};
  std::string cases;
  for (const char* model : models)
    for (const char* mode : modes)
      cases += fmt::format(
          R"({}{{"name": "case-{}", "model": "{}",
                "options": {{"batch": 2, "seq": 2048, "ac": "{}"}},
                "limits": {{"peak_allocated": {{"regression": {{"percent": 1}}}}}}}})",
          cases.empty() ? "" : ",\n", std::count(cases.begin(), cases.end(), '\n'), model, mode);
  return "{\"cases\": [" + cases + "]}";
}

void check_100_cases(benchmark::State& state) {
  std::string folder = (fs::temp_directory_path() / "ac_advisor_bench.XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return state.SkipWithError("no temporary folder");
  fs::create_directory(folder + "/baselines");
  const std::string text = gate_text(), origin = folder + "/ac-advisor.json";
  for (const gate::Rewrite& r : gate::update(gate::parse_gate_file(text, origin), {}).rewrites)
    std::ofstream(r.path) << r.text;
  std::size_t cases = 0;
  for (auto _ : state) {
    const gate::Report report = gate::check(gate::parse_gate_file(text, origin), {});
    benchmark::DoNotOptimize(reports::table(report, {}));
    if (gate::exit_code(report) != 0) state.SkipWithError("the cases do not pass");
    cases = report.cases.size();
  }
  state.counters["cases"] = static_cast<double>(cases);
  fs::remove_all(folder);
}

BENCHMARK(check_100_cases)->Unit(benchmark::kMillisecond);

}  // namespace
