#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "ac_advisor/ir/op_table.hpp"
#include "ac_advisor/passes/schedule.hpp"

namespace ac_advisor::simulate {

/// Bytes that each request takes of the caching allocator in the steady-state step: more than its
/// 512 B units where the block that it found is not split (simulate/reserved.hpp finds them).
struct BlockSizes {
  std::vector<std::int64_t> storages;  ///< by id
  std::vector<std::int64_t> scratch;   ///< by op
  std::int64_t cublas_workspace = 0;   ///< of all workspaces
};

/// What recorded CUDA graphs have in a pool of the allocator's that is theirs: it stays reserved,
/// and is not allocated once the graphs are replayed.
struct GraphPool {
  std::vector<bool> storages;  ///< by id
  std::vector<bool> ops;       ///< whose scratch and cuBLAS workspaces are there
};

/// How an allocator sees sizes and scratch.
struct MemoryModel {
  bool round_to_512 = true;           ///< the CUDA caching allocator's; false: exact bytes (cpu)
  bool workspaces = true;             ///< false: the second walk, without any scratch
  std::int64_t cublas_workspace = 0;  ///< bytes of all cuBLAS workspaces, resident
  ir::WorkspaceTarget target;
  bool copies_masters = false;  ///< the first step makes fp32 masters by way of two copies each
  bool empties_cache = false;   ///< each micro-batch begins with torch.cuda.empty_cache()
  std::shared_ptr<const BlockSizes> blocks;  ///< null: requests in 512 B units, or exact
  std::shared_ptr<const GraphPool> pool;     ///< null: no graphs are recorded
};

/// The walk of the schedule with a counter: what `torch.cuda.memory_allocated` would go through.
struct MemoryTrace {
  std::int64_t resident = 0;  ///< bytes at the step's start
  std::int64_t peak = 0;
  ir::OpId peak_op = ir::no_id;  ///< no_id: at the step's start
  std::array<std::int64_t, ir::phase_count> peak_by_phase{};
  std::int64_t reference_peak = 0;     ///< while a reference's forward runs; 0: none does
  std::int64_t workspace_at_peak = 0;  ///< scratch of the op at the peak and cuBLAS
};

/// Bytes as the allocator counts them, of a block that is split.
[[nodiscard]] std::int64_t allocated_size(std::int64_t bytes, bool round_to_512);
/// Bytes of a storage, of an op's scratch, and of all cuBLAS workspaces as the model has them.
[[nodiscard]] std::int64_t storage_bytes(const ir::Program& program, ir::StorageId storage,
                                         const MemoryModel& model);
[[nodiscard]] std::int64_t scratch_bytes(const ir::Program& program, ir::OpId op,
                                         const MemoryModel& model);
[[nodiscard]] std::int64_t cublas_bytes(const MemoryModel& model);

/// Peaks of the steady-state step. `live`, if given, receives the live bytes after each op.
[[nodiscard]] MemoryTrace walk_memory(const passes::StepProgram& step,
                                      const passes::Schedule& schedule, const MemoryModel& model,
                                      std::vector<std::int64_t>* live = nullptr);

/// Storages alive while op `at` runs (no_id: at the step's start), in order of creation.
[[nodiscard]] std::vector<ir::StorageId> live_at(const passes::StepProgram& step,
                                                 const passes::Schedule& schedule, ir::OpId at);

}  // namespace ac_advisor::simulate
