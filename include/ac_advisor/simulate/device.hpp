#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ac_advisor/ir/op_kind.hpp"
#include "ac_advisor/simulate/measurements.hpp"

namespace ac_advisor::simulate {

/// Share of the peak FLOP/s that an attention kernel reaches with heads of 128 and many tokens.
struct AttentionRate {
  double forward = 1, backward = 1;
  double half_tokens = 0;  ///< sequence length at which it reaches half of that
  double head_64 = 1;      ///< with heads of 64, of what it reaches with 128
};

/// One GPU (or the CPU) as data/devices/<name>.json, or a file that `ac-advisor calibrate` wrote,
/// describes it; every figure there has its source, and says whether it is an estimate.
struct Device {
  std::string name;
  std::string title;
  /// Of a file that was given: a fingerprint of what it says, without sources and titles. Empty:
  /// built in, of this version of the program.
  std::string figures;
  bool cuda = true;
  std::int64_t memory_bytes = 0;
  std::int64_t usable_bytes = 0;            ///< total that the driver reports
  std::int64_t context_bytes = 0;           ///< CUDA context and library handles
  std::int64_t cublas_workspace_bytes = 0;  ///< per handle and stream
  double bandwidth = 0;                     ///< device memory, bytes/s
  double bf16_flops = 0, fp32_flops = 0;    ///< dense, FLOP/s
  double fp8_flops = 0;                     ///< likewise; 0: the device has no FP8
  std::int64_t l2_bytes = 0;
  std::int64_t sm_count = 0;
  std::int64_t compute_capability = 0;  ///< 90 for 9.0
  double link_bandwidth = 0;            ///< bytes/s of one GPU to its peers, one direction
  double host_bandwidth = 0;            ///< bytes/s to pinned host memory, one direction; 0: none
  double host_copy_bandwidth = 1;       ///< share of it that copies reach

  // Host: seconds to issue one op; what a checkpoint adds for each region and each saved tensor;
  // what FSDP2's hooks do to gather a unit; what a training loop does between two steps.
  double forward_op_seconds = 0, backward_op_seconds = 0, fused_op_seconds = 0;
  double region_seconds = 0, saved_hook_seconds = 0, gather_seconds = 0, step_seconds = 0;
  double graph_launch_seconds = 0;  ///< a captured graph, whatever it holds
  double kernel_floor_seconds = 0;  ///< the shortest kernel with the gap to the next

  // Matrix products: share of the peak for large ones, tile sizes, the K at which a tile's fixed
  // cost equals its work, what a tile of half the size reaches of that, and what FP8 does.
  double matmul_asymptote = 1, matmul_tile_m = 128, matmul_tile_n = 128, matmul_k_half = 0,
         matmul_half_tile = 0.9, matmul_fp8_share = 1;
  double spread = 0;  ///< standard deviation of equal devices' speed at their power limit
  AttentionRate flash, cudnn, flash1;
  bool has_flash1 = false;  ///< else flash1 has the figures of flash
  // Share of the memory bandwidth, by class; by kind where one was measured (0: the class's).
  double pointwise_bandwidth = 1, reduction_bandwidth = 1, embedding_bandwidth = 1;
  std::array<double, ir::op_kind_count> kind_bandwidth{};
  /// Elements/s of a pointwise kernel whose operands are strided or broadcast; 0: no bound.
  double strided_elements = 0;
  double collective_bandwidth = 1;  ///< share of the link's: all-gather, reduce-scatter
  double all_reduce_bandwidth = 0;  ///< likewise, all-reduce; 0: as collective_bandwidth
  double collective_latency = 0;    ///< seconds, one pass around the ring of a node
  std::int64_t collective_sms = 0;  ///< multiprocessors that a running collective holds

  std::int64_t node_size = 8;    ///< GPUs that the link joins
  double network_bandwidth = 0;  ///< bytes/s of one GPU to other nodes, one direction; 0: unbounded
  double network_gather = 1, network_reduce = 1;  ///< share of it: all-gather, all-reduce

  std::shared_ptr<const Measurements> measured;  ///< null: nothing was measured on it

  /// Ranks of a node: those that were asked for, or (0) the GPUs that the link joins.
  [[nodiscard]] std::int64_t ranks_of_node(std::int64_t asked) const {
    return asked > 0 ? asked : node_size;
  }
  /// Of matrix products, FLOP/s: what `matmul_asymptote` is a share of.
  [[nodiscard]] double peak_flops(DType compute) const {
    if (compute == DType::f8) return fp8_flops * matmul_fp8_share;
    return is_half(compute) ? bf16_flops : fp32_flops;  // fp16 is as fast
  }
};

/// By name or alias, or the path of a device file (it has a '/' or ends in .json). Throws UserError
/// listing the known ones, or naming what is wrong in the file.
[[nodiscard]] const Device& find_device(const std::string& name);
/// Names of all devices, in alphabetical order.
[[nodiscard]] std::vector<std::string> device_names();
/// Reads a device file's text; `origin` names it in errors. Throws UserError naming the field, its
/// value and what would be right.
[[nodiscard]] Device parse_device(const std::string& text, const std::string& origin);
/// The text of a built-in device's file, by name or alias.
[[nodiscard]] std::string device_file(const std::string& name);

}  // namespace ac_advisor::simulate
