#include "ac_advisor/ir/torch_facts.hpp"

namespace ac_advisor::ir {

const TorchFacts& facts_of(TorchVersion torch) {
  static constexpr TorchFacts v2_11{
      .release = "2.11",
      .keeps_cublas_workspaces = true,
      .multi_tensor = {320, {110, 64, 48, 36, 30}, 96},
      .sorts_tokens_by_vocabulary = false,
      .adds_to_matrix_in_cublaslt = false,
      .sets_zeros_by_memset = false,
      .fused_attention_shares_keys = false,
      .prefers_cudnn_with_dropout = true,
      .prefers_cudnn_of_192 = true,
      .efficient_state_on_device = false,
      .keeps_last_all_gather_over_copy_out = true,
      .keeps_what_it_reduced = true,
  };
  static constexpr TorchFacts v2_15{
      .release = "2.15",
      // CublasHandlePool.cpp: isCUDABlasWorkspaceCachingEnabled, off unless
      // TORCH_CUBLAS_WORKSPACE_CACHE=1
      .keeps_cublas_workspaces = false,
      // MultiTensorApply.cuh: a kernel of CUDA 13 takes 32 KB of arguments
      .multi_tensor = {2240, {770, 448, 336, 252, 210}, 672},
      .sorts_tokens_by_vocabulary = true,
      .adds_to_matrix_in_cublaslt = true,
      .sets_zeros_by_memset = true,
      .fused_attention_shares_keys = true,
      .prefers_cudnn_with_dropout = false,
      .prefers_cudnn_of_192 = false,
      .efficient_state_on_device = true,
      // _fsdp_param_group.py: release_all_gather_state_for_comm_reuse has it to itself
      .keeps_last_all_gather_over_copy_out = false,
      // ProcessGroupNCCL2, which "nccl" is
      .keeps_what_it_reduced = false,
  };
  return torch == TorchVersion::v2_11 ? v2_11 : v2_15;
}

}  // namespace ac_advisor::ir
