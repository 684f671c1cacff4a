#pragma once

#include <vector>

#include "ac_advisor/ir/op_table.hpp"

namespace ac_advisor::ir {

/// Whether [B, heads, S, D] is copied before flash attention's backward reads it: it wants tokens
/// before heads, without gaps.
[[nodiscard]] bool copied_for_flash(const Value& value);
/// Scratch of flash attention's kernels, PyTorch 2.11's, in bytes.
[[nodiscard]] std::int64_t flash_forward_workspace(const Program& p, const Op& op,
                                                   const WorkspaceTarget& target);
/// The latter's on a GPU, block by block.
[[nodiscard]] std::vector<std::int64_t> flash_backward_blocks(const Program& p, const Op& op,
                                                              const WorkspaceTarget& target);
[[nodiscard]] std::int64_t flash_backward_workspace(const Program& p, const Op& op,
                                                    const WorkspaceTarget& target);

}  // namespace ac_advisor::ir
