// The gate's report in every format: what a machine reads must be well-formed whatever the names.
#include "ac_advisor/reports/reports.hpp"

#include <set>

#include "gate/gate_folder.hpp"

using namespace ac_advisor;
using gate::Outcome;
using test::Json;

namespace {

const char* const hostile =
    "a|b`c<img src=x>\n\033[2J@user\"q\" & 'x' ]]> %0A::error::y\r\x9b\xff\u202e\uffff*";

gate::Verdict verdict(Outcome outcome, const std::string& message) {
  gate::Verdict v;
  v.check = gate::Check::budget;
  v.outcome = outcome;
  v.message = message;
  v.now = 3000;
  v.limit = 2000;
  v.place = {"sub/ac-advisor.json", 7};
  return v;
}

/// One of each kind.
gate::Report report(const std::string& text = "it says why") {
  gate::Verdict warned = verdict(Outcome::exceeded, text);
  warned.level = gate::Level::warn;
  gate::Report r{"ac-advisor.json", {}};
  r.cases.push_back({"first",
                     gate::Figures{3000, 4000, 50, 250000, 1500000000},
                     {verdict(Outcome::exceeded, text), verdict(Outcome::passes, "")}});
  r.cases.push_back({"second", {}, {verdict(Outcome::not_measured, text), warned}});
  r.cases.push_back({"third",
                     gate::Figures{},
                     {verdict(Outcome::improved, text), verdict(Outcome::waived, text),
                      verdict(Outcome::off, "")}});
  return r;
}

/// Whether every element is closed by its own tag and every attribute is in quotes.
bool well_formed(const std::string& xml) {
  std::vector<std::string> open;
  for (std::size_t at = 0; (at = xml.find('<', at)) != std::string::npos; ++at) {
    const std::size_t end = xml.find('>', at);
    if (end == std::string::npos) return false;
    const std::string tag = xml.substr(at + 1, end - at - 1);
    if (tag.find('<') != std::string::npos) return false;
    if (std::count(tag.begin(), tag.end(), '"') % 2 != 0) return false;
    if (tag.front() == '?' || tag.back() == '/') continue;
    const std::string name = tag.substr(tag.front() == '/' ? 1 : 0, tag.find(' '));
    if (tag.front() != '/') {
      open.push_back(name);
    } else {
      if (open.empty() || open.back() != name) return false;
      open.pop_back();
    }
  }
  return open.empty();
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++n;
  return n;
}

}  // namespace

TEST_CASE("gate reports: JUnit counts failures, errors and skipped tests apart") {
  const std::string xml = reports::junit(report());
  CHECK(well_formed(xml));
  CHECK(count(xml, "<testcase ") == 7);
  CHECK(count(xml, "<failure ") == 1);
  CHECK(count(xml, "<error ") == 1);
  CHECK(count(xml, "<skipped ") == 2);
  CHECK(count(xml, "tests=\"7\" failures=\"1\" errors=\"1\" skipped=\"2\"") == 2);
  CHECK(count(xml, "classname=\"first\" name=\"peak_allocated (budget)\"") == 2);
}

TEST_CASE("gate reports: JUnit stays XML whatever the names") {
  const std::string xml = reports::junit(report(hostile));
  CHECK(well_formed(xml));
  CHECK(count(xml, "<img") == 0);
  for (const char c : xml) CHECK((static_cast<unsigned char>(c) >= 0x20U || c == '\n'));
  CHECK(count(xml, "\xEF\xBF\xBF") == 0);  // U+FFFF is no character of XML
}

TEST_CASE("gate reports: GitHub has an annotation a verdict, on its file and line") {
  const std::string text = reports::github(report());
  CHECK(text.find("::error file=sub/ac-advisor.json,line=7,"
                  "title=first%3A peak_allocated (budget)::first: it says why\n") == 0);
  CHECK(count(text, "::error ") == 2);
  CHECK(count(text, "::warning ") == 1);
  CHECK(count(text, "::notice ") == 2);
  // A message cannot start a command of its own.
  const std::string nasty = reports::github(report(hostile));
  CHECK(count(nasty, "\n") == count(text, "\n"));
  CHECK(count(nasty, "%250A") == 5);
  CHECK(count(nasty, "\n::error::y") == 0);
}

TEST_CASE("gate reports: GitLab's findings have what its code quality format asks for") {
  for (const char* message : {"it says why", hostile}) {
    const Json findings = Json::parse(reports::gitlab(report(message)));
    REQUIRE(findings.size() == 4);  // an improvement is none
    std::set<std::string> fingerprints;
    for (const Json& f : findings) {
      CHECK(f["description"].is_string());
      CHECK(f["check_name"].is_string());
      CHECK(f["location"]["path"] == "sub/ac-advisor.json");
      CHECK(f["location"]["lines"]["begin"] == 7);
      fingerprints.insert(f["fingerprint"].get<std::string>());
    }
    CHECK(fingerprints.size() == 4);
    CHECK(findings[0]["severity"] == "major");
    CHECK(findings[2]["severity"] == "minor");
    CHECK(findings[3]["severity"] == "info");
  }
  CHECK(reports::gitlab({"g", {}}) == "[]\n");
}

TEST_CASE("gate reports: Bencher gets every figure of what was planned or measured") {
  const Json bmf = Json::parse(reports::bencher(report()));
  CHECK(bmf.size() == 2);
  CHECK(bmf["first"]["peak-allocated"]["value"] == 3000);
  CHECK(bmf["first"]["launches"]["value"] == 50);
  CHECK(bmf["first"]["recompute-share"]["value"] == 0.25);
  CHECK(bmf["first"]["step-seconds"]["value"] == 1.5);
  CHECK(reports::bencher({"g", {}}) == "{}\n");
}

TEST_CASE("gate reports: JSON has exact integers, the exit code and the cause") {
  gate::Report r = report();
  r.cases[0].verdicts[0].cause.fields = {{"num_hidden_layers", "16", "18"}};
  r.cases[0].verdicts[0].cause.module = profile::Change{"blocks", 1000, 3000};
  r.cases[0].verdicts[0].now = (std::int64_t{1} << 53) + 1;
  const Json json = Json::parse(reports::json(r));
  CHECK(json["schema"] == "ac-advisor/check/1");
  CHECK(json["exit_code"] == 3);
  CHECK(json["failures"] == 2);
  CHECK(json["warnings"] == 1);
  const Json& v = json["cases"][0]["verdicts"][0];
  CHECK(v["now"] == (std::int64_t{1} << 53) + 1);
  CHECK(v["outcome"] == "exceeded");
  CHECK(v["fails"] == true);
  CHECK(v["cause"]["fields"][0]["field"] == "num_hidden_layers");
  CHECK(v["cause"]["module"]["delta"] == 2000);
  CHECK(json["cases"][1]["figures"].is_null());
  CHECK(Json::accept(reports::json(report(hostile))));
}

TEST_CASE("gate reports: a terminal and Markdown are shown names harmlessly") {
  for (const std::string& text :
       {reports::table(report(hostile), {}), reports::markdown(report(hostile))}) {
    CHECK(text.find('\033') == std::string::npos);
    CHECK(text.find("\u202e") == std::string::npos);
  }
  CHECK(reports::markdown(report(hostile)).find("\\<img") != std::string::npos);
  std::istringstream lines(reports::table(report("one long message " + std::string(200, 'x')), {}));
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 80);
}
