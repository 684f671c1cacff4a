#pragma once

#include <cstdint>
#include <vector>

#include "ac_advisor/passes/step_program.hpp"

namespace ac_advisor::passes {

/// The step as data: ops in the order of issue, and where each storage ends. A storage begins at
/// the first op that puts it out. It can be printed, diffed and counted; both walkers follow it.
struct Schedule {
  /// Storages that exist when the step begins and when it ends: parameters, optimizer state,
  /// inputs, buffers.
  std::vector<ir::StorageId> resident;
  /// What the step before left, until it ends in this one.
  std::vector<ir::StorageId> carried;
  /// Per op, in order: the storages that end right after it are
  /// `freed[free_begin[op] .. free_begin[op + 1])`.
  std::vector<std::int32_t> free_begin;
  std::vector<ir::StorageId> freed;
  /// Per storage: the op after which it ends; no_id: it outlives the step.
  std::vector<ir::OpId> last_use;
};

/// Lifetimes by reference counting, as PyTorch's: an op's operands live while it runs, an autograd
/// node holds what it saved and received until it is done, a `hold` keeps Python's locals.
[[nodiscard]] Schedule make_schedule(const StepProgram& step);

/// Whether --cuda-graph segments captures two ops that follow each other in one graph: the
/// optimizer's, or a block's of one phase. The trainer cuts here, and the clock counts launches.
[[nodiscard]] bool same_segment(const ir::Op& a, const ir::Op& b);

}  // namespace ac_advisor::passes
