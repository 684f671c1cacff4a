#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ac_advisor/simulate/measurements.hpp"

namespace ac_advisor::simulate {

/// One GPU (or the CPU) as data/devices/<name>.json, or a file that `ac-advisor calibrate` wrote,
/// describes it; every figure there has its source, and says whether it is an estimate.
struct Device {
  std::string name;
  std::string title;
  bool cuda = true;
  std::int64_t memory_bytes = 0;
  std::int64_t usable_bytes = 0;            ///< total that the driver reports
  std::int64_t context_bytes = 0;           ///< CUDA context and library handles
  std::int64_t cublas_workspace_bytes = 0;  ///< per handle and stream
  double bandwidth = 0;                     ///< device memory, bytes/s
  double bf16_flops = 0, fp32_flops = 0;    ///< dense, FLOP/s
  std::int64_t l2_bytes = 0;
  std::int64_t sm_count = 0;
  std::int64_t compute_capability = 0;  ///< 90 for 9.0
  double link_bandwidth = 0;            ///< bytes/s of one GPU to its peers, one direction

  // Host: seconds to issue one op.
  double forward_op_seconds = 0, backward_op_seconds = 0, fused_op_seconds = 0;
  double graph_launch_seconds = 0;  ///< a captured graph, whatever it holds
  double kernel_floor_seconds = 0;  ///< the shortest kernel with the gap to the next

  // Matrix products: share of the peak for large ones, tile sizes, and the K at which a tile's
  // fixed cost equals its work.
  double matmul_asymptote = 1, matmul_tile_m = 128, matmul_tile_n = 128, matmul_k_half = 0;
  double attention_forward = 1, attention_backward = 1;  ///< share of the peak FLOP/s
  // Share of the memory bandwidth.
  double pointwise_bandwidth = 1, reduction_bandwidth = 1, embedding_bandwidth = 1;
  double collective_bandwidth = 1;  ///< share of the link's
  double collective_latency = 0;    ///< seconds

  std::shared_ptr<const Measurements> measured;  ///< null: nothing was measured on it
};

/// By name or alias, or the path of a device file (it has a '/' or ends in .json). Throws UserError
/// listing the known ones, or naming what is wrong in the file.
[[nodiscard]] const Device& find_device(const std::string& name);
/// Names of all devices, in alphabetical order.
[[nodiscard]] std::vector<std::string> device_names();
/// Reads a device file's text; `origin` names it in errors. Throws UserError.
[[nodiscard]] Device parse_device(const std::string& text, const std::string& origin);
/// The text of a built-in device's file, by name or alias.
[[nodiscard]] std::string device_file(const std::string& name);

}  // namespace ac_advisor::simulate
