// Copies between the device and pinned host memory, on streams of their own, and what the host
// computes itself.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "ac_advisor/ir/program.hpp"
#include "ac_advisor/simulate/device.hpp"

namespace ac_advisor::simulate {

/// What autograd saves: TRL 1.16's OffloadActivations (trl/models/activation_offloading.py). Where
/// the device is the host itself, a copy reads its memory and writes it.
class HostCopies {
 public:
  HostCopies(const ir::Program& p, const Device& d)
      : p_(p),
        bandwidth_(d.host_bandwidth > 0 ? d.host_bandwidth * d.host_copy_bandwidth
                                        : d.bandwidth / 2),
        left_(p.storages.size(), 0.0),
        read_(p.storages.size(), -1.0) {}

  /// After what the compute stream has been given: s1.wait_stream(s0).
  void to_host(const ir::Op& op, double issued, double compute) {
    const ir::ValueId v = p_.input(op, 0);
    end_ = std::max({issued, end_, compute}) + seconds(v);
    left_[at(v)] = end_;
  }
  /// When it is there.
  double from_host(const ir::Op& op, double issued) {
    const ir::ValueId v = p_.output(op, 0);
    read_[at(v)] = 0;
    return end_ = std::max(issued, end_) + seconds(v);
  }
  /// A `hold` in front of a free. What was copied to the host goes when the copy is done, and the
  /// compute stream waits for that; further copies wait until a tensor that came back was read.
  /// Returns what the compute stream waits for.
  double freed(const ir::Op& op) {
    double wait = 0;
    for (const ir::ValueId v : p_.inputs(op)) {
      wait = std::max(wait, std::exchange(left_[at(v)], 0.0));
      if (read_[at(v)] >= 0) end_ = std::max(end_, read_[at(v)]);
    }
    return wait;
  }
  void read(const ir::Op& op, double compute) {
    for (const ir::ValueId v : p_.inputs(op))
      if (read_[at(v)] >= 0) read_[at(v)] = compute;
  }

 private:
  [[nodiscard]] std::size_t at(ir::ValueId v) const {
    return static_cast<std::size_t>(p_.storage_of(v));
  }
  [[nodiscard]] double seconds(ir::ValueId v) const {
    return static_cast<double>(p_.bytes(v)) / bandwidth_;
  }

  const ir::Program& p_;
  double bandwidth_;
  double end_ = 0;            ///< of the last copy, or of what the next one waits for
  std::vector<double> left_;  ///< by storage: when its copy to the host is done; 0: not under way
  std::vector<double> read_;  ///< by storage that came back: when it was last read; -1: others
};

/// FSDP2's CPUOffloadPolicy (torch/distributed/fsdp/_fully_shard, v2.11): a unit's shards come on
/// the stream of its all-gather's copy-in, its gradients go on that of its reduce-scatter. FSDP1's
/// CPUOffload has streams of the same use (_pre_unshard_stream, _post_backward_stream).
class ShardCopies {
 public:
  ShardCopies(const ir::Program& p, const Device& d)
      : p_(p), bandwidth_(d.host_bandwidth * d.host_copy_bandwidth) {}

  void from_host(const ir::Op& op, double earliest) {
    arrived_ = std::max(earliest, arrived_) + seconds(p_.output(op, 0));
  }
  void to_host(const ir::Op& op, double earliest) {
    left_ = std::max(earliest, left_) + seconds(p_.input(op, 0));
  }
  /// When all shards that were asked for are there.
  [[nodiscard]] double arrived() const { return arrived_; }
  /// When all gradients so far are on the host.
  [[nodiscard]] double left() const { return left_; }

 private:
  [[nodiscard]] double seconds(ir::ValueId v) const {
    return static_cast<double>(p_.bytes(v)) / bandwidth_;
  }

  const ir::Program& p_;
  double bandwidth_;
  double arrived_ = 0, left_ = 0;
};

/// torchao's CPUOffloadOptimizer (torchao/optim/cpu_offload.py, 0.18): copies in both directions on
/// one stream; the host steps a parameter when its gradient is there.
class OptimizerCopies {
 public:
  OptimizerCopies(const ir::Program& p, const Device& d)
      : p_(p), bandwidth_(d.host_bandwidth * d.host_copy_bandwidth) {}

  void begin_micro_batch() {
    arrived_.clear();
    stepped_ = 0;
  }
  /// After what the compute stream has been given.
  void to_host(const ir::Op& op, double issued, double compute) {
    end_ = std::max({issued, end_, compute}) + seconds(op);
    arrived_.push_back(end_);
  }
  /// When the next parameter can be stepped: in the order in which their gradients were copied.
  [[nodiscard]] double next_gradient() {
    return stepped_ < arrived_.size() ? arrived_[stepped_++] : 0.0;
  }
  void from_host(const ir::Op& op, double issued) { end_ = std::max(issued, end_) + seconds(op); }
  /// Of the last copy.
  [[nodiscard]] double end() const { return end_; }

 private:
  [[nodiscard]] double seconds(const ir::Op& op) const {
    return static_cast<double>(p_.bytes(p_.input(op, 0))) / bandwidth_;
  }

  const ir::Program& p_;
  double bandwidth_;
  double end_ = 0;
  std::vector<double> arrived_;  ///< of this micro-batch's gradients
  std::size_t stepped_ = 0;
};

[[nodiscard]] inline bool is_optimizer_copy(const ir::Op& op) {
  return op.module.leaf == ir::Module::optimizer &&
         (op.kind == ir::OpKind::copy_from_host || op.kind == ir::OpKind::copy_to_host);
}

[[nodiscard]] inline bool is_shard_copy(const ir::Op& op) {
  return op.module.leaf == ir::Module::fsdp &&
         (op.kind == ir::OpKind::copy_from_host || op.kind == ir::OpKind::copy_to_host);
}

/// One GPU's share of a host's memory: two sockets of eight channels of DDR5-4800 (38.4 GB/s each)
/// for eight GPUs, as a DGX H100 has them (Xeon Platinum 8480C), of which streams are taken to
/// reach four fifths. An estimate.
inline constexpr double host_memory_bandwidth = 2 * 8 * 38.4e9 / 8 * 0.8;

/// Of an optimizer that runs on the host: its range reads what it goes over, each as often as it
/// does. 0: not one.
[[nodiscard]] inline double host_optimizer_seconds(const ir::Program& p, const ir::Op& op) {
  if (op.kind != ir::OpKind::record_function) return 0;
  double bytes = 0;
  for (const ir::ValueId v : p.inputs(op)) bytes += static_cast<double>(p.bytes(v));
  return bytes / host_memory_bandwidth;
}

}  // namespace ac_advisor::simulate
