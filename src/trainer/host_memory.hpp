#pragma once

#include <ATen/ATen.h>

#include <map>

#include "trainer/memory_tracker.hpp"

namespace ac_advisor::trainer {

/// What stands for pinned memory where the device is the host itself: copies of what has left the
/// device, in bytes that are counted apart.
class HostMemory {
 public:
  /// A copy of the tensor, by the op that sends it.
  void keep(ir::OpId sender, const at::Tensor& tensor);
  /// What that op has sent; it is on the host no more once the caller lets it go.
  [[nodiscard]] at::Tensor take(ir::OpId sender);
  /// What was never taken.
  void clear() { kept_.clear(); }
  [[nodiscard]] std::int64_t peak() const { return tracker_.peak().bytes; }
  void reset_peak() { tracker_.reset_peaks(); }

 private:
  MemoryTracker tracker_;  // before what it counts: it outlives that
  std::map<ir::OpId, at::Tensor> kept_;
};

}  // namespace ac_advisor::trainer
