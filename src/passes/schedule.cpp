#include "ac_advisor/passes/schedule.hpp"

#include <algorithm>

namespace ac_advisor::passes {

using ir::no_id;
using ir::OpId;

namespace {

/// Whether a function's backward is written with what its frame holds to its end.
bool says_its_locals(const ir::Program& p, const ir::Op& forward) {
  if (forward.kind != ir::OpKind::autograd_function) return false;
  const auto index = static_cast<std::size_t>(ir::attributes<ir::CompiledUnit>(forward).backward);
  const ir::CompiledGraph& graph = p.compiled.at(index);
  return std::any_of(graph.launches.begin(), graph.launches.end(), [&](const auto& launch) {
    return launch.kind == ir::OpKind::hold &&
           std::any_of(launch.inputs.begin(), launch.inputs.end(),
                       [&](std::int32_t held) { return held >= graph.given; });
  });
}

/// Whether what an op makes dies before its node ends. Of a backward that is written in Python:
/// TRL's ChunkedLogProbFunction and ChunkedDivergenceFunction, whose tiles come and go, DTensor's
/// loss_parallel, its ring attention and its products, transformers' own of bloom and phimoe,
/// torchao's, or bitsandbytes'; of a quotient or baddbmm, whose two gradients are an expression
/// each, or of a triangular solution, whose formula binds its product anew, twice.
bool lets_go_of_its_own(const ir::Program& p, const ir::Op& op) {
  if (op.phase != ir::Phase::backward || op.forward == no_id) return false;
  const ir::OpKind kind = p.op(op.forward).kind;
  return says_its_locals(p, p.op(op.forward)) || kind == ir::OpKind::tiled_log_probs ||
         kind == ir::OpKind::tiled_divergence || kind == ir::OpKind::vocab_parallel_loss ||
         kind == ir::OpKind::recomputed_gelu || kind == ir::OpKind::routing_multiplier ||
         kind == ir::OpKind::float8_linear || kind == ir::OpKind::div ||
         kind == ir::OpKind::solve_triangular || kind == ir::OpKind::baddbmm ||
         kind == ir::OpKind::ring_attention || kind == ir::OpKind::mm_quantized ||
         kind == ir::OpKind::row_adapter;
}

/// Whether an op is of a compiled backward, which lets go of what it was given and of what it makes
/// after the last launch that reads it (torch/_functorch/_aot_autograd/runtime_wrappers.py, v2.11:
/// boxed arguments, maybe_clear_saved_tensors; torch/_inductor/codegen/wrapper.py: "del").
bool of_compiled_unit(const ir::Program& p, const ir::Op& op) {
  return op.phase == ir::Phase::backward && op.forward != no_id &&
         p.op(op.forward).kind == ir::OpKind::compiled_unit;
}

/// What validate_outputs makes of a gradient that is wider than its input, or of another dtype.
bool reduces(ir::OpKind kind) { return kind == ir::OpKind::sum || kind == ir::OpKind::cast; }

}  // namespace

Schedule make_schedule(const StepProgram& step) {
  const ir::Program& p = step.program;
  const std::size_t ops = p.ops.size();
  Schedule schedule;
  schedule.last_use.assign(p.storages.size(), no_id);
  std::vector<bool> outlives(p.storages.size(), false);

  for (ir::ValueId v : step.resident) {
    const ir::StorageId s = p.storage_of(v);
    if (!outlives[static_cast<std::size_t>(s)]) schedule.resident.push_back(s);
    outlives[static_cast<std::size_t>(s)] = true;
  }
  for (const Carried& c : step.carried) schedule.carried.push_back(p.storage_of(c.before));
  for (ir::ValueId v : step.surviving) outlives[static_cast<std::size_t>(p.storage_of(v))] = true;

  std::size_t group_end = 0, before_sums = 0;
  for (std::size_t i = 0; i < ops; ++i) {
    const ir::Op& op = p.ops[i];
    if (i == 0 || p.ops[i - 1].group != op.group) {
      group_end = i;
      while (group_end + 1 < ops && p.ops[group_end + 1].group == op.group) ++group_end;
      before_sums = i;
      while (before_sums < group_end && !reduces(p.ops[before_sums + 1].kind)) ++before_sums;
    }
    const bool locals = lets_go_of_its_own(p, op);
    const bool compiled = of_compiled_unit(p, op);
    for (ir::ValueId v : p.inputs(op)) {
      const ir::ValueId root = p.root(v);
      const OpId producer = p.value(root).producer;
      // What validate_outputs sums is replaced at once; all else a node holds to its end.
      const bool replaced = op.kind == ir::OpKind::sum && op.phase == ir::Phase::backward &&
                            producer != no_id && p.op(producer).group == op.group;
      // A checkpoint's hook hands a recomputed tensor to the node's function alone: it is gone when
      // validate_outputs sums or casts (torch/utils/checkpoint.py, v2.11: unpack_hook).
      const bool handed = op.phase == ir::Phase::backward && producer != no_id &&
                          p.op(producer).phase == ir::Phase::recompute;
      // Locals of a backward that is written in Python die where they are bound anew.
      const bool own = producer != no_id && p.op(producer).group == op.group;
      const bool saved = producer == no_id || p.op(producer).phase != ir::Phase::backward;
      const bool local = (locals && own) || (compiled && (own || saved));
      const std::size_t end = replaced || local ? i : handed ? std::max(i, before_sums) : group_end;
      OpId& last = schedule.last_use[static_cast<std::size_t>(p.value(root).storage)];
      last = std::max(last, static_cast<OpId>(end));
    }
    for (ir::ValueId v : p.outputs(op)) {
      OpId& last = schedule.last_use[static_cast<std::size_t>(p.storage_of(v))];
      last = std::max(last, static_cast<OpId>(i));
    }
  }

  // Counting sort of the storages by the op after which they end.
  schedule.free_begin.assign(ops + 1, 0);
  for (std::size_t s = 0; s < p.storages.size(); ++s) {
    if (outlives[s]) schedule.last_use[s] = no_id;
    if (schedule.last_use[s] != no_id)
      ++schedule.free_begin[static_cast<std::size_t>(schedule.last_use[s]) + 1];
  }
  for (std::size_t i = 0; i < ops; ++i) schedule.free_begin[i + 1] += schedule.free_begin[i];
  schedule.freed.resize(static_cast<std::size_t>(schedule.free_begin[ops]));
  std::vector<std::int32_t> cursor(schedule.free_begin.begin(), schedule.free_begin.end() - 1);
  for (std::size_t s = 0; s < p.storages.size(); ++s)
    if (schedule.last_use[s] != no_id) {
      std::int32_t& at = cursor[static_cast<std::size_t>(schedule.last_use[s])];
      schedule.freed[static_cast<std::size_t>(at++)] = static_cast<ir::StorageId>(s);
    }
  return schedule;
}

bool same_segment(const ir::Op& a, const ir::Op& b) {
  return a.phase == b.phase &&
         (a.phase == ir::Phase::optimizer || a.module.block == b.module.block);
}

}  // namespace ac_advisor::passes
