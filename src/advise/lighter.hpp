#pragma once

#include <cstddef>
#include <vector>

#include "ac_advisor/model/step_config.hpp"

namespace ac_advisor::advise {

/// For each pipeline of the list, those of it that allocate no more: the same with a smaller
/// micro-batch, or with full checkpointing in place of less of it. Of other configurations: none.
[[nodiscard]] std::vector<std::vector<std::size_t>> lighter_pipelines(
    const std::vector<StepConfig>& list);

}  // namespace ac_advisor::advise
