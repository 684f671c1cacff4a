#pragma once

#include <array>
#include <vector>

#include "ac_advisor/simulate/clock.hpp"
#include "matmul_time.hpp"

namespace ac_advisor::simulate {

[[nodiscard]] bool is_collective(const ir::Op& op);

/// Device seconds of an op: alone, and while a collective runs beside it all the time.
struct KernelSeconds {
  double alone = 0, beside = 0;
};

/// The longest of an op's roofline terms, FLOPs, bytes or elements, after the shortest kernel's
/// time.
class KernelTimes {
 public:
  KernelTimes(const ir::Program& program, const Device& device, const Run& run);
  KernelSeconds operator()(const ir::Op& op);

 private:
  [[nodiscard]] KernelSeconds kernel(const ir::Op& op) const;
  [[nodiscard]] KernelSeconds product(const ir::Op& op, double peak) const;
  [[nodiscard]] double attention(const ir::Op& op, double peak) const;
  [[nodiscard]] double imported(const ir::Op& op, double work) const;
  [[nodiscard]] double memory(const ir::Op& op) const;

  const ir::Program& p_;
  const Device& d_;
  const Run run_;
  double slowest_ = 1;         ///< of the ranks that wait for each other, to one on average
  double free_sms_ = 1;        ///< multiprocessors beside a collective
  double free_bandwidth_ = 1;  ///< share of the memory's bandwidth beside a collective
  struct Known {
    ir::Op op;
    KernelSeconds seconds;
  };
  /// Of each kind: blocks are alike, so no kernel is worked out twice.
  std::array<std::vector<Known>, ir::op_kind_count> known_;
};

}  // namespace ac_advisor::simulate
