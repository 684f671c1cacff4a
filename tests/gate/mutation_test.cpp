// Random changes to models, options, limits and baselines, against an oracle that shares no code
// with src/gate: it plans the model before and after, and does its own arithmetic.
#include "mutation.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/advise/resolve.hpp"
#include "ac_advisor/model/error.hpp"

using namespace ac_advisor;
using test::Json;

namespace {

/// What the oracle plans: the model and options as the files have them.
struct Planned {
  model::ModelSpec spec;
  StepConfig config;
  std::map<std::string, std::int64_t> figures;
};

std::optional<Planned> plan(const test::Subject& s) {
  try {
    OptionList options;
    for (const auto& item : s.gate["cases"][0]["options"].items()) {
      const Json& v = item.value();
      options.emplace_back("--" + item.key(), v.is_boolean()  ? ""
                                              : v.is_string() ? v.get<std::string>()
                                                              : v.dump());
    }
    Planned p;
    p.spec = model::parse_config(s.model.dump(), "config.json", "model");
    const profile::Profile profile = advise::plan(p.spec, advise::resolve(p.spec, options).config);
    p.config = profile.config;
    p.figures = {{"peak_allocated", profile.memory.peak_allocated},
                 {"peak_reserved", profile.memory.peak_reserved}};
    for (const std::int64_t n : profile.kernels.launches) p.figures["launches"] += n;
    return p;
  } catch (const UserError&) {
    return std::nullopt;
  }
}

/// May `now` be, where `base` was? Percent are of tenths at most, so thousandths are whole.
bool within(const Json& regression, std::int64_t base, std::int64_t now) {
  if (now <= base) return true;
  for (const char* absolute : {"bytes", "launches"})
    if (regression.contains(absolute) && now - base > regression[absolute].get<std::int64_t>())
      return false;
  if (!regression.contains("percent")) return true;
  const auto tenths = std::llround(regression["percent"].get<double>() * 10);
  return (now - base) * 1000 <= base * tenths;
}

struct Expected {
  int exit_code = 0;
  std::multiset<std::string> outcomes;  ///< those that a reader sees: not "passes", "improved"
};

Expected expect(const test::Subject& before, const test::Subject& after,
                const test::Mutation& mutation) {
  Expected e;
  const auto old = plan(before), now = plan(after);
  REQUIRE(old);
  const Json& limits = after.gate["cases"][0]["limits"];
  const auto level = [](const Json& limit) { return limit.value("level", "error"); };
  const auto fail = [&](const std::string& outcome, const std::string& at) {
    e.outcomes.insert(outcome);
    if (at == "error" && outcome != "waived") e.exit_code = std::max(e.exit_code, 1);
  };
  std::string strictest = "off";
  for (const Json& limit : limits)
    if (limit.contains("regression") && strictest != "error" && level(limit) != "off")
      strictest = level(limit);
  bool all_off = true;
  for (const Json& limit : limits) all_off = all_off && level(limit) == "off";
  if (mutation.case_missing) fail("missing_case", "error");
  if (all_off) {
    e.outcomes.insert("off");
    return e;
  }
  if (!now) {
    e.outcomes.insert("bad_input");
    e.exit_code = 2;
    return e;
  }
  const bool other =
      mutation.other_fingerprint || !(old->spec == now->spec) || !(old->config == now->config);
  const bool no_baseline = after.baseline.is_null() || mutation.case_missing;
  if (strictest != "off" && no_baseline) fail("no_baseline", strictest);
  if (strictest != "off" && !no_baseline && other) fail("other_fingerprint", strictest);
  for (const auto& item : limits.items()) {
    const Json& limit = item.value();
    const std::int64_t value = now->figures.at(item.key());
    const auto judge = [&](bool over) {
      if (level(limit) == "off") return static_cast<void>(e.outcomes.insert("off"));
      if (!over) return;
      const bool waiver = after.gate.contains("waivers") && item.key() == "peak_allocated";
      if (!waiver) return fail("exceeded", level(limit));
      const bool holds = after.gate["waivers"][0]["expires"] == "2026-01-15";  // the day itself
      fail(holds ? "waived" : "waiver_expired", level(limit));
    };
    if (limit.contains("budget")) judge(value > limit["budget"].get<std::int64_t>());
    const bool compared = !no_baseline && !other;
    if (limit.contains("regression") && (compared || level(limit) == "off")) {
      const std::string key = item.key() + (item.key() == "launches" ? "" : "_bytes");
      const std::int64_t base = compared ? after.baseline["figures"][key].get<std::int64_t>() : 0;
      judge(compared && !within(limit["regression"], base, value));
    }
  }
  return e;
}

std::multiset<std::string> seen_outcomes(const gate::Report& report) {
  std::multiset<std::string> outcomes;
  for (const auto& result : report.cases)
    for (const gate::Verdict& v : result.verdicts)
      if (v.outcome != gate::Outcome::passes && v.outcome != gate::Outcome::improved)
        outcomes.insert(to_string(v.outcome));
  return outcomes;
}

/// The verdict that the change has caused, where one has: it must name it.
const gate::Verdict* caused(const gate::Report& report, const test::Mutation& mutation) {
  if (mutation.cause.empty()) return nullptr;
  for (const auto& result : report.cases)
    for (const gate::Verdict& v : result.verdicts) {
      if (v.outcome == gate::Outcome::other_fingerprint) return &v;
      const bool over = v.outcome == gate::Outcome::exceeded ||
                        v.outcome == gate::Outcome::waived ||
                        v.outcome == gate::Outcome::waiver_expired;
      if (over && v.check == gate::Check::baseline && mutation.figure == gate::row(v.figure).json)
        return &v;
    }
  return nullptr;
}

/// The changed field comes first, or the changed category is the one that grew; the message has it.
bool names(const gate::Verdict& v, const test::Mutation& mutation) {
  const bool first = v.outcome == gate::Outcome::other_fingerprint
                         ? !v.cause.fields.empty() && v.cause.fields.front().field == mutation.cause
                         : v.cause.category && v.cause.category->name == mutation.cause;
  return first && v.message.find(mutation.cause) != std::string::npos;
}

}  // namespace

