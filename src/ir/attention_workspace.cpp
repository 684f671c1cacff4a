#include "attention_workspace.hpp"

#include "efficient_workspace.hpp"
#include "flash_workspace.hpp"

namespace ac_advisor::ir {
namespace {

// What cuDNN 9.19's own planner says of its engines for sm_90 (tests/oracle/README.md): 256 B, and
// in backward the gradient of the queries in fp32, a row's sum of do * o in fp32, and where queries
// share keys, the gradients of keys and values for each query's head.
constexpr std::int64_t cudnn_base = 256;

std::int64_t cudnn_backward(const Program& p, const Op& op) {
  const Shape q = p.value(p.input(op, 1)).shape, k = p.value(p.input(op, 2)).shape,
              v = p.value(p.input(op, 3)).shape;
  const std::int64_t rows = checked_mul(q[0] * q[1], q[2]), keys = checked_mul(q[0] * q[1], k[2]);
  std::int64_t bytes = cudnn_base + 4 * rows + checked_mul(rows, 4 * q[3]);
  if (k[1] != q[1])
    bytes += checked_mul(keys, (k[3] + v[3]) * size_of(p.value(p.input(op, 1)).dtype));
  return bytes;
}

/// What PyTorch falls back to: given a mask, flash attention does not run.
bool runs_efficient(const Op& op, const WorkspaceTarget& target, std::size_t operands) {
  const Sdpa& sdpa = attributes<Sdpa>(op);
  if (!target.cuda || target.trainer || runs_cudnn_attention(op, target)) return false;
  return sdpa.kernel == SdpaKernel::efficient || (sdpa.documents == 0 && op.inputs > operands);
}

}  // namespace

bool runs_cudnn_attention(const Op& op, const WorkspaceTarget& target) {
  const SdpaKernel kernel = attributes<Sdpa>(op).kernel;
  if (!target.cuda || target.trainer || kernel == SdpaKernel::flash ||
      kernel == SdpaKernel::efficient || kernel == SdpaKernel::flash_attn)
    return false;
  if (kernel == SdpaKernel::cudnn) return true;
  // check_prefer_cudnn_attention (aten/src/ATen/native/transformers/cuda/sdp_utils.cpp, v2.11)
  return target.compute_capability == 90 || target.compute_capability == 100;
}

bool runs_flash_attention(const Op& op, const WorkspaceTarget& target) {
  constexpr std::size_t operands = 8;
  return !runs_cudnn_attention(op, target) && !runs_efficient(op, target, operands);
}

std::int64_t attention_forward_workspace(const Program& p, const Op& op,
                                         const WorkspaceTarget& target) {
  if (runs_cudnn_attention(op, target)) return cudnn_base;
  if (runs_efficient(op, target, 3)) return efficient_forward_workspace(p, op);
  return flash_forward_workspace(p, op, target);
}

std::int64_t attention_backward_workspace(const Program& p, const Op& op,
                                          const WorkspaceTarget& target) {
  if (runs_cudnn_attention(op, target)) return cudnn_backward(p, op);
  if (runs_efficient(op, target, 8)) return efficient_backward_workspace(p, op, target);
  return flash_backward_workspace(p, op, target);
}

}  // namespace ac_advisor::ir
