// Cases whose profile was measured: what is missing is not measured, what is wrong is bad input.
#include "ac_advisor/advise/advise.hpp"
#include "gate/gate_folder.hpp"

using namespace ac_advisor;
using gate::Outcome;
using test::Json;

namespace {

Json measured_gate() {
  return {{"cases",
           {{{"name", "run"},
             {"source", "measured"},
             {"profile", "run.json"},
             {"limits", {{"peak_allocated", {{"budget", "1GiB"}}}}}}}}};
}

/// What a trainer would have written for the small model.
Json measured_profile() {
  const model::ModelSpec model =
      model::parse_config(test::small_llama().dump(), "config.json", "model");
  profile::Profile p =
      advise::plan(model, resolve_options({{"--batch", "2"}, {"--seq", "128"}, {"--ac", "full"}}));
  p.source = "measured";
  p.time.basis = profile::TimeBasis::measured;
  return Json::parse(profile::to_json(p));
}

gate::Verdict verdict(const Json& gate, const std::string& profile) {
  const test::GateFolder folder;
  folder.write_gate(gate);
  folder.write("model/config.json", test::small_llama().dump());
  if (!profile.empty()) folder.write("run.json", profile);
  const gate::Report report = folder.check();
  REQUIRE(report.cases.size() == 1);
  return report.cases[0].verdicts.at(0);
}

}  // namespace

TEST_CASE("measured: a profile is judged as it is") {
  CHECK(verdict(measured_gate(), measured_profile().dump()).outcome == Outcome::passes);
  Json profile = measured_profile();
  profile["memory"]["peak_allocated_bytes"] = (std::int64_t{1} << 30) + 1;
  CHECK(verdict(measured_gate(), profile.dump()).outcome == Outcome::exceeded);
}

TEST_CASE("measured: without the profile, or the figure in it, nothing was measured: exit code 3") {
  gate::Verdict v = verdict(measured_gate(), "");
  CHECK(v.outcome == Outcome::not_measured);
  CHECK(gate::exit_code({"", {{"run", {}, {v}}}}) == 3);
  Json profile = measured_profile();
  profile["memory"]["peak_reserved_bytes"] = 0;
  Json gate = measured_gate();
  CHECK(verdict(gate, profile.dump()).outcome == Outcome::passes);  // it is not asked for
  gate["cases"][0]["limits"]["peak_reserved"] = {{"budget", "1GiB"}};
  v = verdict(gate, profile.dump());
  CHECK(v.outcome == Outcome::not_measured);
  CHECK(v.message.find("peak_reserved") != std::string::npos);
}

TEST_CASE("measured: the worst of several cases is bad input, then not measured, then exceeded") {
  const auto report = [](std::initializer_list<Outcome> outcomes) {
    gate::Report r;
    for (const Outcome outcome : outcomes) {
      gate::Verdict v;
      v.outcome = outcome;
      r.cases.push_back({"c", {}, {v}});
    }
    return gate::exit_code(r);
  };
  CHECK(report({Outcome::passes, Outcome::improved, Outcome::waived, Outcome::off}) == 0);
  CHECK(report({Outcome::passes, Outcome::exceeded}) == 1);
  CHECK(report({Outcome::exceeded, Outcome::not_measured, Outcome::passes}) == 3);
  CHECK(report({Outcome::not_measured, Outcome::bad_input, Outcome::exceeded}) == 2);
}

TEST_CASE("measured: a planned profile, and absurd figures, are bad input") {
  Json profile = measured_profile();
  profile["source"] = "simulated";
  const gate::Verdict v = verdict(measured_gate(), profile.dump());
  CHECK(v.outcome == Outcome::bad_input);
  CHECK(v.message.find("a planned profile is no measurement") != std::string::npos);
  const auto with = [](const char* section, const char* key, const Json& value) {
    Json p = measured_profile();
    p[section][key] = value;
    return verdict(measured_gate(), p.dump()).outcome;
  };
  CHECK(with("memory", "peak_allocated_bytes", -1) == Outcome::bad_input);
  CHECK(with("memory", "peak_allocated_bytes", "1") == Outcome::bad_input);
  CHECK(with("memory", "peak_allocated_bytes", 9223372036854775807) == Outcome::bad_input);
  CHECK(with("memory", "peak_allocated_bytes", 18446744073709551615U) == Outcome::bad_input);
  CHECK(with("memory", "at_peak_by_module", {{"a", 9223372036854775807}}) == Outcome::bad_input);
  CHECK(with("time", "recompute_seconds", 1e300) == Outcome::bad_input);
  CHECK(with("time", "step_seconds", -1.0) == Outcome::bad_input);
  CHECK(verdict(measured_gate(), "{").outcome == Outcome::bad_input);
  CHECK(verdict(measured_gate(), "{}").outcome == Outcome::bad_input);
  CHECK(verdict(measured_gate(), "\xff\xfe{}").outcome == Outcome::bad_input);
}

TEST_CASE("measured: a profile of another model or option than the case says is a failure") {
  Json gate = measured_gate();
  gate["cases"][0]["model"] = "model";
  gate["cases"][0]["options"] = {{"batch", 2}, {"seq", 128}, {"ac", "full"}};
  const std::string profile = measured_profile().dump();
  CHECK(verdict(gate, profile).outcome == Outcome::passes);
  gate["cases"][0]["options"]["batch"] = 4;
  gate::Verdict v = verdict(gate, profile);
  CHECK(v.outcome == Outcome::other_fingerprint);
  CHECK(v.message.find("--batch 4 → 2") != std::string::npos);
  gate["cases"][0]["options"]["batch"] = 2;
  gate["cases"][0]["model"] = "llama-3.2-1b";
  v = verdict(gate, profile);
  CHECK(v.outcome == Outcome::other_fingerprint);
  CHECK(v.message.find("model.hidden 2048 → 64") != std::string::npos);
}

TEST_CASE("measured: every truncation of a profile is answered") {
  const std::string whole = measured_profile().dump();
  const test::GateFolder folder;
  folder.write_gate(measured_gate());
  for (std::size_t size = 0; size < whole.size(); size += 1 + size / 64) {
    CAPTURE(size);
    folder.write("run.json", whole.substr(0, size));
    CHECK(folder.check().cases[0].verdicts[0].outcome == Outcome::bad_input);
  }
}
