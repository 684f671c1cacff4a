#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ac_advisor {

enum class DType : std::uint8_t { bf16, f32, i64, i32, u8 };
[[nodiscard]] constexpr std::int64_t size_of(DType t) {
  switch (t) {
    case DType::bf16:
      return 2;
    case DType::f32:
      return 4;
    case DType::i64:
      return 8;
    case DType::i32:
      return 4;
    case DType::u8:
      return 1;
  }
  return 0;
}

enum class AcMode : std::uint8_t { none, full, selective, attention, grouped, every, sqrt, budget };
enum class AcScope : std::uint8_t { block, submodule };
enum class LossKind : std::uint8_t { ce, lc_ce, chunked };
enum class Kernels : std::uint8_t { eager, fused };
enum class Optimizer : std::uint8_t { adamw, adamw_foreach, sgd };
enum class Sharding : std::uint8_t { none, ddp, zero1, zero2, fsdp2, hsdp };
enum class FsdpUnit : std::uint8_t { block, segment };
enum class Attention : std::uint8_t { automatic, flash, cudnn, efficient, math, eager };
enum class Runtime : std::uint8_t { pytorch, ac_trainer };
/// What is captured into CUDA graphs and replayed: nothing, the whole step in one, or one graph for
/// each block and phase.
enum class CudaGraph : std::uint8_t { off, step, segments };

/// One configuration of a training step: every option that changes what it holds, launches or
/// costs. Plain data, already resolved (a framework preset has been applied) and validated.
struct StepConfig {
  std::int64_t batch = 1;  ///< sequences per rank and micro-batch
  std::int64_t seq = 2048;
  std::int64_t grad_accum = 1;
  std::int64_t world = 1;
  std::int64_t threads = 1;  ///< CPU threads a rank, where the device is a CPU
  std::string gpu = "h100-80gb";
  std::string framework = "hf";

  Sharding shard = Sharding::none;
  std::int64_t hsdp_shards = 0;  ///< N of hsdp:N
  FsdpUnit fsdp_unit = FsdpUnit::block;
  bool keep_last_block = false;
  bool no_sync = false;

  AcMode ac = AcMode::none;
  std::int64_t ac_arg = 0;  ///< K of grouped:K and every:K, bytes of budget:SIZE
  /// What budget: chose, a mode a block: none, attention, selective or full. Empty otherwise.
  std::vector<AcMode> block_modes;
  AcScope scope = AcScope::block;

  LossKind loss = LossKind::ce;
  std::int64_t chunk_tokens = 0;  ///< T of chunked:T
  bool hold_output = true;

  Kernels kernels = Kernels::eager;
  Optimizer optimizer = Optimizer::adamw;
  Attention attention = Attention::automatic;
  CudaGraph cuda_graph = CudaGraph::off;
  DType param_dtype = DType::bf16;
  DType compute_dtype = DType::bf16;
  DType reduce_dtype = DType::bf16;
  bool autocast = false;
  double dropout = 0.0;
  double capacity_factor = 1.0;
  bool expandable_segments = false;
  Runtime runtime = Runtime::pytorch;
  bool force = false;

  /// Under a TorchDispatchMode PyTorch's engine adds gradients out of place, and a few formulas
  /// write out of place. Only the comparison with references taken that way sets this.
  bool under_dispatch_mode = false;

  bool operator==(const StepConfig&) const = default;
};

}  // namespace ac_advisor
