// Every step of tests/oracle/ against its plan. What each figure is off by stands beside its file
// in off/: further off fails and names the step, nearer is written by AC_ADVISOR_UPDATE_ORACLE=1,
// which writes a new step too, and never a figure that is further off than before.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/passes/verify.hpp"
#include "figures.hpp"
#include "test_paths.hpp"

namespace ac_advisor::test {
namespace {

using nlohmann::ordered_json;

std::string off_file(const std::string& file) {
  return std::string(source_dir) + "/tests/oracle/off/" + file;
}

ordered_json read_off(const std::string& file) {
  std::ifstream stream(off_file(file));
  return stream ? ordered_json::parse(stream) : ordered_json::object();
}

/// A line a step: what is not met to the byte.
void write_off(const std::string& file, const ordered_json& off) {
  std::filesystem::create_directories(std::filesystem::path(off_file(file)).parent_path());
  std::ofstream out(off_file(file));
  out << "{";
  const char* separator = "\n";
  for (const auto& [label, figures] : off.items()) {
    out << separator << ordered_json(label).dump() << ": " << figures.dump();
    separator = ",\n";
  }
  out << "\n}\n";
}

double percent(const Figure& figure) {
  return 100.0 * static_cast<double>(figure.off()) /
         static_cast<double>(std::max<std::int64_t>(figure.counted, 1));
}

struct Summary {
  int steps = 0, exact = 0, fresh = 0, nearer = 0, refused = 0;
  double worst = 0;
  std::string worst_label;
};

/// The step's line as it is now, no figure further off than it was.
ordered_json compare(const OracleCase& one, const ordered_json& recorded, Summary& all) {
  INFO(one.label);
  ++all.steps;
  ordered_json now = ordered_json::object(), before = now;
  if (recorded.contains(one.label)) before = recorded.at(one.label);
  Figures figures;
  try {
    figures = figures_of(one);
  } catch (const UserError& error) {
    ++all.refused;
    INFO("refused: ", std::string(error.what()));
    // A step that was planned before must be; one that never was says so in the file.
    const bool planned_before = recorded.contains(one.label) && !before.contains("refused");
    CHECK_FALSE(planned_before);
    all.fresh += !recorded.contains(one.label);
    return planned_before ? before : ordered_json{{"refused", true}};
  }
  const bool fresh = !recorded.contains(one.label) || before.contains("refused");
  if (fresh) before = now;
  all.fresh += fresh;
  for (const auto& [bound_name, bound_figure] : figures) {
    const auto& figure = bound_figure;
    const auto& name = bound_name;
    const std::int64_t was = before.value(name, std::int64_t{0}), off = figure.off();
    if (!fresh) {
      INFO(name, ": planned ", figure.planned, ", PyTorch ", figure.counted, ": off by ", off, " (",
           percent(figure), " %), recorded ", was);
      CHECK(std::abs(off) <= std::abs(was));
      all.nearer += std::abs(off) < std::abs(was);
    }
    const std::int64_t kept = fresh || std::abs(off) < std::abs(was) ? off : was;
    if (kept != 0) now[name] = kept;
    if (name == "allocated" && std::abs(percent(figure)) > all.worst) {
      all.worst = std::abs(percent(figure));
      all.worst_label = one.label;
    }
  }
  all.exact += now.empty();
  return now;
}

/// Of how many such steps one is planned here, so that any suite of tests can afford them: a
/// capture takes seconds, and under sanitizers a plan ten times as long. The release build has all
/// others.
int one_of(const OracleCase& step) { return step.captured ? 8 : sanitized ? 4 : 1; }

void meets_its_steps(const std::string& file) {
  if (const std::string why = cannot_capture(file); !why.empty()) {
    MESSAGE("skipped, ", file, ": ", why);
    return;
  }
  const ordered_json recorded = read_off(file);
  ordered_json now = ordered_json::object();
  Summary all;
  const bool updates = std::getenv("AC_ADVISOR_UPDATE_ORACLE") != nullptr;
  const bool whole = updates || std::getenv("AC_ADVISOR_CAPTURE_ALL") != nullptr;
  int read = 0, left_out = 0;
  for (const OracleCase& one : read_oracle(file)) {
    if (!whole && read++ % one_of(one) != 0)
      ++left_out;
    else
      now[one.label] = compare(one, recorded, all);
  }
  if (left_out > 0)
    MESSAGE(left_out, " steps of ", file, " are left out: AC_ADVISOR_CAPTURE_ALL=1 has them all");
  MESSAGE(
      fmt::format("{}: {} steps, {} to the byte in every figure; allocated: worst {:.4f} % "
                  "({}); {} figures nearer than recorded, "
                  "{} steps refused",
                  file, all.steps, all.exact, all.worst, all.worst_label, all.nearer, all.refused));
  if (updates) {
    write_off(file, now);
    return;
  }
  INFO("AC_ADVISOR_UPDATE_ORACLE=1 writes what new steps are off by");
  CHECK(all.fresh == 0);
  if (left_out > 0) return;
  for (const auto& [bound_label, figures] : recorded.items()) {
    const auto& label = bound_label;
    INFO("tests/oracle/off/", file, ": a step that is no more: ", label);
    CHECK(now.contains(label));
  }
}

constexpr std::string_view prefix = "each figure of a step is met as well as before: ";

void run() {
  meets_its_steps(
      std::string(doctest::getContextOptions()->currentTest->m_name).substr(prefix.size()));
}

/// Every program of these steps is verified after each pass.
const bool verifying = passes::verifies_passes() = true;

/// A test a file, so that CTest runs and names each by itself.
const bool registered = [] {
  static std::vector<std::string> names;  // doctest keeps their text
  for (const std::string& file : oracle_files()) names.push_back(std::string(prefix) + file);
  for (const std::string& name : names)
    doctest::detail::regTest(
        doctest::detail::TestCase(&run, __FILE__, __LINE__, doctest::detail::TestSuite()) *
        name.c_str());
  return true;
}();

}  // namespace
}  // namespace ac_advisor::test
