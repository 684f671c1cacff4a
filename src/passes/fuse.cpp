// Replaces the chains of primitive ops that lowering marked by one op each. A fused op makes only
// what it saves (x and 1/rms for a norm), which is most of what fusion buys in memory.
#include <algorithm>
#include <vector>

#include "ac_advisor/passes/pass.hpp"

namespace ac_advisor::passes {
namespace {

using ir::no_id;
using ir::Op;
using ir::OpId;
using ir::OpKind;
using ir::ValueId;

class Fuser {
 public:
  explicit Fuser(StepProgram& step) : s_(step), p_(step.program) {}

  void run(OpId first) {
    const std::size_t count = p_.ops.size();
    chain_of_.assign(count, no_id);
    for (std::size_t c = 0; c < s_.chains.size(); ++c)
      for (OpId op : s_.chains[c].ops)
        chain_of_[static_cast<std::size_t>(op)] = static_cast<std::int32_t>(c);
    std::vector<Op> old(p_.ops.begin() + first, p_.ops.end());
    p_.ops.resize(static_cast<std::size_t>(first));
    region_keeps_.assign(static_cast<std::size_t>(s_.regions), false);
    for (const Op& op : old)
      if (op.kept) region_keeps_[static_cast<std::size_t>(op.region)] = true;
    dead_.assign(p_.values.size(), false);
    mark_dead(old, first);
    for (std::size_t i = 0; i < old.size(); ++i) {
      const std::int32_t c = chain_of_[static_cast<std::size_t>(first) + i];
      if (c == no_id) {
        keep(old[i]);
        continue;
      }
      const Chain& chain = s_.chains[static_cast<std::size_t>(c)];
      if (chain.ops.back() == first + static_cast<OpId>(i)) emit(chain, old[i]);
    }
    s_.chains.clear();
    for (ir::Value& v : p_.values) {  // views of what was moved go with it
      const auto s = static_cast<std::size_t>(v.storage);
      if (s < moved_.size() && moved_[s] != no_id) v.storage = moved_[s];
    }
  }

 private:
  /// Values that only live inside a chain exist no more.
  void mark_dead(const std::vector<Op>& old, OpId first) {
    for (std::size_t i = 0; i < old.size(); ++i) {
      const std::int32_t c = chain_of_[static_cast<std::size_t>(first) + i];
      if (c == no_id) continue;
      const Chain& chain = s_.chains[static_cast<std::size_t>(c)];
      for (ValueId v : p_.outputs(old[i]))
        if (v != chain.output && v != chain.second_output)
          dead_[static_cast<std::size_t>(v)] = true;
    }
  }

  void keep(Op op) {
    if (op.kind == OpKind::hold) {  // a local of the eager code that the fused kernel does not make
      std::vector<ValueId> alive;
      for (ValueId v : p_.inputs(op))
        if (!dead_[static_cast<std::size_t>(v)]) alive.push_back(v);
      if (alive.empty()) return;
      op.inputs = static_cast<std::uint16_t>(alive.size());
      op.first_operand = static_cast<std::int32_t>(p_.operands.size());
      p_.operands.insert(p_.operands.end(), alive.begin(), alive.end());
    }
    const auto id = static_cast<OpId>(p_.ops.size());
    op.group = id;
    for (ValueId v : p_.outputs(op)) p_.value(v).producer = id;
    p_.ops.push_back(op);
  }

  ValueId row_statistic(ValueId x, const Op& like) {
    ir::Shape rows = p_.value(x).shape;
    rows.set(rows.rank() - 1, 1);
    return p_.make(rows, DType::f32, ir::Role::activation, like.module);
  }

  void emit(const Chain& chain, const Op& like) {
    switch (chain.fused) {
      case OpKind::rms_norm: {
        const ValueId x = chain.inputs[0], w = chain.inputs[1];
        const ValueId scale = row_statistic(x, like);
        if (fuse_residual(x, w, chain.output, scale, like)) {
          complete(chain, like);
          return;
        }
        p_.emit(OpKind::rms_norm, like.phase, like.module, {x, w}, {chain.output, scale});
        complete(chain, like);
        return;
      }
      case OpKind::rope: {
        const ValueId q = chain.inputs[0], k = chain.inputs[1];
        if (!keeps_outputs(like.region)) {  // else q and k may be kept as they were
          write_over(chain.output, q);
          write_over(chain.second_output, k);
        }
        // One autograd function: both of its outputs require a gradient where an input does.
        const bool trained = p_.value(q).requires_grad || p_.value(k).requires_grad;
        p_.value(chain.output).requires_grad = p_.value(chain.second_output).requires_grad =
            trained;
        p_.emit(OpKind::rope, like.phase, like.module, {q, k, chain.inputs[2], chain.inputs[3]},
                {chain.output, chain.second_output});
        complete(chain, like);
        return;
      }
      default:
        p_.emit(chain.fused, like.phase, like.module, {chain.inputs[0], chain.inputs[1]},
                {chain.output});
        complete(chain, like);
        return;
    }
  }

  void complete(const Chain& chain, const Op& like) {
    p_.ops.back().region = like.region;
    if (chain.attributes.index() != 0) p_.ops.back().attributes = chain.attributes;
  }

  [[nodiscard]] bool keeps_outputs(std::int32_t region) const {
    return region != no_id && region_keeps_[static_cast<std::size_t>(region)];
  }

  void write_over(ValueId result, ValueId target) {
    moved_.resize(p_.storages.size(), no_id);
    moved_[static_cast<std::size_t>(p_.value(result).storage)] = p_.storage_of(target);
    p_.value(result).storage = p_.storage_of(target);
    p_.value(result).permuted = p_.value(target).permuted;
    p_.value(result).version = static_cast<std::int16_t>(p_.value(target).version + 1);
  }

  /// residual + x just before the norm of the same block joins it: one read less. Not where the
  /// norm is a checkpoint region of its own.
  bool fuse_residual(ValueId x, ValueId w, ValueId y, ValueId scale, const Op& like) {
    if (p_.ops.empty()) return false;
    const Op previous = p_.ops.back();
    if (previous.kind != OpKind::add || previous.module.block != like.module.block ||
        previous.region != like.region || p_.output(previous, 0) != x)
      return false;
    const ValueId residual = p_.input(previous, 0), branch = p_.input(previous, 1);
    p_.ops.pop_back();
    p_.emit(OpKind::add_rms_norm, like.phase, like.module, {residual, branch, w}, {y, scale, x});
    return true;
  }

  StepProgram& s_;
  ir::Program& p_;
  std::vector<std::int32_t> chain_of_;
  std::vector<bool> dead_;
  std::vector<bool> region_keeps_;    ///< by checkpoint region: it has ops whose outputs are kept
  std::vector<ir::StorageId> moved_;  ///< by storage: where its value was written instead
};

bool applies(const StepConfig& config) { return config.memory.kernels == Kernels::fused; }

void run(StepProgram& step, const model::ModelSpec&, const StepConfig&) {
  Fuser(step).run(step.micro_begin.back());
}

}  // namespace

extern const Pass fuse_pass;
const Pass fuse_pass{"fuse",
                     Stage::micro_batch,
                     "RMSNorm, RoPE and SwiGLU by one op each, which saves less",
                     applies,
                     run,
                     {},
                     Of::transformers};

}  // namespace ac_advisor::passes
