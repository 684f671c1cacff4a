#pragma once

#include <string>

namespace ac_advisor::simulate {

/// What PyTorch's host does, in plain ops (the forward of nn.Linear) of the same host: forward_op,
/// backward_op, fused_op, native_op, region, saved_hook, gather, step. data/host/pytorch-2.11.json
/// has them with their source; tests/oracle/host_costs.py measures them.
[[nodiscard]] double host_ratio(const std::string& name);

}  // namespace ac_advisor::simulate
