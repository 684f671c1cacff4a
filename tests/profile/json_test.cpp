#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <numeric>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/profile/profile.hpp"
#include "profile/full_profile.hpp"

using namespace ac_advisor;
using nlohmann::json;

namespace {

std::string error_of(const std::string& text) {
  try {
    static_cast<void>(profile::from_json(text, "file.json"));
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a profile's JSON reads back as the same profile") {
  profile::Profile p = test::full_profile();
  p.fit.engine = 4;
  p.fit.generation = 5;
  const std::string text = profile::to_json(p);
  const profile::Profile q = profile::from_json(text, "file.json");
  CHECK(profile::to_json(q) == text);
  CHECK(q.model == p.model);
  CHECK(q.config == p.config);
  CHECK(q.parameters == p.parameters);
  CHECK(q.memory.peak_reserved == 9007199254740993);  // 2^53 + 1: no double on the way
  CHECK(q.memory.at_peak == p.memory.at_peak);
  CHECK(q.memory.timeline.size() == 3);
  CHECK(q.memory.timeline[1].phase == 2);
  CHECK(q.memory.largest.at(0).category == profile::Category::recomputed);
  CHECK(q.kernels.flops == p.kernels.flops);
  CHECK(q.time.step == p.time.step);
  CHECK(q.fit.communication == p.fit.communication);
  CHECK(q.fit.engine == 4);
  CHECK(q.fit.generation == 5);
  REQUIRE(q.budget);
  CHECK(q.budget->plan == "all");
  CHECK(q.assumptions == p.assumptions);
  CHECK(q.evidence == p.evidence);
}

TEST_CASE("planned profiles of dense and sparse models read back the same") {
  for (const char* name : {"tiny-llama", "mixtral-8x7b", "gemma-3-1b"}) {
    CAPTURE(name);
    const profile::Profile p =
        advise::plan(model::load_model(name), resolve_options({{"--ac", "full"}}));
    const std::string text = profile::to_json(p, -1);
    const profile::Profile q = profile::from_json(text, name);
    CHECK(profile::to_json(q, -1) == text);
    CHECK(q.model == p.model);
    CHECK(q.config == p.config);
  }
}

TEST_CASE("plan's JSON has the keys of the contract (design, section 8)") {
  const json j = json::parse(profile::to_json(test::full_profile()));
  for (const char* path :
       {"/schema", "/source", "/config/ac", "/memory/peak_allocated_bytes",
        "/memory/peak_reserved_bytes", "/memory/peak_excluding_workspace_bytes",
        "/memory/peak_phase", "/memory/peak_step", "/memory/peak_op", "/memory/at_peak",
        "/memory/peak_by_phase/recompute", "/memory/peak_by_phase_excluding_workspace/forward",
        "/memory/first_step_peak_bytes", "/memory/largest", "/memory/timeline",
        "/kernels/launches/optimizer", "/kernels/dispatches/loss", "/time/step_seconds"}) {
    CAPTURE(path);
    CHECK(j.contains(json::json_pointer(path)));
  }
  CHECK(j["time"]["estimate"] == true);
  CHECK(j["memory"]["at_peak"].size() == profile::category_count);
  CHECK(j["config"]["ac"] == "grouped:2");
  CHECK(j["config"]["shard"] == "hsdp:2");
  CHECK(j["memory"]["peak_reserved_bytes"].is_number_integer());
}

TEST_CASE("at_peak sums to the peak, by category and by module") {
  for (const char* ac : {"none", "full", "selective"}) {
    CAPTURE(ac);
    const profile::Profile p = advise::plan(model::load_model("qwen3-0.6b"),
                                            resolve_options({{"--ac", ac}, {"--batch", "2"}}));
    const auto& at = p.memory.at_peak;
    CHECK(std::accumulate(at.begin(), at.end(), std::int64_t{0}) == p.memory.peak_allocated);
    std::int64_t modules = 0;
    for (const auto& [name, bytes] : p.memory.at_peak_by_module) modules += bytes;
    CHECK(modules == p.memory.peak_allocated);
  }
}

TEST_CASE("what is not a profile is refused with file and field") {
  json j = json::parse(profile::to_json(test::full_profile()));
  CHECK(contains(error_of("{"), "file.json"));
  CHECK(contains(error_of(""), "file.json"));
  CHECK(contains(error_of("[]"), "file.json"));
  CHECK(contains(error_of(std::string(100000, '[')), "file.json"));
  const auto with = [&](const char* path, const json& value) {
    json changed = j;
    changed[json::json_pointer(path)] = value;
    return error_of(changed.dump());
  };
  CHECK(contains(with("/schema", "ac-advisor/sweep/1"), "schema"));
  CHECK(contains(with("/memory/peak_allocated_bytes", 1.5), "memory.peak_allocated_bytes"));
  CHECK(contains(with("/memory/peak_allocated_bytes", "1"), "memory.peak_allocated_bytes"));
  CHECK(contains(with("/memory/timeline", 3), "memory.timeline"));
  CHECK(contains(with("/config/ac", "sideways"), "config.ac"));
  CHECK(contains(with("/config/batch", "many"), "config.batch"));
  json lacking = j;
  lacking["memory"].erase("peak_op");
  CHECK(contains(error_of(lacking.dump()), "memory.peak_op"));
}

TEST_CASE("every field may be missing or of another type: an error, never a crash") {
  const json flat = json::parse(profile::to_json(test::full_profile())).flatten();
  for (const auto& [path, value] : flat.items()) {
    for (const json& wrong : {json(nullptr), json("text"), json(-1), json(1e300), json::array(),
                              json::object(), json(18446744073709551615ULL)}) {
      json changed = flat.unflatten();
      changed[json::json_pointer(path)] = wrong;
      try {
        static_cast<void>(profile::to_json(profile::from_json(changed.dump(), "file.json")));
      } catch (const UserError&) {
      }
    }
  }
}

TEST_CASE("a name that is not UTF-8 is written, not refused") {
  profile::Profile p = test::full_profile();
  p.model.name = "caf\xe9";
  CHECK(profile::from_json(profile::to_json(p), "file.json").model.name == "caf\xef\xbf\xbd");
}
