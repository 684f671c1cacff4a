#pragma once

#include <cstdint>
#include <vector>

#include "ac_advisor/ir/op_table.hpp"

namespace ac_advisor::ir {

/// `workspace_bytes` as the blocks of memory that it is asked for in, all there at once.
[[nodiscard]] std::vector<std::int64_t> scratch_blocks(const Program& program, const Op& op,
                                                       const WorkspaceTarget& target);

}  // namespace ac_advisor::ir
