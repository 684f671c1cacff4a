// What a tool sees of the trainer's step: NVTX ranges, heard by the library that `ac-advisor trace`
// injects; no GPU is needed for these.
#include <algorithm>
#include <filesystem>
#include <set>

#include "ac_advisor/trace/injection.hpp"
#include "ac_advisor/trace/run_traced.hpp"
#include "test_paths.hpp"
#include "trainer/doctest_after_torch.hpp"

using namespace ac_advisor;

TEST_CASE("NVTX: a step's ranges are its phases, and in them the module paths") {
  if (trace::injection().library.empty()) return;  // built without CUPTI's headers
  const std::string result = std::string(test::binary_dir) + "/ranges_test_result.json";
  const trace::TracedRun run = trace::run_traced(
      {std::string(test::program), "measure", "tiny-llama", "--batch", "1", "--seq", "16", "--ac",
       "full", "--steps", "2", "--format", "json", "--output", result});
  std::filesystem::remove(result);
  REQUIRE(run.file.exit_code == 0);
  REQUIRE(run.file.processes.size() == 1);
  const trace::Trace& trace = run.file.processes[0];
  CHECK(trace.process == "ac-trainer");
  CHECK(trace.steps.first == 1);
  CHECK(trace.steps.later >= 1);
  std::set<std::string> seen;
  for (const trace::RangeTotal& range : trace.ranges) {
    CAPTURE(range.path);
    for (const char* phase : {"forward", "backward", "recompute", "optimizer"})
      if (range.path.starts_with(std::string("ac-trainer/step/") + phase + "/"))
        CHECK(trace::phase_names[static_cast<std::size_t>(range.phase)] == std::string(phase));
    seen.insert(range.path);
  }
  for (const char* path :
       {"ac-trainer/step/forward", "ac-trainer/step/loss", "ac-trainer/step/optimizer",
        "ac-trainer/step/forward/blocks.0.mlp", "ac-trainer/step/recompute/blocks.0.mlp",
        "ac-trainer/step/backward/blocks.0.mlp"}) {
    CAPTURE(path);
    const bool exact_or_inside = std::any_of(
        seen.begin(), seen.end(), [&](const std::string& p) { return p.starts_with(path); });
    CHECK(exact_or_inside);
  }
}
