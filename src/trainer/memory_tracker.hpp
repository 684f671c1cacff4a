#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "ac_advisor/ir/program.hpp"

namespace ac_advisor::trainer {

/// Counts every tensor allocation of the threads that it is current on: exact bytes, by the storage
/// of the program that they belong to. What an op allocates beyond its outputs is its workspace.
/// A device whose own allocator counts is sampled instead, op by op, while sampling is on.
class MemoryTracker {
 public:
  /// One live allocation; lies in front of its bytes.
  struct alignas(64) Block {
    std::int64_t bytes = 0;
    MemoryTracker* tracker = nullptr;
    Block* previous = nullptr;
    Block* next = nullptr;
    ir::StorageId storage = ir::no_id;  ///< no_id: workspace
    void* memory = nullptr;             ///< what malloc gave
  };
  struct Peak {
    std::int64_t bytes = 0;
    ir::OpId op = ir::no_id;
  };

  /// What a device's allocator counts, in bytes.
  struct DeviceCounter {
    std::function<std::int64_t()> allocated;  ///< now
    std::function<std::int64_t()> take_peak;  ///< since the last call
    std::int64_t granularity = 512;           ///< what an allocation is rounded to
  };

  MemoryTracker() = default;
  /// What is still alive is nobody's from here on: a collective that failed may hold a tensor for
  /// longer than its rank lives.
  ~MemoryTracker();
  MemoryTracker(const MemoryTracker&) = delete;
  MemoryTracker& operator=(const MemoryTracker&) = delete;

  /// Replaces LibTorch's CPU allocator by the counting one. Call once, before the first tensor.
  static void install();
  /// Allocations of this thread go to `tracker` until the scope ends (null: to nobody).
  class Scope {
   public:
    explicit Scope(MemoryTracker* tracker);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    MemoryTracker* before_;
  };

  /// From here on the device counts, and storages are told by hold() and let_go().
  void count_by(DeviceCounter counter) { device_ = std::move(counter); }
  [[nodiscard]] bool counts_by_device() const { return static_cast<bool>(device_.allocated); }
  /// Whether each op's peak is asked for: that costs time.
  void set_sampling(bool on);
  void hold(ir::StorageId storage, std::int64_t bytes);
  void let_go(ir::StorageId storage);

  /// What the next allocations are for.
  void set_storage(ir::StorageId storage) { storage_ = storage; }
  /// The block of a tensor that an op has made itself becomes a storage's.
  void adopt(void* data, ir::StorageId storage);
  void begin_op(ir::OpId op, ir::Phase phase);
  /// The op has run, nothing of it is freed yet.
  void end_op();
  /// Without sampling, a device's peak is the step's.
  void end_step();
  /// Peaks from here on: of all bytes, and without workspaces.
  void reset_peaks();
  /// Bytes that may be live at most, 0: no limit; beyond it an allocation throws OutOfMemory.
  void set_limit(std::int64_t bytes) { limit_ = bytes; }

  /// `seen` is called after each allocation while op `op` runs.
  void set_watch(ir::OpId op, std::function<void()> seen) {
    watched_ = op;
    seen_ = std::move(seen);
  }

  [[nodiscard]] std::int64_t live() const;
  [[nodiscard]] Peak peak() const { return peak_; }
  [[nodiscard]] Peak declared_peak() const { return declared_peak_; }
  [[nodiscard]] const std::array<std::int64_t, ir::phase_count>& peak_by_phase() const {
    return phase_peak_;
  }
  [[nodiscard]] const std::array<std::int64_t, ir::phase_count>& declared_peak_by_phase() const {
    return declared_phase_peak_;
  }
  [[nodiscard]] std::int64_t allocations() const { return allocations_; }
  void each_live(const std::function<void(std::int64_t bytes, ir::StorageId)>& visit);

  // For the allocator. Null where nobody counts the host's allocations.
  static MemoryTracker* current();
  void add(Block* block);
  static void remove(Block* block);

 private:
  void link(Block* block);
  void note();

  static inline std::mutex mutex_;  ///< of all: a block may be freed while its tracker ends
  Block* first_ = nullptr;
  ir::StorageId storage_ = ir::no_id;
  ir::OpId op_ = ir::no_id;
  ir::Phase phase_ = ir::Phase::forward;
  std::int64_t live_ = 0, declared_ = 0, limit_ = 0, allocations_ = 0;
  ir::OpId watched_ = ir::no_id;
  std::function<void()> seen_;
  DeviceCounter device_;
  bool sampling_ = false;
  std::map<ir::StorageId, std::int64_t> held_;  ///< of a device that counts
  Peak peak_, declared_peak_;
  std::array<std::int64_t, ir::phase_count> phase_peak_{}, declared_phase_peak_{};
};

/// An allocation beyond the limit (`--memory-limit`), or that the machine refused.
struct OutOfMemory {
  std::int64_t requested = 0, live = 0, limit = 0;
};

}  // namespace ac_advisor::trainer
