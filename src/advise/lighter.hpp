#pragma once

#include <cstddef>
#include <vector>

#include "ac_advisor/model/step_config.hpp"

namespace ac_advisor::advise {

/// For each pipeline of the list, those of it that allocate no more: the same with a smaller
/// micro-batch, or with full checkpointing in place of less of it. Of other configurations: none.
[[nodiscard]] std::vector<std::vector<std::size_t>> lighter_pipelines(
    const std::vector<StepConfig>& list);

/// The number of each configuration's group: within one, configurations differ by micro-batch,
/// checkpointing and ranks that share each shard alone.
[[nodiscard]] std::vector<std::size_t> comparable_groups(const std::vector<StepConfig>& list);
/// Whether `a` allocates no more than `b` of its group: a smaller micro-batch, full checkpointing
/// in place of less, more ranks a shard, or several of these.
[[nodiscard]] bool lighter_in_group(const StepConfig& a, const StepConfig& b);

}  // namespace ac_advisor::advise
