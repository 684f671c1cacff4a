#include "ac_advisor/gate/gate_file.hpp"

#include "ac_advisor/model/error.hpp"
#include "gate/gate_folder.hpp"

using namespace ac_advisor;
using gate::Figure;
using gate::Level;
using test::Json;

namespace {

gate::GateFile parse(const std::string& text) { return gate::parse_gate_file(text, "g.json"); }

std::string error_of(const std::string& text) {
  try {
    static_cast<void>(parse(text));
  } catch (const UserError& error) {
    return error.what();
  }
  return "(accepted)";
}

/// A file whose only case has these members besides its name.
std::string with_case(const std::string& members) {
  return R"({"cases": [{"name": "a", )" + members + "}]}";
}

const char* const model_and = R"("model": "m", "limits": )";

std::string with_limit(const std::string& limit) {
  return with_case(model_and + (R"({"peak_allocated": )" + limit + "}"));
}

}  // namespace

TEST_CASE("gate file: sizes, levels and defaults become limits in integers") {
  const gate::GateFile file = parse(R"({
    "schema": "ac-advisor/gate/1", "baselines": "base",
    "defaults": {"level": "warn", "options": {"batch": 8, "hold-output": true},
                 "limits": {"launches": {"budget": 2000}}},
    "cases": [
      {"name": "a", "model": "m", "as": "llama",
       "options": {"seq": 512, "no-hold-output": true, "dropout": 0.5},
       "limits": {"peak_allocated": {"budget": "1.5GiB", "regression": {"percent": 0.3},
                                     "level": "error"},
                  "step_seconds": {"budget": 0.25, "regression": {"seconds": 0.001}}}},
      {"name": "b", "source": "measured", "profile": "p.json", "level": "off",
       "limits": {"recompute_share": {"budget": 0.3, "level": "error"}}}],
    "waivers": [{"case": "b", "figure": "launches", "reason": "why", "expires": "2026-02-28"}]})");
  CHECK(file.baselines == "base");
  REQUIRE(file.cases.size() == 2);
  const gate::Case &a = file.cases[0], &b = file.cases[1];
  CHECK(a.as == "llama");
  // The case's word for an option replaces the default's, also where it is the opposite one.
  CHECK(a.options ==
        OptionList{
            {"--batch", "8"}, {"--seq", "512"}, {"--no-hold-output", ""}, {"--dropout", "0.5"}});
  const auto limit = [](const gate::Case& c, Figure f) { return *c.limits[gate::index(f)]; };
  CHECK(limit(a, Figure::peak_allocated).budget == 3 * (std::int64_t{1} << 29));
  CHECK(limit(a, Figure::peak_allocated).regression->percent_millionths == 300000);
  CHECK(limit(a, Figure::peak_allocated).level == Level::error);
  CHECK(limit(a, Figure::step_seconds).budget == 250000000);
  CHECK(limit(a, Figure::step_seconds).regression->absolute == 1000000);
  CHECK(limit(a, Figure::step_seconds).level == Level::warn);
  CHECK(limit(a, Figure::launches).budget == 2000);
  CHECK_FALSE(a.limits[gate::index(Figure::peak_reserved)]);
  CHECK(b.measured());
  CHECK(limit(b, Figure::recompute_share).budget == 300000);
  CHECK(limit(b, Figure::recompute_share).level == Level::off);
  CHECK(file.waivers[0].figure == Figure::launches);
  CHECK(gate::to_string(file.waivers[0].expires) == "2026-02-28");
}

