#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ac_advisor::simulate {

/// One GPU (or the CPU) as data/devices/<name>.json describes it; every figure there has its source.
struct Device {
  std::string name;
  bool cuda = true;
  std::int64_t memory_bytes = 0;
  std::int64_t usable_bytes = 0;        ///< what cudaMemGetInfo reports in all
  std::int64_t context_bytes = 0;       ///< CUDA context and library handles (estimate)
  double bandwidth = 0;                 ///< bytes/s
  double bf16_flops = 0, fp32_flops = 0, tf32_flops = 0;  ///< dense, FLOP/s
  std::int64_t sm_count = 0;
  std::int64_t compute_capability = 0;  ///< 90 for 9.0
  std::int64_t cublas_workspace_bytes = 0;  ///< per handle and stream
  double link_bandwidth = 0;            ///< bytes/s of one GPU's collectives (bus bandwidth)
  double host_issue_seconds = 0;        ///< per eager op
  double kernel_floor_seconds = 0;      ///< the shortest kernel
  // Shares of the peak that each class of op reaches (estimates until calibrated).
  double matmul_efficiency = 0, attention_efficiency = 0, pointwise_efficiency = 0,
         reduction_efficiency = 0, embedding_efficiency = 0, collective_efficiency = 0;
};

/// By name or alias. Throws UserError listing the known ones.
[[nodiscard]] const Device& find_device(const std::string& name);
[[nodiscard]] const std::vector<Device>& devices();

}  // namespace ac_advisor::simulate
