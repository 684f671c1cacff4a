#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ac_advisor/model/options.hpp"
#include "ac_advisor/model/spec.hpp"
#include "ac_advisor/model/step_config.hpp"

namespace ac_advisor::test {

/// How a file of tests/oracle/ counts a step (tests/oracle/README.md).
enum class CaseForm {
  counters,  ///< PyTorch's counters on the emulated device: emulated_peaks.json and its like
  loop,      ///< the same of a training loop: loop_peaks.json, zero_peaks.json, offload_peaks.json
  adapters,  ///< the same with cuBLASLt's workspaces told apart: adapter_peaks.json
  storages   ///< storages that a dispatch mode followed: pytorch_peaks.json, generated_, cpu_
};

/// One step that real PyTorch ran, in the planner's words.
struct OracleCase {
  std::string label;   ///< of its own in its file: model and options
  std::string config;  ///< the model's configuration, as text
  std::string model;   ///< its name
  OptionList options;  ///< as they are typed
  CaseForm form{};
  bool under_dispatch_mode = false;
  bool captured = false;  ///< of a type without a family: planned from a capture (src/capture/)
  nlohmann::json entry;   ///< what was counted
};

/// All steps of a file in tests/oracle/; empty: it has none that the planner is given by options
/// (saved sets, orders of pipelines, and graphs, which need a capture).
[[nodiscard]] std::vector<OracleCase> read_oracle(const std::string& file);
/// Every file there that has some, in alphabetical order.
[[nodiscard]] std::vector<std::string> oracle_files();

/// Why the steps of a file that are `captured` cannot be planned here: no Python of the versions
/// that made it, no emulated device. Empty: they can, or none is.
[[nodiscard]] std::string cannot_capture(const std::string& file);

[[nodiscard]] model::ModelSpec model_of(const OracleCase& one);
[[nodiscard]] StepConfig config_of(const OracleCase& one);

}  // namespace ac_advisor::test