TEST_CASE("gate file: an unknown key is an error that names the nearest known one") {
  struct Wrong {
    std::string text, expected;
  };
  const Wrong wrong[] = {
      {R"({"case": []})", "did you mean \"cases\"?"},
      {with_case(R"("modle": "m")"), "did you mean \"model\"?"},
      {with_case(model_and + std::string(R"({"peak_alocated": {}})")),
       "did you mean \"peak_allocated\"?"},
      {with_limit(R"({"budgets": 1})"), "did you mean \"budget\"?"},
      {with_limit(R"({"regression": {"percnt": 1}})"), "did you mean \"percent\"?"},
      {with_limit(R"({"regression": {"launches": 1}})"), "known: percent, bytes"},
      {R"({"cases": [{"name": "abcd", "model": "m", "limits": {"launches": {"budget": 1}}}],
           "waivers": [{"case": "abce", "figure": "launches", "reason": "r",
                        "expires": "2026-01-01"}]})",
       "is no case; did you mean \"abcd\"?"}};
  for (const Wrong& w : wrong) {
    CAPTURE(w.text);
    const std::string error = error_of(w.text);
    CAPTURE(error);
    CHECK(error.find(w.expected) != std::string::npos);
    CHECK(error.find("g.json: ") == 0);
  }
}

TEST_CASE("gate file: a limit that could not fail, or never pass, is refused") {
  for (const char* limit : {"{}",
                            R"({"level": "error"})",
                            R"({"budget": -1})",
                            R"({"budget": "-1GiB"})",
                            R"({"budget": 1.5})",
                            R"({"budget": "40GB/s"})",
                            R"({"budget": ""})",
                            R"({"budget": null})",
                            R"({"budget": true})",
                            R"({"budget": 18446744073709551615})",
                            R"({"budget": 1e30})",
                            R"({"budget": "9999999999TiB"})",
                            R"({"regression": {}})",
                            R"({"regression": 1})",
                            R"({"regression": {"percent": -0.1}})",
                            R"({"regression": {"percent": 101}})",
                            R"({"regression": {"percent": 1e300}})",
                            R"({"regression": {"percent": "1"}})",
                            R"({"regression": {"percent": NaN}})",
                            R"({"regression": {"percent": 1e999}})",
                            R"({"regression": {"bytes": -1}})",
                            R"({"regression": {"bytes": 0.5}})",
                            R"({"budget": 1, "level": "fatal"})",
                            R"({"budget": 1, "level": 2})"}) {
    CAPTURE(limit);
    const std::string error = error_of(with_limit(limit));
    CAPTURE(error);
    CHECK(error != "(accepted)");
    CHECK(error.find("g.json: ") == 0);
  }
  CHECK(error_of(with_limit(R"({"budget": 0})")) == "(accepted)");
  CHECK(error_of(with_limit(R"({"regression": {"percent": 0}})")) == "(accepted)");
  CHECK(error_of(with_limit(R"({"regression": {"percent": 100, "bytes": "1TiB"}})")) ==
        "(accepted)");
}

TEST_CASE("gate file: what a case lacks or has too much of is told") {
  struct Wrong {
    std::string text, expected;
  };
  const std::string limits = R"("limits": {"launches": {"budget": 1}})";
  const Wrong wrong[] = {
      {R"({})", "\"cases\" is missing"},
      {R"({"cases": []})", "is empty"},
      {R"({"cases": {}})", "must be a list"},
      {R"({"cases": [3]})", "must be an object"},
      {R"({"cases": [{}]})", "\"cases[0].name\" is missing"},
      {with_case(limits), "\"cases[0].model\" is missing"},
      {with_case(R"("model": "m")"), "no limit, so it could not fail"},
      {with_case(R"("model": 3, )" + limits), "must be a string"},
      {with_case(R"("source": "guessed", )" + limits),
       "must be \"simulated\", \"measured\" or \"emulated\""},
      {with_case(R"("source": "measured", )" + limits), "\"cases[0].profile\" is missing"},
      {with_case(R"("model": "m", "profile": "p", )" + limits), "goes with \"source\""},
      {with_case(R"("model": "m", "options": {"hold-output": false}, )" + limits),
       "true for an option without one"},
      {with_case(R"("model": "m", "options": ["--batch"], )" + limits), "must be an object"},
      {R"({"schema": "ac-advisor/gate/2", "cases": []})", "ac-advisor/gate/1"},
      {R"({"baselines": "", "cases": []})", "must be a folder"},
      {R"([])", "must be a JSON object"},
      {"", "the file is empty"},
      {R"({"cases": [)", "ends too early"},
      {"{\"cases\": \"\xff\"}", "not UTF-8"},
      {R"({"cases": 1, "cases": 2})", "there twice"}};
  for (const Wrong& w : wrong) {
    CAPTURE(w.text);
    const std::string error = error_of(w.text);
    CAPTURE(error);
    CHECK(error.find(w.expected) != std::string::npos);
  }
}

