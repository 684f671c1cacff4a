#include "trainer/host_memory.hpp"

#include <stdexcept>

namespace ac_advisor::trainer {

void HostMemory::keep(ir::OpId sender, const at::Tensor& tensor) {
  const MemoryTracker::Scope apart(&tracker_);
  kept_[sender] = tensor.clone(at::MemoryFormat::Contiguous);
}

at::Tensor HostMemory::take(ir::OpId sender) {
  auto node = kept_.extract(sender);
  if (node.empty()) throw std::logic_error("a tensor comes back from the host that never left");
  return std::move(node.mapped());
}

}  // namespace ac_advisor::trainer
