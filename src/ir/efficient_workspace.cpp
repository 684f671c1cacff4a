// PyTorch 2.11, aten/src/ATen/native/transformers/cuda/: attention.cu and attention_backward.cu
// (_efficient_attention_forward, _efficient_attention_backward), mem_eff_attention/kernel_forward.h
// and kernel_backward.h.
#include "efficient_workspace.hpp"

#include <algorithm>

#include "whole_units.hpp"

namespace ac_advisor::ir {
namespace {

/// The backward kernel that is launched: queries and keys a block, and whether the gradients of
/// keys and values stay in registers until they are whole.
struct BackwardKernel {
  std::int64_t queries, keys;
  bool in_registers;
};

/// The first of cutlassB.h's kernels that is wide enough and whose blocks fit the shared memory: by
/// what is launched on the emulated A100, H100 and L40S (tests/oracle/README.md).
BackwardKernel backward_kernel(std::int64_t dim, bool half, const WorkspaceTarget& target) {
  // 164 KiB a multiprocessor and more, or 100
  const bool large = target.compute_capability % 10 == 0 && target.compute_capability >= 80;
  if (dim <= 64) return {64, 64, half};
  if (!half) return {large ? 128 : 64, 64, false};
  if (large && dim <= 128) return {128, 128, true};
  if (!large && dim <= 96) return {128, 64, true};
  return {!large && dim <= 128 ? 64 : 128, 64, false};
}

}  // namespace

std::int64_t efficient_forward_workspace(const Program& p, const Op& op) {
  const Value& q = p.value(p.input(op, 0));
  const std::int64_t dim = p.value(p.input(op, 2)).shape[3];
  // kNeedsOutputAccumulatorBuffer: an output wider than a block of keys, in fp32
  if (q.dtype == DType::f32 || dim <= 128) return 0;
  return allocated(checked_mul(q.shape[0] * q.shape[1] * q.shape[2], 4 * dim));
}

std::int64_t efficient_backward_workspace(const Program& p, const Op& op,
                                          const WorkspaceTarget& target) {
  const Value& query = p.value(p.input(op, 1));
  const Shape q = query.shape, v = p.value(p.input(op, 3)).shape;
  const bool half = query.dtype != DType::f32;
  const std::int64_t heads = q[0] * q[1], dim = q[3], keys = v[2];
  const BackwardKernel kernel = backward_kernel(std::max(dim, v[3]), half, target);

  // workspace_elements_gq: a block's sums in fp32, behind a lock of 16 bytes
  const std::int64_t sums = kernel.queries * kernel.keys + 4;
  std::int64_t elements = ceil_div(q[2], kernel.queries) * ceil_div(dim, kernel.keys) * sums;
  if (half && !kernel.in_registers) {  // workspace_elements_gk and _gv
    std::int64_t splits = ceil_div(keys, kernel.keys);
    if (heads < 256)
      splits = std::max<std::int64_t>(1, std::min(splits, 200 / heads));
    else if (keys <= 2 * kernel.keys)
      splits = 1;
    for (const std::int64_t width : {dim, v[3]})
      elements += splits * kernel.keys * rounded(width, kernel.queries);
  }
  const std::int64_t rows = allocated(checked_mul(heads, 4 * q[2]));
  const std::int64_t scratch = rows + allocated(checked_mul(heads, ceil_div(elements, 4) * 16));
  if (half) return scratch;  // the kernel itself makes a row's sum of do * o
  // (do * o).sum(-1).transpose(-2, -1).contiguous(), before the kernel's scratch is there
  const std::int64_t product = allocated(checked_mul(heads * q[2], 4 * v[3]));
  return std::max(scratch, product + 2 * rows);
}

}  // namespace ac_advisor::ir