TEST_CASE("gate file: names are file names, and each is one case's") {
  const auto named = [](const std::string& a, const std::string& b) {
    const Json limits = {{"launches", {{"budget", 1}}}};
    return Json{{"cases",
                 {{{"name", a}, {"model", "m"}, {"limits", limits}},
                  {{"name", b}, {"model", "m"}, {"limits", limits}}}}}
        .dump();
  };
  CHECK(error_of(named("a", "b.c-D_1")) == "(accepted)");
  CHECK(error_of(named("a", "a")).find("two cases") != std::string::npos);
  CHECK(error_of(named("a", "A")).find("by case only") != std::string::npos);
  for (const char* bad : {"", ".", "..", ".x", "a/b", "../x", "a b", "a\\b", "é", "a\nb"}) {
    CAPTURE(bad);
    CHECK(error_of(named("ok", bad)).find("letters, digits") != std::string::npos);
  }
  CHECK(error_of(named("ok", std::string(101, 'x'))).find("letters, digits") != std::string::npos);
}

TEST_CASE("gate file: waivers have a reason, a day of the calendar, and are given once") {
  const auto with = [](const std::string& waivers) {
    return R"({"cases": [{"name": "a", "model": "m", "limits": {"launches": {"budget": 1}}}],
               "waivers": )" +
           waivers + "}";
  };
  const std::string good =
      R"({"case": "a", "figure": "launches", "reason": "r", "expires": "2024-02-29"})";
  CHECK(error_of(with("[" + good + "]")) == "(accepted)");
  CHECK(error_of(with("[" + good + "," + good + "]")).find("twice") != std::string::npos);
  for (const char* day : {"2025-02-29", "2026-13-01", "2026-1-1", "01-01-2026", "tomorrow", "",
                          "2026-01-32", "-026-01-01", "2026-01-01T00:00"}) {
    CAPTURE(day);
    std::string waiver = good;
    waiver.replace(waiver.find("2024-02-29"), 10, day);
    CHECK(error_of(with("[" + waiver + "]")).find("not a date") != std::string::npos);
  }
  CHECK(error_of(with(R"([{"case": "a", "figure": "launches", "reason": " ",
                          "expires": "2026-01-01"}])"))
            .find("must say why") != std::string::npos);
  CHECK(error_of(with(R"([{"case": "a", "figure": "lunches", "reason": "r",
                          "expires": "2026-01-01"}])"))
            .find("did you mean \"launches\"?") != std::string::npos);
}

TEST_CASE("gate file: a million rows, deep nesting and every truncation get a clear error") {
  std::string rows = R"({"cases": [0)";
  for (int i = 0; i < 1000000; ++i) rows += ",0";
  CHECK(error_of(rows + "]}").find("1000001 entries; at most 10000") != std::string::npos);
  std::string keys = "{\"k\": 0";
  for (int i = 0; i < 1000000; ++i) keys += ",\"" + std::to_string(i) + "\": 0";
  CHECK(error_of(keys + "}").find("keys in one object") != std::string::npos);
  CHECK(error_of("{\"cases\": " + std::string(100000, '[')).find("nested deeper") !=
        std::string::npos);
  const std::string whole = test::small_gate({{"launches", {{"budget", 1}}}}).dump(2);
  REQUIRE(error_of(whole) == "(accepted)");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    CHECK(error_of(whole.substr(0, size)).find("g.json: ") == 0);
  }
}
