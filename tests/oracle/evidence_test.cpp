// data/evidence.json is what tests/oracle/ has: AC_ADVISOR_UPDATE_ORACLE=1 (scripts/evidence)
// writes it.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "ac_advisor/evidence/evidence.hpp"
#include "cases.hpp"
#include "test_paths.hpp"

namespace ac_advisor::test {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

std::string path(const std::string& file) { return std::string(source_dir) + "/" + file; }

json read_json(const std::string& file) {
  std::ifstream stream(path(file));
  REQUIRE(stream);
  return json::parse(stream);
}

/// The smallest error that `share` of all are at most.
double quantile(std::vector<double> errors, double share) {
  if (errors.empty()) return 0;
  std::sort(errors.begin(), errors.end());
  const auto at = static_cast<std::size_t>(std::ceil(share * static_cast<double>(errors.size())));
  return errors[std::max<std::size_t>(at, 1) - 1];
}

double rounded(double percent) { return std::round(percent * 1000) / 1000; }

/// Peak allocated memory as PyTorch counted it.
std::int64_t counted_peak(const OracleCase& one) {
  for (const char* name : {"peak_allocated", "peak_bytes", "allocated"})
    if (one.entry.contains(name)) return one.entry.at(name);
  return 0;
}

/// Steps that have the same features, and the first of them.
struct Alike {
  std::int64_t steps = 0;
  std::string label;
  evidence::Grade grade{};
};

struct Gathered {
  std::set<std::string> families, names;
  std::map<std::vector<std::string>, Alike> steps;
  std::vector<double> errors;
};

Gathered read_all() {
  Gathered all;
  for (const std::string& file : oracle_files()) {
    const json off = read_json("tests/oracle/off/" + file);
    for (const OracleCase& one : read_oracle(file)) {
      if (one.captured) continue;  // a capture has no features of a family
      // A step that off_test.cpp has not written yet, or that the planner refuses.
      if (!off.contains(one.label) || off.at(one.label).contains("refused")) continue;
      const model::ModelSpec spec = model_of(one);
      const StepConfig config = config_of(one);
      const std::vector<std::string> features = evidence::features(spec, config);
      all.families.insert(spec.family);
      all.names.insert(features.begin(), features.end());
      Alike& alike = all.steps[features];
      if (alike.steps++ == 0) {
        alike.label = file + ": " + one.label;
        alike.grade = evidence::evidence_of(spec, config).grade;
      }
      const std::int64_t bytes = off.at(one.label).value("allocated", std::int64_t{0});
      all.errors.push_back(100.0 * std::abs(static_cast<double>(bytes)) /
                           static_cast<double>(counted_peak(one)));
    }
  }
  return all;
}

const Gathered& gathered() {
  static const Gathered all = read_all();
  return all;
}

/// Of the steps that were drawn to calibrate grades, as they were planned when they were drawn.
double drawn_error(const std::string& grade) {
  std::vector<double> errors;
  const json file = read_json("tests/evidence/draws.json");
  for (const json& step : file.at("draws"))
    if (step.at("grade") == grade && step.contains("error_percent"))
      errors.push_back(std::abs(step.at("error_percent").get<double>()));
  return rounded(quantile(std::move(errors), 0.95));
}

std::string evidence_text() {
  const Gathered& all = gathered();
  ordered_json head;
  head["expected_error_percent"] = {{"verified", rounded(quantile(all.errors, 0.95))},
                                    {"composed", drawn_error("composed")},
                                    {"extrapolated", drawn_error("extrapolated")}};
  const std::vector<std::string> names(all.names.begin(), all.names.end());
  std::string text = "{\n\"expected_error_percent\": " + head["expected_error_percent"].dump() +
                     ",\n\"families\": " + json(all.families).dump() +
                     ",\n\"features\": " + json(names).dump() + ",\n\"steps\": [";
  const char* separator = "\n";
  for (const auto& [features, alike] : all.steps) {
    text += separator + fmt::format("\"{}", alike.steps);
    for (const std::string& feature : features)
      text +=
          fmt::format(" {}", std::lower_bound(names.begin(), names.end(), feature) - names.begin());
    text += "\"";
    separator = ",\n";
  }
  return text + "\n]}\n";
}

}  // namespace

TEST_CASE(
    "data/evidence.json is what the steps of tests/oracle have (AC_ADVISOR_UPDATE_ORACLE=1)") {
  const std::string file = path("data/evidence.json"), text = evidence_text();
  if (std::getenv("AC_ADVISOR_UPDATE_ORACLE") != nullptr) std::ofstream(file) << text;
  std::stringstream written;
  written << std::ifstream(file).rdbuf();
  // Told apart by lines: the whole files would be megabytes of a failed check.
  CHECK((written.str() == text));
}

TEST_CASE("every step of tests/oracle that was compared is itself graded verified") {
  for (const auto& [features, bound_alike] : gathered().steps) {
    const auto& alike = bound_alike;
    INFO(alike.label);
    CHECK(alike.grade == evidence::Grade::verified);
  }
}

}  // namespace ac_advisor::test
