#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "ac_advisor/ir/op_table.hpp"
#include "ac_advisor/passes/schedule.hpp"

namespace ac_advisor::simulate {

/// How an allocator sees sizes and scratch.
struct MemoryModel {
  bool round_to_512 = true;           ///< the CUDA caching allocator's; false: exact bytes (cpu)
  bool workspaces = true;             ///< false: the second walk, without any scratch
  std::int64_t cublas_workspace = 0;  ///< bytes of all cuBLAS workspaces, resident
  ir::WorkspaceTarget target;
};

/// The walk of the schedule with a counter: what `torch.cuda.memory_allocated` would go through.
struct MemoryTrace {
  std::int64_t resident = 0;  ///< bytes at the step's start
  std::int64_t peak = 0;
  ir::OpId peak_op = ir::no_id;  ///< no_id: at the step's start
  std::array<std::int64_t, ir::phase_count> peak_by_phase{};
  std::int64_t workspace_at_peak = 0;  ///< scratch of the op at the peak and cuBLAS
};

/// Bytes as the allocator counts them.
[[nodiscard]] std::int64_t allocated_size(std::int64_t bytes, bool round_to_512);

/// Peaks of the steady-state step. `live`, if given, receives the live bytes after each op.
[[nodiscard]] MemoryTrace walk_memory(const passes::StepProgram& step,
                                      const passes::Schedule& schedule, const MemoryModel& model,
                                      std::vector<std::int64_t>* live = nullptr);

/// Storages alive while op `at` runs (no_id: at the step's start), in order of creation.
[[nodiscard]] std::vector<ir::StorageId> live_at(const passes::StepProgram& step,
                                                 const passes::Schedule& schedule, ir::OpId at);

}  // namespace ac_advisor::simulate
