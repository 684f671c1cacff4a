#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "ac_advisor/model/options.hpp"
#include "ac_advisor/model/spec.hpp"
#include "ac_advisor/model/step_config.hpp"

namespace ac_advisor::test {

/// One case of a file of PyTorch's peaks (tests/oracle/README.md): what was run and what it gave.
struct PeakCase {
  std::string label;
  model::ModelSpec model;
  StepConfig config;
  bool rounded = true;  ///< sizes were rounded to 512 B (false: exact CPU bytes)
  /// peak_bytes, then forward, loss, backward, optimizer.
  std::array<std::int64_t, 5> peaks{};
  std::int64_t kernels_forward = 0, kernels_backward = 0;  ///< 0: not counted
};

/// The planner's figures in the same order.
struct Planned {
  std::array<std::int64_t, 5> peaks{};
  std::int64_t kernels_forward = 0, kernels_backward = 0;
};

/// Of a case in the planner's words (emulated_peaks.json and its like), on an H100.
[[nodiscard]] OptionList options_of_case(const nlohmann::json& step);
[[nodiscard]] std::vector<PeakCase> read_peaks(const std::string& file);
[[nodiscard]] Planned plan_case(const PeakCase& c);

}  // namespace ac_advisor::test
