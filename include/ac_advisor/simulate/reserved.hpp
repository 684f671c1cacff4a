#pragma once

#include <cstdint>

#include "ac_advisor/passes/schedule.hpp"
#include "ac_advisor/simulate/memory.hpp"

namespace ac_advisor::simulate {

/// What `torch.cuda.max_memory_reserved` would report after two steps: both are walked with a
/// replica of the caching allocator, the first without optimizer state until its optimizer runs.
/// Bytes. For a device without a caching allocator (cpu): the allocated peak.
[[nodiscard]] std::int64_t peak_reserved(const passes::StepProgram& step,
                                         const passes::Schedule& schedule, const MemoryModel& model,
                                         std::int64_t cublas_handles, bool expandable_segments);

}  // namespace ac_advisor::simulate
