#pragma once

#include <string>

#include "ac_advisor/model/spec.hpp"
#include "ac_advisor/model/step_config.hpp"

namespace ac_advisor::snapshot {

/// The planned step as a memory snapshot: what `torch.cuda.memory._dump_snapshot` would write after
/// the model was made and two steps were run, for pytorch.org/memory_viz and for this program's
/// `snapshot`. A frame is an op of the schedule: its module as the file, its number as the line.
/// Bytes of a pickle (protocol 4). Throws UserError; for a device without a caching allocator too.
[[nodiscard]] std::string plan_snapshot(const model::ModelSpec& model, const StepConfig& config);

}  // namespace ac_advisor::snapshot
