// `ac-advisor trace` over a program that launches through a libcupti that is a fake: the driver's
// part is played, all else is real (the library, NVTX, the environment, the exit).
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>

#include "ac_advisor/trace/diagnose.hpp"
#include "ac_advisor/trace/read.hpp"
#include "shell.hpp"
#include "trace/find.hpp"

using namespace ac_advisor;
using namespace ac_advisor::trace;

namespace {

struct Run {
  int code = -1;
  std::string text;  ///< stdout and stderr
  std::string file;
};

std::string in_quotes(const std::string& text) { return "'" + text + "'"; }

Run traced(const std::string& name, const std::string& what, const std::string& environment = "") {
  const std::string folder = std::string(test::binary_dir);
  Run run;
  run.file = folder + "/traced_" + name + ".json";
  std::filesystem::remove(run.file);
  const std::string cupti = folder + "/fake_cuda/libcupti.so";
  // LeakSanitizer's own tracer can crash in a process that has loaded the real CUPTI: it then ends
  // with 1, whatever the program returned.
  const char* const options = std::getenv("ASAN_OPTIONS");
  const std::string no_leaks =
      "ASAN_OPTIONS=" + (options == nullptr ? "" : options + std::string(":")) + "detect_leaks=0";
  const std::string line = "env " + no_leaks + " " + environment + " " +
                           std::string(test::program) + " trace --output " + in_quotes(run.file) +
                           " -- " + in_quotes(folder + "/fake_cuda/fake_cuda_program") + " " +
                           in_quotes(cupti) + " " + what + " 2>&1";
  const test::Ran ran = test::shell(line);
  run.code = ran.code;
  run.text = ran.out;
  return run;
}

}  // namespace

TEST_CASE("trace: a program's launches, kernels, copies, ranges and memory") {
  const Run run = traced("step", "step 0");
  CAPTURE(run.text);
  REQUIRE(run.code == 0);
  CHECK(test::has(run.text, "the program's own output"));
  const TraceFile file = read_trace(run.file);
  CHECK(file.exit_code == 0);
  CHECK(test::has(file.command, "fake_cuda_program"));
  REQUIRE(file.processes.size() == 1);
  const Trace& trace = file.processes[0];
  CHECK(trace.process == "fake_cuda_progr");  // the kernel keeps 15 characters
  CHECK(trace.kernel_count() == 6);
  CHECK(trace.steps.first == 1);
  CHECK(trace.steps.later == 1);
  for (const Window window : {Window::first_step, Window::later_steps}) {
    const Work forward = test::work_of(trace, window, Phase::forward);
    CHECK(forward.launches == 1);  // the driver's call inside the runtime's is none of its own
    CHECK(forward.kernels == 1);
    CHECK(forward.kernel_ns == 100'000);
    CHECK(test::work_of(trace, window, Phase::other).copy_bytes == 4096);
    // The same module's range again, in the autograd thread.
    CHECK(test::work_of(trace, window, Phase::recompute).kernels == 1);
    CHECK(test::work_of(trace, window, Phase::recompute).long_gaps == 1);
    CHECK(test::work_of(trace, window, Phase::backward).kernel_ns == 150'000);
  }
  CHECK(trace.attribution.own_range == 4);
  CHECK(trace.attribution.other_thread == 2);
  CHECK(trace.kernels[0].name == "grad(int)");  // demangled, most time first
  CHECK(trace.memory.process == 12345);
  REQUIRE(trace.devices.size() == 1);
  CHECK(trace.devices[0].name == "NVIDIA Fake");
  CHECK(trace.devices[0].bandwidth_bytes_per_second == 2'000'000'000);
  REQUIRE(test::range_of(trace, "step/forward/layers.0", Window::later_steps, Phase::forward) !=
          nullptr);
  // What was recorded can be diagnosed: one kernel again for one of the forward.
  CHECK(diagnose(file, file).findings.at(0).value == doctest::Approx(1.0));
}

TEST_CASE("trace: the program's failure is told, and what it did is kept") {
  const Run run = traced("failing", "step 7");
  CAPTURE(run.text);
  CHECK(run.code == 3);
  CHECK(test::has(run.text, "the command ended with exit code 7"));
  CHECK(read_trace(run.file).exit_code == 7);
}

TEST_CASE("trace: a child that is forked off leaves the parent's trace alone") {
  const Run run = traced("fork", "fork 0");
  CAPTURE(run.text);
  REQUIRE(run.code == 0);
  const TraceFile file = read_trace(run.file);
  REQUIRE(file.processes.size() == 1);
  CHECK(file.processes[0].kernel_count() == 6);
}

TEST_CASE("trace: a program that ends by _exit leaves no trace, and that is said") {
  const Run run = traced("at_once", "_exit 0");
  CAPTURE(run.text);
  CHECK(run.code == 3);
  CHECK(test::has(run.text, "no CUDA activity was recorded"));
  CHECK_FALSE(std::filesystem::exists(run.file));
}

TEST_CASE("trace: another CUPTI subscriber is named") {
  const Run run = traced("busy", "step 0", "FAKE_CUPTI=busy");
  CAPTURE(run.text);
  CHECK(run.code == 3);
  CHECK(test::has(run.text, "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"));
  CHECK(test::has(run.text, "torch.profiler"));
  CHECK(test::has(run.text, "the command ended with exit code 0"));
}

TEST_CASE("trace: a libcupti whose records this build cannot read is refused, not misread") {
  const Run run = traced("old", "step 0", "FAKE_CUPTI=old");
  CAPTURE(run.text);
  CHECK(run.code == 3);
  CHECK(test::has(run.text, "API version 17 is not one"));
}

TEST_CASE("trace: what CUPTI does not record is said") {
  const Run run = traced("no_kernels", "step 0", "FAKE_CUPTI=no-kernels");
  CAPTURE(run.text);
  CHECK(run.code == 3);
  CHECK(test::has(run.text, "kernels: not recorded"));
  CHECK_FALSE(test::has(run.text, "another CUPTI client"));
  const Run drops = traced("drops", "step 0", "FAKE_CUPTI=drops");
  CHECK(read_trace(drops.file).processes.at(0).dropped_records == 5);
}

TEST_CASE("trace: another tool's injection is not replaced") {
  const Run run = traced("other_tool", "step 0", "CUDA_INJECTION64_PATH=/opt/other.so");
  CAPTURE(run.text);
  CHECK(run.code == 2);
  CHECK(test::has(run.text, "CUDA_INJECTION64_PATH is set to /opt/other.so"));
}
