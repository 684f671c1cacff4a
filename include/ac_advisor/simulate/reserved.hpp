#pragma once

#include <cstdint>
#include <functional>

#include "ac_advisor/passes/schedule.hpp"
#include "ac_advisor/simulate/caching_allocator.hpp"
#include "ac_advisor/simulate/memory.hpp"

namespace ac_advisor::simulate {

/// One request of the walk to the allocator.
struct Request {
  ir::StorageId storage = ir::no_id;  ///< no_id: a workspace
  ir::OpId op = ir::no_id;            ///< that runs, or ran last; no_id: none has yet
  CachingAllocator::Handle handle = CachingAllocator::failed;
  std::int64_t bytes = 0;
  int stream = 0;
  bool frees = false;
};
/// Is told after an allocation, before a free, and at the end with a request that has no handle.
using RequestObserver = std::function<void(const CachingAllocator&, const Request&)>;

/// What `torch.cuda.max_memory_reserved` would report after two steps: both are walked with a
/// replica of the caching allocator, the first without optimizer state until its optimizer runs.
/// Bytes. For a device without a caching allocator (cpu): the allocated peak.
[[nodiscard]] std::int64_t peak_reserved(const passes::StepProgram& step,
                                         const passes::Schedule& schedule, const MemoryModel& model,
                                         std::int64_t cublas_handles, bool expandable_segments,
                                         const RequestObserver& observer = {});

}  // namespace ac_advisor::simulate
