#pragma once

#include <ATen/ATen.h>

#include <set>
#include <vector>

#include "ac_advisor/ir/op_kind.hpp"
#include "trainer/rank.hpp"

namespace ac_advisor::test {

/// The oracle of the backward program: LibTorch's autograd over the forward of one micro-batch that
/// `rank` has loaded, in the order of step.parameters; adds the kinds of op that it met to `seen`.
[[nodiscard]] std::vector<at::Tensor> autograd_gradients(trainer::Rank& rank,
                                                         std::set<ir::OpKind>& seen);

}  // namespace ac_advisor::test
