#pragma once

#include "ac_advisor/ir/op_table.hpp"

namespace ac_advisor::ir {

/// Scratch of the memory-efficient attention kernels, PyTorch 2.11's, in bytes.
[[nodiscard]] std::int64_t efficient_forward_workspace(const Program& p, const Op& op);
[[nodiscard]] std::int64_t efficient_backward_workspace(const Program& p, const Op& op,
                                                        const WorkspaceTarget& target);

}  // namespace ac_advisor::ir
