#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ac_advisor/dryrun/dryrun.hpp"
#include "ac_advisor/model/error.hpp"
#include "ac_advisor/profile/diff.hpp"
#include "ac_advisor/reports/page.hpp"
#include "ac_advisor/reports/reports.hpp"
#include "profile/full_profile.hpp"
#include "reports/json_schema.hpp"

using namespace ac_advisor;
using nlohmann::json;

namespace {

/// What the preloaded library and its Python leave of two steps.
constexpr const char* two_steps =
    R"({"kind":"process","format":1,"pid":7,"rank":0,"command":"python train.py"}
{"kind":"device","index":0,"in_use_bytes":100,"peak_bytes":4096,"failures":0,"failed_bytes":0,"total_bytes":100000,"context_bytes":1000}
{"kind":"activity","segment":"forward","activity":"copy_from_host","times":2,"bytes":64}
{"kind":"step_kernel","step":1,"segment":"forward","name":"_Z3addv","times":3}
{"kind":"step_kernel","step":1,"segment":"backward","name":"_Z3addv","times":4}
{"kind":"step_kernel","step":1,"segment":"optimizer","name":"_Z3mulv","times":9}
{"kind":"step_kernel","step":0,"segment":"forward","name":"_Z3addv","times":50}
{"kind":"step","index":0,"phases":{"forward":{"peak_allocated_bytes":10,"peak_reserved_bytes":20,"launches":50,"host_copies":2,"host_bytes":64},"backward":{"peak_allocated_bytes":30,"peak_reserved_bytes":40,"launches":4,"host_copies":0,"host_bytes":0},"optimizer":{"peak_allocated_bytes":25,"peak_reserved_bytes":40,"launches":9,"host_copies":0,"host_bytes":0}}}
{"kind":"allocator","device":0,"peak_allocated_bytes":30,"peak_reserved_bytes":40,"peak_phase":"backward","peak_step":0}
{"kind":"step","index":1,"phases":{"forward":{"peak_allocated_bytes":35,"peak_reserved_bytes":40,"launches":3,"host_copies":0,"host_bytes":0},"backward":{"peak_allocated_bytes":60,"peak_reserved_bytes":80,"launches":4,"host_copies":0,"host_bytes":0},"optimizer":{"peak_allocated_bytes":45,"peak_reserved_bytes":80,"launches":9,"host_copies":0,"host_bytes":0}}}
{"kind":"allocator","device":0,"peak_allocated_bytes":60,"peak_reserved_bytes":80,"peak_phase":"backward","peak_step":1}
{"kind":"torch","version":"2.11.0+cu130","steps":2}
{"kind":"end"}
)";

profile::Profile profile_from(const std::string& text) {
  dryrun::Run run;
  run.records.push_back(dryrun::parse_record(text, "7.jsonl"));
  return dryrun::profile_of(run, {{"python", "train.py"}});
}

/// The record's lines without those that hold `part`.
std::string without(const std::string& part) {
  std::string text, line;
  for (std::istringstream lines(two_steps); std::getline(lines, line);)
    if (line.find(part) == std::string::npos) text += line + "\n";
  return text;
}

}  // namespace

TEST_CASE("dryrun: a profile is of the second step, its peaks of the program's life") {
  const profile::Profile p = profile_from(two_steps);
  CHECK(p.source == "emulated");
  CHECK(p.memory.peak_allocated == 60);
  CHECK(p.memory.peak_reserved == 80);
  CHECK(p.memory.first_step_peak == 30);
  CHECK(p.memory.peak_phase == "backward");
  CHECK(p.memory.peak_by_phase == std::array<std::int64_t, 5>{35, 0, 60, 0, 45});
  CHECK(p.kernels.launches == std::array<std::int64_t, 5>{3, 0, 4, 0, 9});
  REQUIRE(p.emulation);
  CHECK(p.emulation->steps.size() == 2);
  CHECK(p.emulation->device_peak == 4096 + 1000);
  CHECK(p.emulation->copied_from_host == 64);
  REQUIRE(p.emulation->kernels.size() == 2);
  CHECK(p.emulation->kernels[0].name == "_Z3mulv");  // 9 launches; the other has 7
  CHECK(p.emulation->kernels[1].launches == std::array<std::int64_t, 5>{3, 0, 4, 0, 0});
  CHECK(p.fit.fits);
}

