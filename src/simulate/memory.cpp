#include "ac_advisor/simulate/memory.hpp"

#include <algorithm>

#include "ac_advisor/ir/work.hpp"

namespace ac_advisor::simulate {

using ir::no_id;
using ir::Phase;

std::int64_t allocated_size(std::int64_t bytes, bool round_to_512) {
  return round_to_512 ? (bytes + 511) / 512 * 512 : bytes;
}

std::int64_t storage_bytes(const ir::Program& program, ir::StorageId storage,
                           const MemoryModel& model) {
  if (model.pool && model.pool->storages[static_cast<std::size_t>(storage)]) return 0;
  if (model.blocks) return model.blocks->storages[static_cast<std::size_t>(storage)];
  return allocated_size(program.storage(storage).bytes, model.round_to_512);
}

std::int64_t scratch_bytes(const ir::Program& program, ir::OpId op, const MemoryModel& model) {
  if (!model.workspaces) return 0;
  if (model.pool && model.pool->ops[static_cast<std::size_t>(op)]) return 0;
  if (model.blocks) return model.blocks->scratch[static_cast<std::size_t>(op)];
  return allocated_size(ir::workspace_bytes(program, program.op(op), model.target),
                        model.round_to_512);
}

std::int64_t cublas_bytes(const MemoryModel& model) {
  if (!model.workspaces) return 0;
  // The workspaces are the graphs' own; outside is the generator's state that they read: a seed and
  // an offset, registered with them (ATen/cuda/CUDAGeneratorImpl.h, v2.11: seed_extragraph_).
  constexpr std::int64_t registered_generator = 2 * 512;
  if (model.pool) return registered_generator;
  return model.blocks ? model.blocks->cublas_workspace : model.cublas_workspace;
}

MemoryTrace walk_memory(const passes::StepProgram& step, const passes::Schedule& schedule,
                        const MemoryModel& model, std::vector<std::int64_t>* live_bytes) {
  const ir::Program& p = step.program;
  ir::count(ir::Work::walked_ops, p.ops.size());
  MemoryTrace trace;
  std::vector<bool> alive(p.storages.size(), false);
  std::int64_t live = cublas_bytes(model);
  const std::int64_t fixed = live;
  const auto size = [&](ir::StorageId s) { return storage_bytes(p, s, model); };
  for (ir::StorageId s : schedule.resident) {
    alive[static_cast<std::size_t>(s)] = true;
    live += size(s);
  }
  trace.resident = live;
  for (ir::StorageId s : schedule.carried) {
    alive[static_cast<std::size_t>(s)] = true;
    live += size(s);
  }
  trace.peak = live;
  trace.workspace_at_peak = fixed;
  auto phase = Phase::forward;
  trace.peak_by_phase[0] = live;
  for (std::size_t i = 0; i < p.ops.size(); ++i) {
    const ir::Op& op = p.ops[i];
    if (op.phase != phase) {
      phase = op.phase;
      auto& peak = trace.peak_by_phase[static_cast<std::size_t>(phase)];
      peak = std::max(peak, live);
    }
    for (ir::ValueId v : p.outputs(op)) {
      const ir::StorageId s = p.storage_of(v);
      if (alive[static_cast<std::size_t>(s)]) continue;
      alive[static_cast<std::size_t>(s)] = true;
      live += size(s);
    }
    const std::int64_t scratch = scratch_bytes(p, static_cast<ir::OpId>(i), model);
    if (live + scratch > trace.peak) {
      trace.peak = live + scratch;
      trace.peak_op = static_cast<ir::OpId>(i);
      trace.workspace_at_peak = fixed + scratch;
    }
    auto& peak = trace.peak_by_phase[static_cast<std::size_t>(op.phase)];
    peak = std::max(peak, live + scratch);
    if (op.module.owner == ir::Owner::reference)
      trace.reference_peak = std::max(trace.reference_peak, live + scratch);
    for (std::int32_t f = schedule.free_begin[i]; f < schedule.free_begin[i + 1]; ++f) {
      const ir::StorageId s = schedule.freed[static_cast<std::size_t>(f)];
      if (alive[static_cast<std::size_t>(s)]) live -= size(s);
      alive[static_cast<std::size_t>(s)] = false;
    }
    if (live_bytes != nullptr) live_bytes->push_back(live);
  }
  // Recomputation runs inside backward, whose peak includes it.
  auto& backward = trace.peak_by_phase[static_cast<std::size_t>(Phase::backward)];
  backward = std::max(backward, trace.peak_by_phase[static_cast<std::size_t>(Phase::recompute)]);
  return trace;
}

std::vector<ir::StorageId> live_at(const passes::StepProgram& step,
                                   const passes::Schedule& schedule, ir::OpId at) {
  const ir::Program& p = step.program;
  std::vector<ir::StorageId> order(schedule.resident);
  order.insert(order.end(), schedule.carried.begin(), schedule.carried.end());
  std::vector<bool> alive(p.storages.size(), false);
  for (ir::StorageId s : order) alive[static_cast<std::size_t>(s)] = true;
  for (ir::OpId i = 0; i <= at; ++i) {
    for (ir::ValueId v : p.outputs(p.op(i))) {
      const ir::StorageId s = p.storage_of(v);
      if (alive[static_cast<std::size_t>(s)]) continue;
      alive[static_cast<std::size_t>(s)] = true;
      order.push_back(s);
    }
    if (i == at) break;
    const auto index = static_cast<std::size_t>(i);
    for (std::int32_t f = schedule.free_begin[index]; f < schedule.free_begin[index + 1]; ++f)
      alive[static_cast<std::size_t>(schedule.freed[static_cast<std::size_t>(f)])] = false;
  }
  std::erase_if(order, [&](ir::StorageId s) { return !alive[static_cast<std::size_t>(s)]; });
  return order;
}

}  // namespace ac_advisor::simulate
