#pragma once

#include <array>
#include <cstdint>

#include "ac_advisor/model/step_config.hpp"

namespace ac_advisor::ir {

/// What one launch of multi_tensor_apply has room for, by the size of a kernel's arguments.
struct MultiTensorRoom {
  std::int64_t chunks;                  ///< of 65536 elements
  std::array<std::int64_t, 5> tensors;  ///< by the lists that it walks along together
  std::int64_t tensors_with_scalars;    ///< of one list, with a scalar a tensor
};

/// What a release of PyTorch, as its wheel for CUDA 13 is built, launches and holds otherwise than
/// another.
struct TorchFacts {
  const char* release;  ///< "2.11"
  /// A workspace is kept for each handle and stream; else each product has one while it runs.
  bool keeps_cublas_workspaces;
  MultiTensorRoom multi_tensor;
  /// The backward of an embedding sorts tokens by the bits that a vocabulary needs, not by all 64.
  bool sorts_tokens_by_vocabulary;
  /// A product that is added to a matrix is cuBLASLt's, which reads it in place; else cuBLAS', to
  /// which it is copied first.
  bool adds_to_matrix_in_cublaslt;
  /// Zeros are set by one memset; else by kernels, each of as much as 32 bits can index.
  bool sets_zeros_by_memset;
  /// The memory-efficient kernel takes keys that queries share, and every fused kernel a head that
  /// is given once for all queries.
  bool fused_attention_shares_keys;
  /// `auto` gives cuDNN attention with dropout; and heads of 192 on compute capability 9.0.
  bool prefers_cudnn_with_dropout, prefers_cudnn_of_192;
  /// The memory-efficient kernel's random state is two numbers on the device, which are cleared.
  bool efficient_state_on_device;
  /// FSDP2's forward keeps the last all-gather's buffer until the next one has been copied out;
  /// else until then.
  bool keeps_last_all_gather_over_copy_out;
  /// NCCL's process group keeps what it has reduced until the next reduction.
  bool keeps_what_it_reduced;
};

[[nodiscard]] const TorchFacts& facts_of(TorchVersion torch);

}  // namespace ac_advisor::ir