TEST_CASE("dryrun: a process that was killed is told as far as it came, and that it was") {
  // Without the end, and cut off in the middle of a line.
  const std::string cut = without("\"kind\":\"end\"") + "{\"kind\":\"dev";
  const profile::Profile p = profile_from(cut);
  CHECK(p.memory.peak_allocated == 60);
  REQUIRE(p.warnings.size() == 1);
  CHECK(p.warnings[0] ==
        "process 7 was killed or became another program: PyTorch's figures are until its last "
        "change of phase");
  CHECK(profile_from(two_steps).warnings.empty());
  const profile::Profile early = profile_from(
      "{\"kind\":\"process\",\"format\":1,\"pid\":7,\"rank\":0,\"command\":\"python\"}\n"
      "{\"kind\":\"torch\",\"version\":\"2.11.0\"}\n");
  CHECK(early.absent.at("memory.peak_allocated_bytes") ==
        "the process ended before PyTorch's counters were told");
}

TEST_CASE("dryrun: counts of a device and of an activity are what was told last") {
  const auto counts = [](int bytes) {
    return "{\"kind\":\"device\",\"index\":0,\"in_use_bytes\":1,\"peak_bytes\":" +
           std::to_string(bytes) +
           ",\"failures\":0,\"failed_bytes\":0,\"total_bytes\":100000,\"context_bytes\":1000}\n"
           "{\"kind\":\"activity\",\"segment\":\"forward\",\"activity\":\"copy_from_host\","
           "\"times\":1,\"bytes\":" +
           std::to_string(bytes) + "}\n";
  };
  const profile::Profile p = profile_from(two_steps + counts(5000) + counts(6000));
  CHECK(p.emulation->device_peak == 6000 + 1000);
  CHECK(p.emulation->copied_from_host == 6000);
}

TEST_CASE("dryrun: the profile is what its schema says, and is read as it was written") {
  for (const std::string& text : {std::string(two_steps), without("\"kind\":\"step\""),
                                  without("allocator"), without("torch")}) {
    const std::string written = profile::to_json(profile_from(text));
    for (const std::string& error : test::schema_errors(written)) FAIL_CHECK(error);
    CHECK(profile::to_json(profile::from_json(written, "file")) == written);
    const reports::Document document = reports::read_document(written, "file");
    CHECK(reports::table(*reports::profile_of(document), {}).find("emulated: python train.py") !=
          std::string::npos);
  }
}

TEST_CASE("dryrun: without an optimizer step, phases are absent with the reason, not zero") {
  const json j = json::parse(profile::to_json(profile_from(without("\"kind\":\"step\""))));
  CHECK(j["kernels"]["launches"].is_null());
  CHECK(j["absent"]["kernels.launches"] == "the program made no optimizer step");
  CHECK(j["memory"]["peak_allocated_bytes"] == 60);
}

TEST_CASE("dryrun: without PyTorch only the device's bytes are known") {
  const json j = json::parse(profile::to_json(profile_from(
      "{\"kind\":\"process\",\"format\":1,\"pid\":7,\"rank\":0,\"command\":\"a.out\"}\n"
      "{\"kind\":\"device\",\"index\":0,\"in_use_bytes\":0,\"peak_bytes\":2097152,\"failures\":0,"
      "\"failed_bytes\":0,\"total_bytes\":100000000,\"context_bytes\":1000}\n")));
  CHECK(j["memory"]["peak_allocated_bytes"].is_null());
  CHECK(j["memory"]["peak_reserved_bytes"].is_null());
  CHECK(j["emulation"]["device_peak_bytes"] == 2097152 + 1000);
  for (const std::string& error : test::schema_errors(j.dump())) FAIL_CHECK(error);
}

TEST_CASE("dryrun: beside a plan, the loss counts as forward and recomputation as backward") {
  const profile::Profile emulated = profile_from(two_steps), planned = test::full_profile();
  const profile::Diff d = profile::diff(planned, emulated);
  REQUIRE(!d.phases.empty());
  CHECK(d.phases[0].name == "forward");
  CHECK(d.phases[0].a ==
        std::max(planned.memory.peak_by_phase[0], planned.memory.peak_by_phase[1]));
  CHECK(d.phases[0].b == 35);
  for (const profile::Change& c : d.launches) CHECK(c.name != "loss");
  CHECK(d.launches[0].a == planned.kernels.launches[0] + planned.kernels.launches[1]);
  CHECK(d.categories.empty());
  CHECK(std::none_of(d.fields.begin(), d.fields.end(),
                     [](const auto& change) { return change.field.starts_with("model."); }));
}

TEST_CASE("dryrun: a line that is none is named") {
  CHECK_THROWS_WITH_AS(
      static_cast<void>(dryrun::parse_record("{\"kind\":\"device\"}\n", "7.jsonl")),
      doctest::Contains("7.jsonl:1: "), UserError);
}
