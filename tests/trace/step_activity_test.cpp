// Steps of the trainer as the injected library hears of them: ranges and launches from the host,
// work from the device.
#include "ac_advisor/trace/step_activity.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include "ac_advisor/model/error.hpp"
#include "trace/find.hpp"
#include "trace/recorder.hpp"

using namespace ac_advisor;
using namespace ac_advisor::trace;

namespace {

using Kind = DeviceWork::Kind;

class Run {
 public:
  explicit Run(const char* outermost = "ac-trainer") { recorder_.push(outermost); }

  /// `microseconds` of work after `wait` of idling, launched inside phase and module.
  void work(const char* phase, const char* module, std::int64_t wait, std::int64_t microseconds,
            Kind kind = Kind::kernel, std::int64_t bytes = 0) {
    recorder_.push(phase);
    recorder_.push(module);
    launch(wait, microseconds, kind, bytes);
    recorder_.pop();
    recorder_.pop();
  }
  void launch(std::int64_t wait, std::int64_t microseconds, Kind kind = Kind::kernel,
              std::int64_t bytes = 0) {
    recorder_.api_call(++correlation_, kind == Kind::kernel);
    now_ += wait * 1000;
    recorder_.work({kind, "k", now_, now_ + microseconds * 1000, 0, bytes, false}, correlation_);
    now_ += microseconds * 1000;
  }
  /// `slow`: how much longer every kernel takes.
  void step(std::int64_t number, std::int64_t slow = 0) {
    recorder_.push("step " + std::to_string(number));
    launch(10, 5, Kind::copy, 4096);  // the batch
    work("forward", "blocks.0.mlp", 1, 100 + slow);
    work("forward", "blocks.0.mlp", 1, 100 + slow);
    work("loss", "loss", 2, 30 + slow);
    work("backward", "loss", 0, 50 + slow);
    for (const char* block : {"blocks.1", "blocks.0"}) {
      work("recompute", block, 60, 40 + slow);  // waits for the host
      work("backward", block, 3, 70 + slow);
    }
    work("optimizer", "", 4, 20 + slow);
    work("optimizer", "", 0, 6, Kind::memset, 128);
    recorder_.pop();
  }
  void ranges_only(const char* name) { recorder_.push(name); }

  TraceFile file() {
    TraceFile file;
    file.origin = "run.json";
    file.processes.push_back(recorder_.report());
    return file;
  }

 private:
  Recorder recorder_{::getpid()};
  std::uint32_t correlation_ = 0;
  std::int64_t now_ = 1'000'000;
};

constexpr std::size_t forward = 0, loss = 1, backward = 2, recompute = 3, optimizer = 4;

}  // namespace

TEST_CASE("a trace of the trainer gives each phase's kernels, copies and idling of a steady step") {
  Run run;
  run.step(0, 1000);  // warms up: slow, and left out
  for (std::int64_t n = 1; n < 4; ++n) run.step(n);
  const StepActivity a = step_activity(run.file());
  CHECK(a.steps == 3);
  const auto& phase = a.by_phase;
  CHECK(phase[forward].kernels == doctest::Approx(2));
  CHECK(phase[forward].launches == doctest::Approx(2));
  CHECK(phase[forward].kernel_seconds == doctest::Approx(200e-6));
  CHECK(phase[forward].idle_seconds == doctest::Approx(2e-6));
  CHECK(phase[forward].long_gaps == 0);
  CHECK(phase[loss].kernels == doctest::Approx(1));
  CHECK(phase[loss].kernel_seconds == doctest::Approx(30e-6));
  // Its modules are those of the forward, and it is no recomputation for that.
  CHECK(phase[backward].kernels == doctest::Approx(3));
  CHECK(phase[backward].kernel_seconds == doctest::Approx(190e-6));
  CHECK(phase[recompute].kernels == doctest::Approx(2));
  CHECK(phase[recompute].kernel_seconds == doctest::Approx(80e-6));
  CHECK(phase[recompute].long_gaps == doctest::Approx(2));
  CHECK(phase[recompute].long_gap_seconds == doctest::Approx(120e-6));
  CHECK(phase[recompute].idle_seconds == doctest::Approx(120e-6));
  CHECK(phase[optimizer].kernels == doctest::Approx(1));
  CHECK(phase[optimizer].memsets == doctest::Approx(1));
  CHECK(phase[optimizer].memset_bytes == doctest::Approx(128));
  CHECK(a.outside.copies == doctest::Approx(1));
  CHECK(a.outside.copy_bytes == doctest::Approx(4096));
  CHECK(a.outside.idle_seconds == doctest::Approx(10e-6));
  // Kernels 200 + 30 + 190 + 80 + 20, copy 5, memset 6; idle 10 + 2 + 2 + 6 + 120 + 4.
  CHECK(a.step_seconds == doctest::Approx(531e-6 + 144e-6));
}

TEST_CASE("a trace fills what only it knows of a measured profile") {
  Run run;
  run.step(0);
  run.step(1);
  profile::Profile p;
  p.absent = {{"instruments", "not traced"},
              {"time.launch_bound_seconds", "not traced"},
              {"time.mfu", "not known"}};
  add_activity(p, step_activity(run.file()));
  CHECK(p.kernels.launches == std::array<std::int64_t, 5>{2, 1, 3, 2, 1});
  CHECK(p.time.launch_bound == doctest::Approx(144e-6));
  REQUIRE(p.instruments);
  CHECK(p.instruments->long_gaps[recompute] == doctest::Approx(2));
  CHECK(p.instruments->idle_seconds[optimizer] == doctest::Approx(4e-6));
  CHECK(p.absent == std::map<std::string, std::string>{{"time.mfu", "not known"}});
  add_no_activity(p, "the trace was lost");
  CHECK(p.absent.at("instruments.idle_seconds") == "the trace was lost");
}

TEST_CASE("a trace that cannot tell a steady step's phases is refused, with the reason") {
  const auto refused = [](const TraceFile& file, const char* part) {
    CHECK_THROWS_WITH_AS(static_cast<void>(step_activity(file)), doctest::Contains(part),
                         UserError);
  };
  Run one_step;
  one_step.step(0);
  refused(one_step.file(), "a steady one is the second or later");
  Run no_phases;
  for (const char* step : {"step 0", "step 1"}) {
    no_phases.ranges_only(step);
    no_phases.launch(1, 1);
  }
  TraceFile nested = no_phases.file();
  nested.processes[0].steps.later = 1;
  refused(nested, "no ranges forward, backward");
  refused(TraceFile{.origin = "empty.json"}, "empty.json");
}
