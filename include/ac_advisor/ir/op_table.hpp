#pragma once

#include <cstdint>
#include <span>

#include "ac_advisor/ir/derivation.hpp"
#include "ac_advisor/ir/program.hpp"
#include "ac_advisor/model/step_config.hpp"

namespace ac_advisor::ir {

/// Which measured efficiency and which unit of the device an op's time comes from.
enum class CostClass : std::uint8_t {
  none,
  matmul,
  attention,
  pointwise,
  reduction,
  embedding,
  collective
};

/// What of a device decides an op's scratch memory.
struct WorkspaceTarget {
  bool cuda = true;  ///< false: PyTorch's CPU kernels
  std::int64_t sm_count = 132;
  std::int64_t compute_capability = 90;
  std::int64_t threads = 1;    ///< of a CPU: its kernels have scratch a thread
  bool trainer = false;        ///< this project's fused kernels on a GPU, not PyTorch's libraries
  bool engine = false;         ///< Transformer Engine's linear layers, whose products are its own
  bool deterministic = false;  ///< torch.use_deterministic_algorithms
  TorchVersion torch = TorchVersion::v2_11;
  std::int64_t cublas_workspace = 0;  ///< of one product while it runs; 0: it is kept, or none
};

/// All that is known of one op kind; every pass and both walkers read it here.
struct OpRow {
  OpKind kind;
  const char* name;  ///< as PyTorch dispatches it (without `aten::`), where it does
  Derive derive;     ///< null: not differentiable, or only ever made by a derivative
  CostClass cost;
  double flops_per_output;  ///< per output element; times Product::inner for matrix products
  /// Times that the operands' bytes go through memory; 1 for an op that reads inputs and writes
  /// outputs once, 0 for a view.
  double traffic;
  std::int8_t dispatches;  ///< counted as PyTorch's dispatcher does, views and empty not counted
  std::int8_t launches;    ///< kernels on a GPU
  /// Inputs (bit i) that the op writes in place.
  std::uint8_t mutates;
  /// Scratch bytes inside the op; null: none.
  std::int64_t (*workspace)(const Program&, const Op&, const WorkspaceTarget&);
  Attributes attributes{};  ///< the struct that ops of this kind have, with its defaults
};

[[nodiscard]] std::span<const OpRow, op_kind_count> op_table();
[[nodiscard]] const OpRow& row(OpKind kind);
/// The op's name as PyTorch dispatches it: its row's, or of an imported op its own.
[[nodiscard]] const char* name_of(const Program& program, const Op& op);

/// Ops that PyTorch's dispatcher counts for one execution; views, empty and detach are not counted.
[[nodiscard]] std::int32_t dispatches(const Op& op);
/// Kernels that one execution launches on a GPU by this PyTorch.
/// `trainer`: by this project's kernels, whose loss is tile by tile and whose AdamW takes more
/// tensors a launch.
[[nodiscard]] std::int64_t launches(const Program& program, const Op& op, bool trainer = false,
                                    TorchVersion torch = TorchVersion::v2_11);
/// Multiply-adds for each element that a matrix product puts out: K.
[[nodiscard]] std::int32_t inner_dimension(const Op& op);
/// Keys that a query of causal attention sees on average: (S + 1) / 2, or what its window leaves.
[[nodiscard]] double keys_per_query(const Program& program, const Op& op);
/// Floating-point operations of one execution.
[[nodiscard]] double flops(const Program& program, const Op& op);
/// Bytes that one execution reads and writes in device memory.
[[nodiscard]] double traffic_bytes(const Program& program, const Op& op);
/// Whether cuDNN runs this `sdpa` or `sdpa_backward` there, and not flash attention.
[[nodiscard]] bool runs_cudnn_attention(const Op& op, const WorkspaceTarget& target);
[[nodiscard]] std::int64_t workspace_bytes(const Program& program, const Op& op,
                                           const WorkspaceTarget& target);

}  // namespace ac_advisor::ir