TEST_CASE("600 random changes: verdicts equal an oracle's, and name what was changed") {
  test::Random random(20260115);
  std::map<std::string, int> outcomes;
  int causes = 0, named = 0;
  for (int trial = 0; trial < 600; ++trial) {
    const test::GateFolder folder;
    test::Subject subject = test::random_subject(random);
    folder.write("model/config.json", subject.model.dump());
    folder.write_gate(subject.gate);
    folder.update();
    const std::string written = folder.read("baselines/case.json");
    subject.baseline = written.empty() ? Json() : Json::parse(written);

    test::Subject changed = subject;
    const test::Mutation mutation = mutate(changed, random);
    folder.write("model/config.json", changed.model.dump());
    folder.write_gate(changed.gate);
    if (changed.baseline.is_null())
      std::filesystem::remove(folder / "baselines/case.json");
    else
      folder.write("baselines/case.json", changed.baseline.dump(2));

    const gate::Report report = folder.check();
    const Expected expected = expect(subject, changed, mutation);
    CAPTURE(trial);
    CAPTURE(mutation.what);
    CAPTURE(changed.gate.dump());
    CHECK(gate::exit_code(report) == expected.exit_code);
    CHECK(seen_outcomes(report) == expected.outcomes);
    for (const std::string& outcome : expected.outcomes) ++outcomes[outcome];
    if (const gate::Verdict* verdict = caused(report, mutation)) {
      ++causes;
      if (names(*verdict, mutation))
        ++named;
      else
        MESSAGE("not named: " << mutation.what << ": " << verdict->message);
    }
  }
  // The test has to have seen each kind of verdict, or it says nothing about it.
  for (const char* outcome : {"exceeded", "other_fingerprint", "no_baseline", "missing_case",
                              "bad_input", "off", "waived", "waiver_expired"}) {
    CAPTURE(outcome);
    CHECK(outcomes[outcome] >= 5);
  }
  CHECK(causes >= 200);
  CHECK(named * 100 >= causes * 95);
}
