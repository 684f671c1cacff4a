#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ac_advisor/model/spec.hpp"
#include "ac_advisor/model/step_config.hpp"

namespace ac_advisor::advise {

/// What checkpointing does with one op of a block, printed once for all blocks that do the same.
struct Decision {
  std::string op;        ///< "mm"
  std::string module;    ///< "attention.q_proj", without the block's number
  std::string decision;  ///< SAVE, RECOMPUTE, or ALTERNATE (kept in some blocks or calls only)
  std::string reason;
  std::int64_t bytes = 0;   ///< of its outputs, in one block
  double microseconds = 0;  ///< to run it once more (an estimate)
  int count = 0;            ///< blocks that have it
};

/// The decisions for every op of the blocks, in order of issue.
[[nodiscard]] std::vector<Decision> selective_trace(const model::ModelSpec& model,
                                                    const StepConfig& config);

/// The schedule as text: a line an op with its phase, module, operands and live bytes.
[[nodiscard]] std::string schedule_text(const model::ModelSpec& model, const StepConfig& config);

/// The step as text to read and to diff: docs/program.md.
[[nodiscard]] std::string program_text(const model::ModelSpec& model, const StepConfig& config);

/// The passes in the order in which they run, and the ops, storages and bytes that each added and
/// took away.
[[nodiscard]] std::string passes_text(const model::ModelSpec& model, const StepConfig& config);

/// Why this mode costs and saves what it does, in sentences with numbers of this model.
[[nodiscard]] std::vector<std::string> explain_mode(const model::ModelSpec& model,
                                                    const StepConfig& config);

}  // namespace ac_advisor::advise
