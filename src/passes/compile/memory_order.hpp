#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "ac_advisor/model/step_config.hpp"

namespace ac_advisor::passes::compile {

/// What one launch allocates, and the buffers that it reads and makes; numbers are of `Buffers`.
struct LaunchMemory {
  std::vector<std::int32_t> reads, makes;
};

struct BufferMemory {
  std::int64_t bytes = 0;
  bool given = false;   ///< there before the first launch, and freed after the last that reads it
  bool result = false;  ///< never freed
};

/// The order in which Inductor runs a graph's launches, which are in a topological order: the best
/// of that and of three others by an estimate of its peak (torch/_inductor/memory.py, v2.11:
/// reorder_for_peak_memory).
struct OrderedLaunches {
  std::vector<std::int32_t> order;
  /// Live bytes while each launch runs, as Inductor estimates them (estimate_peak_memory): results
  /// count nothing, as there.
  std::vector<std::int64_t> memory;
};
[[nodiscard]] OrderedLaunches order_for_peak_memory(const std::vector<LaunchMemory>& launches,
                                                    const std::vector<BufferMemory>& buffers);

/// Whose memory a new buffer takes over: one of its size and dtype that was freed, unless that
/// would raise the estimated peak (torch/_inductor/codegen/wrapper.py, v2.11: AllocateLine,
/// FreeIfNotReusedLine, EfficientPeakEstimate).
class ReusePool {
 public:
  ReusePool() = default;
  explicit ReusePool(std::vector<std::int64_t> estimate);
  void free(std::int32_t tensor, DType dtype, std::int64_t bytes, std::size_t step);
  /// The tensor whose memory is free; -1: none.
  [[nodiscard]] std::int32_t allocate(DType dtype, std::int64_t bytes, std::size_t step);

 private:
  struct Freed {
    std::int32_t tensor;
    std::size_t step;
  };
  std::vector<std::int64_t> estimate_;
  std::int64_t peak_ = 0;
  std::map<std::pair<DType, std::int64_t>, std::vector<Freed>> freed_;
};

}  // namespace ac_advisor::passes::compile
