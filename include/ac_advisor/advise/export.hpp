#pragma once

#include <string>
#include <vector>

#include "ac_advisor/model/spec.hpp"
#include "ac_advisor/model/step_config.hpp"

namespace ac_advisor::advise {

/// A setting in a framework's own words.
struct ExportResult {
  std::string target;   ///< "torchtitan"
  std::string version;  ///< what the key names were read from: "TorchTitan 0.2.2"
  std::string text;     ///< a file, or flags, to paste; ends with a newline
  /// What the text cannot say: lines of code, environment variables, known differences.
  std::vector<std::string> notes;
  /// Where the framework's own technique holds other buffers than were planned; empty: as planned.
  std::string other_technique;
};

/// Target names, in alphabetical order.
[[nodiscard]] std::vector<std::string> export_targets();

/// Throws UserError for an unknown target, and with the reason and a way out where the framework
/// has no equivalent ("--ac grouped:2 has no equivalent in TorchTitan 0.2.2: …").
[[nodiscard]] ExportResult export_setting(const std::string& target, const model::ModelSpec& model,
                                          const StepConfig& config);

/// The target of a --framework: Liger's preset and the Trainer's are Hugging Face's with other
/// switches.
[[nodiscard]] std::string export_target_of(const std::string& framework);
/// Why the configuration's own framework cannot run it as it is planned: what `export_setting`
/// says of it. Empty: it can.
[[nodiscard]] std::string unavailable(const model::ModelSpec& model, const StepConfig& config);
/// The framework runs Liger's fused loss where its loss is a chunked one.
[[nodiscard]] bool chunks_as_liger(const StepConfig& config);
/// The tokens of a chunk of Liger's fused loss, which chooses them itself.
[[nodiscard]] std::int64_t liger_chunk(const model::ModelSpec& model, const StepConfig& config);

}  // namespace ac_advisor::advise
