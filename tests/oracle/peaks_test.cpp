#include "peaks.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "test_paths.hpp"

namespace ac_advisor::test {
namespace {

constexpr std::array<const char*, 5> names{"peak", "forward", "loss", "backward", "optimizer"};

double relative(std::int64_t got, std::int64_t want) {
  return std::abs(static_cast<double>(got - want)) / static_cast<double>(want);
}

/// The bounds that the planner promises: the step's peak within 0.1 %, each phase's within 1 %,
/// dispatched kernels within 2 %.
void check_bounds(const PeakCase& c, const Planned& planned) {
  INFO(c.label);
  for (std::size_t i = 0; i < names.size(); ++i) {
    INFO(names[i], ": planned ", planned.peaks[i], ", PyTorch ", c.peaks[i]);
    CHECK(relative(planned.peaks[i], c.peaks[i]) <= (i == 0 ? 0.001 : 0.01));
  }
  if (c.kernels_forward > 0) {
    CHECK(relative(planned.kernels_forward, c.kernels_forward) <= 0.02);
    CHECK(relative(planned.kernels_backward, c.kernels_backward) <= 0.02);
  }
}

void report(const std::string& file, const std::vector<PeakCase>& cases) {
  std::vector<double> errors;
  double phases = 0;
  std::size_t equal = 0;
  std::string worst;
  for (const PeakCase& c : cases) {
    const Planned planned = plan_case(c);
    check_bounds(c, planned);
    errors.push_back(relative(planned.peaks[0], c.peaks[0]));
    if (errors.back() >= *std::max_element(errors.begin(), errors.end())) worst = c.label;
    for (std::size_t i = 1; i < names.size(); ++i)
      phases = std::max(phases, relative(planned.peaks[i], c.peaks[i]));
    equal += planned.peaks == c.peaks;
  }
  std::sort(errors.begin(), errors.end());
  MESSAGE(file, ": ", cases.size(), " cases, ", equal,
          " equal to the byte in every phase; peak: worst ", errors.back() * 100, " % (", worst,
          "), median ", errors[errors.size() / 2] * 100, " %; phases: worst ", phases * 100, " %");
}

}  // namespace

TEST_CASE("the reference's PyTorch peaks are met to the byte in every phase") {
  const std::vector<PeakCase> cases = read_peaks("pytorch_peaks.json");
  REQUIRE(cases.size() == 37);
  for (const PeakCase& c : cases) {
    INFO(c.label);
    const Planned planned = plan_case(c);
    for (std::size_t i = 0; i < names.size(); ++i) {
      INFO(names[i]);
      CHECK(planned.peaks[i] == c.peaks[i]);
    }
    CHECK(planned.kernels_forward == c.kernels_forward);
    CHECK(planned.kernels_backward == c.kernels_backward);
  }
  report("pytorch_peaks.json", cases);
}

TEST_CASE("PyTorch's own in-place rules meet the reference within the bounds too") {
  std::vector<PeakCase> cases = read_peaks("pytorch_peaks.json");
  for (PeakCase& c : cases) c.config.runtime.under_dispatch_mode = false;
  report("pytorch_peaks.json, in place", cases);
}

TEST_CASE("further families, sizes, worlds, dtypes and optimizers meet PyTorch within the bounds") {
  const std::vector<PeakCase> cases = read_peaks("generated_peaks.json");
  REQUIRE(cases.size() >= 100);
  report("generated_peaks.json", cases);
}

TEST_CASE("real CPU tensors without a dispatch mode meet the planner's in-place rules") {
  std::vector<PeakCase> cases = read_peaks("cpu_peaks.json");
  REQUIRE(cases.size() >= 50);
  for (PeakCase& c : cases) {
    c.config.runtime.under_dispatch_mode = false;
    c.rounded = false;
  }
  report("cpu_peaks.json", cases);
}

}  // namespace ac_advisor::test
