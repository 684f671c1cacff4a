// Verdicts of one small case: what passes, what fails, with which words and which exit code.
#include "ac_advisor/model/error.hpp"
#include "gate/gate_folder.hpp"

using namespace ac_advisor;
using gate::Outcome;
using test::Json;

namespace {

const Json regression_limit = {{"peak_allocated", {{"regression", {{"percent", 1}}}}}};

/// The gate with the small model, and the baseline written.
struct SmallGate : test::GateFolder {
  explicit SmallGate(const Json& gate) {
    write_gate(gate);
    write_model(test::small_llama());
    update();
  }
  void write_model(const Json& model) const { write("model/config.json", model.dump(2)); }
  [[nodiscard]] Json baseline() const { return Json::parse(read("baselines/small.json")); }
  void write_baseline(const Json& json) const { write("baselines/small.json", json.dump(2)); }
};

const gate::Verdict& first(const gate::Report& report) {
  REQUIRE(!report.cases.empty());
  REQUIRE(!report.cases.front().verdicts.empty());
  return report.cases.front().verdicts.front();
}

bool says(const gate::Verdict& verdict, const std::string& part) {
  return verdict.message.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("gate: an unchanged case passes, with nothing to say") {
  const SmallGate folder(test::small_gate(regression_limit));
  const gate::Report report = folder.check();
  CHECK(first(report).outcome == Outcome::passes);
  CHECK(first(report).message.empty());
  CHECK(gate::exit_code(report) == 0);
}

TEST_CASE("gate: a changed field of the model fails and is named, with how the peak moved") {
  const SmallGate folder(test::small_gate(regression_limit));
  Json model = test::small_llama();
  model["num_hidden_layers"] = 3;
  folder.write_model(model);
  const gate::Report report = folder.check();
  const gate::Verdict& v = first(report);
  CHECK(v.outcome == Outcome::other_fingerprint);
  REQUIRE(v.cause.fields.size() == 1);
  CHECK(v.cause.fields[0].field == "num_hidden_layers");
  CHECK(says(v, "num_hidden_layers 2 → 3"));
  CHECK(says(v, "peak_allocated "));
  CHECK(says(v, "by module, "));
  CHECK(says(v, "check --config " + report.origin + " --update --only small"));
  CHECK(v.place.file == folder / "model/config.json");
  CHECK(v.place.line == 5);  // of the field in the file as it is written above
  CHECK(gate::exit_code(report) == 1);
}

TEST_CASE("gate: less memory by another configuration is no pass either") {
  const SmallGate folder(test::small_gate(regression_limit));
  Json model = test::small_llama();
  model["vocab_size"] = 256;
  folder.write_model(model);
  const gate::Report report = folder.check();
  CHECK(first(report).outcome == Outcome::other_fingerprint);
  CHECK(*first(report).now < *first(report).baseline);
  CHECK(gate::exit_code(report) == 1);
}

TEST_CASE("gate: a changed option is named as it is written, without what follows from it") {
  Json gate = test::small_gate(regression_limit);
  const SmallGate folder(gate);
  gate["cases"][0]["options"]["framework"] = "torchtitan";
  folder.write_gate(gate);
  const gate::Report report = folder.check();
  REQUIRE(first(report).cause.fields.size() == 1);
  CHECK(first(report).cause.fields[0].field == "--framework");
  CHECK(says(first(report), "--framework hf → torchtitan"));
  const std::string text = folder.read("ac-advisor.json");
  const std::string above = text.substr(0, text.find("\"framework\""));
  CHECK(first(report).place.line == 1 + std::count(above.begin(), above.end(), '\n'));
}

TEST_CASE("gate: what changes no figure of the model and no option is no difference") {
  Json gate = test::small_gate(regression_limit);
  const SmallGate folder(gate);
  Json model = test::small_llama();
  model["torch_dtype"] = "bfloat16";
  model["transformers_version"] = "9.9.9";
  folder.write_model(model);
  gate["cases"][0]["options"]["grad-accum"] = 1;  // the default, now written out
  folder.write_gate(gate);
  CHECK(first(folder.check()).outcome == Outcome::passes);
}

TEST_CASE("gate: the folder's name is no part of the model") {
  Json gate = test::small_gate(regression_limit);
  const SmallGate folder(gate);
  gate["cases"][0]["model"] = "elsewhere/config.json";
  folder.write("elsewhere/config.json", test::small_llama().dump());
  folder.write_gate(gate);
  CHECK(first(folder.check()).outcome == Outcome::passes);
}

TEST_CASE("gate: another op table, profile schema or baseline schema is told as such") {
  const SmallGate folder(test::small_gate(regression_limit));
  const Json good = folder.baseline();
  CHECK(good["fingerprint"]["op_table"] == gate::op_table_version());
  Json changed = good;
  changed["fingerprint"]["op_table"] = "0.0.1-00";
  folder.write_baseline(changed);
  CHECK(says(first(folder.check()), "op_table 0.0.1-00 → " + gate::op_table_version()));
  CHECK(gate::exit_code(folder.check()) == 1);
  changed = good;
  changed["fingerprint"]["profile_schema"] = "ac-advisor/profile/0";
  folder.write_baseline(changed);
  CHECK(says(first(folder.check()), "profile_schema ac-advisor/profile/0 → ac-advisor/profile/1"));
  folder.write_baseline({{"schema", "ac-advisor/baseline/7"}, {"whatever", 1}});
  CHECK(says(first(folder.check()), "schema ac-advisor/baseline/7 → ac-advisor/baseline/1"));
  CHECK(gate::exit_code(folder.check()) == 1);
}

TEST_CASE("gate: a missing baseline and a missing case fail, each with its own message") {
  Json gate = test::small_gate(regression_limit);
  const SmallGate folder(gate);
  gate["cases"][0]["name"] = "other";
  folder.write_gate(gate);
  const gate::Report report = folder.check();
  REQUIRE(report.cases.size() == 2);
  CHECK(report.cases[0].verdicts[0].outcome == Outcome::no_baseline);
  CHECK(says(report.cases[0].verdicts[0], "there is no baseline"));
  CHECK(report.cases[1].name == "small");
  CHECK(report.cases[1].verdicts[0].outcome == Outcome::missing_case);
  CHECK(says(report.cases[1].verdicts[0], "the case is missing"));
  CHECK(gate::exit_code(report) == 1);
  // One case alone is asked for: the others are not its business.
  CHECK(gate::check(folder.gate(), {gate::Date{}, {"other"}, false}).cases.size() == 1);
  CHECK_THROWS_WITH_AS(
      static_cast<void>(gate::check(folder.gate(), {gate::Date{}, {"othr"}, false})),
      doctest::Contains("did you mean other?"), UserError);
}

TEST_CASE("gate: a regression names the category, the module and the baseline's figure") {
  const SmallGate folder(test::small_gate(regression_limit));
  Json baseline = folder.baseline();
  const auto peak = baseline["figures"]["peak_allocated_bytes"].get<std::int64_t>();
  const std::int64_t moved = peak / 50;  // 2 % of it; 1 % is allowed
  baseline["figures"]["peak_allocated_bytes"] = peak - moved;
  baseline["at_peak_bytes"]["loss"] = baseline["at_peak_bytes"]["loss"].get<std::int64_t>() - moved;
  baseline["at_peak_by_module_bytes"]["loss"] =
      baseline["at_peak_by_module_bytes"]["loss"].get<std::int64_t>() - moved;
  baseline.erase("checksum");
  folder.write_baseline(baseline);
  const gate::Report report = folder.check();
  const gate::Verdict& v = first(report);
  CHECK(v.outcome == Outcome::exceeded);
  CHECK(v.now == peak);
  CHECK(v.baseline == peak - moved);
  CHECK(v.limit == (peak - moved) + (peak - moved) / 100);
  REQUIRE(v.cause.category);
  CHECK(v.cause.category->name == "loss");
  CHECK(v.cause.category->delta() == moved);
  REQUIRE(v.cause.module);
  CHECK(v.cause.module->name == "loss");
  CHECK(says(v, "more than the allowed 1 %"));
  CHECK(gate::exit_code(report) == 1);
}

TEST_CASE("gate: less than the baseline is good news, and --tighten says what to write") {
  const SmallGate folder(test::small_gate(regression_limit));
  Json baseline = folder.baseline();
  const auto peak = baseline["figures"]["peak_allocated_bytes"].get<std::int64_t>();
  baseline["figures"]["peak_allocated_bytes"] = peak + 4096;
  for (const char* parts : {"at_peak_bytes", "at_peak_by_module_bytes"})
    baseline[parts]["loss"] = baseline[parts]["loss"].get<std::int64_t>() + 4096;
  baseline.erase("checksum");
  folder.write_baseline(baseline);
  const gate::Report plain = folder.check();
  CHECK(first(plain).outcome == Outcome::improved);
  CHECK(says(first(plain), "-4,096 bytes"));
  CHECK_FALSE(says(first(plain), "Suggested"));
  CHECK(gate::exit_code(plain) == 0);
  const gate::Report tight = gate::check(folder.gate(), {gate::Date{}, {}, true});
  CHECK(
      says(first(tight), "Suggested baseline: \"peak_allocated_bytes\": " + std::to_string(peak)));
}

TEST_CASE("gate: a budget needs no baseline, and says what is largest") {
  const SmallGate folder(test::small_gate({{"peak_allocated", {{"budget", 4096}}}}));
  CHECK_FALSE(std::filesystem::exists(folder / "baselines/small.json"));
  const gate::Report report = folder.check();
  CHECK(first(report).outcome == Outcome::exceeded);
  CHECK(first(report).cause.category);
  CHECK(says(first(report), "over the budget of 4,096 bytes"));
  CHECK(says(first(report), "Largest: "));
  CHECK(gate::exit_code(report) == 1);
}

TEST_CASE("gate: launches, recomputation and step time are limited if asked") {
  const SmallGate folder(test::small_gate({{"launches", {{"budget", 1}}},
                                           {"recompute_share", {{"budget", 0.0}}},
                                           {"step_seconds", {{"budget", 1e-9}}}}));
  const gate::Report report = folder.check();
  REQUIRE(report.cases[0].verdicts.size() == 3);
  for (const gate::Verdict& v : report.cases[0].verdicts) {
    CHECK(v.outcome == Outcome::exceeded);
    REQUIRE(v.cause.category);  // a phase
    CHECK(says(v, v.cause.category->name));
  }
}

TEST_CASE("gate: levels decide whether it counts") {
  const auto exit_of = [](const char* level) {
    Json gate = test::small_gate({{"peak_allocated", {{"budget", 1}, {"level", level}}}});
    const SmallGate folder(gate);
    return std::pair{gate::exit_code(folder.check()), first(folder.check()).outcome};
  };
  CHECK(exit_of("error") == std::pair{1, Outcome::exceeded});
  CHECK(exit_of("warn") == std::pair{0, Outcome::exceeded});
  CHECK(exit_of("off") == std::pair{0, Outcome::off});
}

TEST_CASE("gate: a waiver holds through its last day and not beyond") {
  Json gate = test::small_gate({{"peak_allocated", {{"budget", 1}}}});
  gate["waivers"] = {{{"case", "small"},
                      {"figure", "peak_allocated"},
                      {"reason", "until the new loss lands"},
                      {"expires", "2026-03-01"}}};
  const SmallGate folder(gate);
  const gate::Report before = folder.check("2026-02-28"), on = folder.check("2026-03-01"),
                     after = folder.check("2026-03-02");
  CHECK(first(before).outcome == Outcome::waived);
  CHECK(first(on).outcome == Outcome::waived);
  CHECK(says(first(on), "until the new loss lands"));
  CHECK(gate::exit_code(on) == 0);
  CHECK(first(after).outcome == Outcome::waiver_expired);
  CHECK(says(first(after), "the waiver expired on 2026-03-01"));
  CHECK(gate::exit_code(after) == 1);
}

TEST_CASE("gate: what is wrong with one case is its verdict, and the others are judged") {
  Json gate = test::small_gate({{"peak_allocated", {{"budget", 1}}}});
  Json bad = gate["cases"][0];
  bad["name"] = "bad";
  bad["model"] = "no/such/folder";
  gate["cases"].push_back(bad);
  bad["name"] = "worse";
  bad["model"] = "model";
  bad["options"]["bacth"] = 8;
  gate["cases"].push_back(bad);
  const SmallGate folder(gate);
  const gate::Report report = folder.check();
  REQUIRE(report.cases.size() == 3);
  CHECK(report.cases[0].verdicts[0].outcome == Outcome::exceeded);
  CHECK(report.cases[1].verdicts[0].outcome == Outcome::bad_input);
  CHECK(says(report.cases[1].verdicts[0], "no/such/folder"));
  CHECK(says(report.cases[2].verdicts[0], "did you mean --batch?"));
  CHECK(gate::exit_code(report) == 2);
}
