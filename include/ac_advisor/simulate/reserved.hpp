#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

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

/// Of one of the steps: what the allocator had to do to stay within its limit.
struct AllocatorStep {
  std::int64_t retries = 0;            ///< cached blocks released, the device asked again
  std::int64_t released_segments = 0;  ///< in doing so
  std::int64_t peak_allocated = 0;     ///< bytes, since the walk began
};

/// The request that was refused after cached blocks had been released. Bytes.
struct Refused {
  std::size_t step = 0;     ///< steps that were done
  ir::OpId op = ir::no_id;  ///< that asked; no_id: before the first
  std::int64_t requested = 0;
};

/// What the caching allocator's own counters would report. Bytes.
struct AllocatorWalk {
  std::int64_t peak_reserved = 0;    ///< `torch.cuda.max_memory_reserved` after all of them
  std::int64_t first_step_peak = 0;  ///< allocated, in the first of them
  /// Allocated, in the step where DistributedDataParallel makes its buckets anew; else 0.
  std::int64_t rebuilding_peak = 0;
  std::shared_ptr<const BlockSizes> blocks;  ///< of the last
  std::vector<AllocatorStep> steps;
  std::optional<Refused> refused;  ///< then the walk ended there
};

/// Walks steps with a replica of the caching allocator until they are alike. The first has no
/// optimizer state until its optimizer runs, and PyTorch's cuBLAS workspaces (one a thread:
/// forward's and autograd's) come with the first product of their thread. DistributedDataParallel
/// makes new buckets before the forward that follows the first backward that reduces
/// (c10d/reducer.cpp, v2.11: rebuild_buckets), while the old ones wait in the process group for its
/// next collective (ProcessGroupNCCL.cpp: shelvesToUnstash_). `model.blocks` is not read. For a
/// device without a caching allocator (cpu): the allocated peak, and no blocks. With a limit there
/// are more steps, until one leaves the allocator's blocks as the one before did.
[[nodiscard]] AllocatorWalk walk_allocator(const passes::StepProgram& step,
                                           const passes::Schedule& schedule,
                                           const MemoryModel& model, std::int64_t cublas_handles,
                                           const AllocatorOptions& options,
                                           const RequestObserver& observer = {});

}  // namespace ac_advisor::simulate
