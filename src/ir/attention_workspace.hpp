#pragma once

#include "ac_advisor/ir/op_table.hpp"

namespace ac_advisor::ir {

/// Scratch of the kernels that PyTorch 2.11 sends scaled_dot_product_attention to, in bytes: flash
/// attention's (flash_workspace.hpp) or cuDNN's.
/// Of backward: neither cuDNN's nor the memory-efficient kernel.
[[nodiscard]] bool runs_flash_attention(const Op& op, const WorkspaceTarget& target);
[[nodiscard]] std::int64_t attention_forward_workspace(const Program& p, const Op& op,
                                                       const WorkspaceTarget& target);
[[nodiscard]] std::int64_t attention_backward_workspace(const Program& p, const Op& op,
                                                        const WorkspaceTarget& target);

}  // namespace ac_advisor::ir
