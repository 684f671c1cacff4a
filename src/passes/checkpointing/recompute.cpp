// Activation checkpointing as PyTorch's torch.utils.checkpoint does it (v2.11). Non-reentrant:
// saved tensors of a region are dropped in forward, its ops run again at the first unpack in
// backward, in order from the start, and stop early at the last tensor that backward unpacks.
// Reentrant (CheckpointFunction): a region is one node, whose forward runs without gradients; its
// backward runs all of the ops again and then an engine over them, and holds what it was given and
// the region's output until that is done.
#include <algorithm>
#include <unordered_set>
#include <vector>

#include "ac_advisor/ir/op_table.hpp"
#include "ac_advisor/model/layers.hpp"
#include "ac_advisor/passes/pass.hpp"
#include "around_compiled.hpp"
#include "passes/map_inputs.hpp"

namespace ac_advisor::passes {
namespace {

using ir::no_id;
using ir::Op;
using ir::OpId;
using ir::OpKind;
using ir::Phase;
using ir::ValueId;

struct Region {
  std::vector<OpId> ops;         ///< forward ops, in order
  OpId stop = -1;                ///< recompute runs ops before this one; -1: nothing is saved
  std::int32_t last_group = -1;  ///< last autograd node that unpacks a saved tensor
  bool recomputed = false;
  bool begun = false;     ///< its backward, of a reentrant one
  bool compiled = false;  ///< of launches that torch.compile made, with an autograd node of theirs
  std::vector<ValueId> frame;  ///< of a reentrant one's backward: what lives until its end
  /// Of one whose output has no memory meanwhile: what is made there again, for others to read.
  std::vector<ValueId> outputs;
};

class Checkpointer {
 public:
  /// `linear_in_python`: DeepSpeed's ZeRO 3 puts a function of its own in torch.nn.functional
  /// linear's place (zero/linear.py).
  /// `early_stop`: set_checkpoint_early_stop, PyTorch's default; without it a region is run again
  /// to its end.
  /// `saves_arguments`: a reentrant region's function saves all that it is given, until its
  /// backward is done.
  Checkpointer(StepProgram& step, bool linear_in_python, bool reentrant, bool early_stop,
               bool saves_arguments)
      : s_(step),
        p_(step.program),
        received_(step.ends.empty() ? no_id : step.ends.back().output_gradient),
        linear_in_python_(linear_in_python),
        reentrant_(reentrant),
        early_stop_(early_stop),
        saves_arguments_(saves_arguments) {}

  void run(OpId first) {
    const auto end = static_cast<OpId>(p_.ops.size());
    collect(first, end);
    if (reentrant_) take_contexts();
    remap_.assign(p_.values.size(), no_id);
    storage_remap_.assign(p_.storages.size(), no_id);
    // Regions are rewritten into a new op list; ids of ops before `first` do not change.
    std::vector<Op> old(p_.ops.begin() + first, p_.ops.end());
    old_ = &old;
    p_.ops.resize(static_cast<std::size_t>(first));
    for (std::size_t i = 0; i < old.size(); ++i) {
      Op op = old[i];
      const std::int32_t r = op.phase == Phase::backward ? op.region : no_id;
      if (op.phase == Phase::backward) restore_for(op);
      if (r != no_id) {
        Region& region = regions_[static_cast<std::size_t>(r)];
        if (!region.begun && region.stop >= 0 && (reentrant_ || group_unpacks(i))) {
          region.begun = true;
          if (reentrant_) hold_given(region, i);
          if (!region.recomputed) recompute(region);
        }
      }
      // A fused backward writes over a saved tensor: its output follows to the twin's storage.
      if (op.phase == Phase::backward)
        for (ValueId v : p_.outputs(op)) p_.value(v).storage = storage_of(p_.value(v).storage);
      if (r == no_id) {
        if (!restored_.empty() && op.phase == Phase::backward) read_restored(op);
        push(op);
        continue;
      }
      Region& region = regions_[static_cast<std::size_t>(r)];
      if (begins_validation(i)) hold_handed(i);
      if (op.kind == OpKind::hold && is_validation(last_computed(i)))
        op = without_recomputed(op);
      else
        substitute(op);
      push(op);
      const bool group_ends = i + 1 == old.size() || old[i + 1].group != op.group;
      if (group_ends && reentrant_) hold_saved(i);
      // A compiled node's arguments, its block's input among them, go as its launches have read
      // them.
      if (group_ends && op.group == region.last_group && !region.compiled) release(region, op);
    }
  }

 private:
  [[nodiscard]] bool made_in_forward(ValueId v) const {
    const OpId producer = p_.value(p_.root(v)).producer;
    if (producer == no_id) return p_.root(v) != received_;
    return producer >= old_first_ && producer < forward_end_;
  }

  /// Ops before this one that are inside of it to a policy, which sees DTensors' or MXTensors' op.
  [[nodiscard]] OpId made_of(OpId id) const {
    if (p_.op(id).kind == OpKind::ring_attention)
      return ir::attributes<ir::RingAttention>(p_.op(id)).ops;
    OpId first = id;
    if (p_.op(id).kind == OpKind::fp8_product)
      while (p_.op(first - 1).kind == OpKind::mx_blocked) --first;
    return id - first;
  }

  void collect(OpId first, OpId end) {
    old_first_ = first;
    forward_end_ = first;
    while (forward_end_ < end && p_.op(forward_end_).phase < Phase::backward) ++forward_end_;
    for (OpId id = first; id < end; ++id) {
      Op& op = p_.op(id);
      if (op.phase == Phase::backward && op.forward != no_id) op.region = p_.op(op.forward).region;
      if (op.region == no_id) continue;
      if (static_cast<std::size_t>(op.region) >= regions_.size())
        regions_.resize(static_cast<std::size_t>(op.region) + 1);
      Region& region = regions_[static_cast<std::size_t>(op.region)];
      if (op.phase < Phase::backward) {
        region.ops.push_back(id);
        region.compiled = op.kind == OpKind::compiled_unit;
        if (op.kept)
          for (OpId i = id - made_of(id); i < id; ++i) inside_kept_.push_back(i);
        continue;
      }
      if (reentrant_) {
        region.last_group = op.group;
        region.stop = region.ops.back() + 1;
        continue;
      }
      if (saves_nothing(op)) continue;
      for (ValueId v : p_.inputs(op)) {
        if (!made_in_forward(v)) continue;
        region.last_group = op.group;
        // Inputs are saved before an op computes, outputs after; a function that is written in
        // Python saves after it all that it saves.
        const bool after = p_.value(p_.root(v)).producer == op.forward ||
                           (linear_in_python_ && p_.op(op.forward).kind == OpKind::mm);
        region.stop = std::max(region.stop, after ? op.forward + 1 : op.forward);
      }
    }
    for (Region& region : regions_)
      if (!early_stop_ && region.stop >= 0) region.stop = region.ops.back() + 1;
    for (const RecomputedPart& part : s_.parts) {
      if (part.hook == no_id) continue;
      waiting_.push_back(part);
      regions_[static_cast<std::size_t>(part.region)].outputs = part.outputs;
    }
    std::sort(waiting_.begin(), waiting_.end(),
              [](const RecomputedPart& a, const RecomputedPart& b) { return a.hook < b.hook; });
  }

  // --- reentrant: what a region's node and the frame of its backward hold

  /// Of the forward, which runs without gradients, functions keep nothing in their contexts; what
  /// they keep of its recomputation goes with that. A block's keyword arguments are its function's,
  /// which the node has as long as the graph lives (transformers' GradientCheckpointingLayer).
  void take_contexts() {
    std::erase_if(s_.graph_held, [&](ValueId v) {
      const OpId maker = p_.value(p_.root(v)).producer;
      const std::int32_t r = maker == no_id || maker < old_first_ ? no_id : p_.op(maker).region;
      if (r == no_id || p_.op(maker).phase >= Phase::backward) return false;
      regions_[static_cast<std::size_t>(r)].frame.push_back(v);
      return true;
    });
    std::vector<ValueId> arguments;
    for (const Region& region : regions_)
      for (OpId id : region.ops)
        for (ValueId v : p_.inputs(p_.op(id))) {
          const ValueId root = p_.root(v);
          const OpId maker = p_.value(root).producer;
          const bool outside = maker >= old_first_ && p_.op(maker).region != p_.op(id).region;
          if (outside && !p_.value(root).requires_grad && !contains(arguments, root))
            arguments.push_back(root);
        }
    if (!saves_arguments_)
      s_.graph_held.insert(s_.graph_held.end(), arguments.begin(), arguments.end());
    for (Region& region : regions_)
      for (auto id = region.ops.rbegin(); id != region.ops.rend() && region.stop >= 0; ++id) {
        if (!region.outputs.empty()) break;  // of which memory is made anew
        if (p_.op(*id).outputs == 0) continue;
        region.frame.push_back(p_.output(p_.op(*id), 0));  // `outputs`
        break;
      }
  }

  /// `args` of CheckpointFunction.backward: what the first node of the region reads, or of several
  /// outputs all that it reads of others.
  void hold_given(Region& region, std::size_t i) {
    const std::int32_t first = (*old_)[i].group, of = (*old_)[i].region;
    const std::int32_t last = region.outputs.size() > 1 ? region.last_group : first;
    std::vector<ValueId> own;
    for (bool ends = false; i < old_->size(); ++i) {
      const Op& op = (*old_)[i];
      if (ends && op.group != last) break;
      ends = op.group == last;
      if (op.region != of) continue;
      for (ValueId v : p_.inputs(op))
        if (!made_in_forward(v) && !contains(own, p_.root(v))) region.frame.push_back(v);
      for (ValueId v : p_.outputs(op)) own.push_back(p_.root(v));
    }
  }

  // --- a part whose output has no memory meanwhile (Megatron-core's CheckpointWithoutOutput)

  /// What waits for the gradient of its hook: it is there as backward comes to the hook's op, or,
  /// where that has none of its own, to those before it.
  void restore_for(const Op& op) {
    while (!waiting_.empty() && op.forward <= waiting_.back().hook &&
           op.forward >= waiting_.back().begin) {
      const std::int32_t region = waiting_.back().region;
      waiting_.pop_back();
      restore(regions_[static_cast<std::size_t>(region)]);
    }
  }

  /// The outputs are recomputed, and copied to where what saved them looks; the recomputed ones
  /// live until the region's backward is done.
  void restore(Region& region) {
    recompute(region);
    for (ValueId v : region.outputs) {
      const ValueId again = mapped(v);
      const ir::Value like = p_.value(again);
      const Op last = p_.ops.back();
      const ValueId back = p_.make(like.shape, like.dtype, ir::Role::recomputed, last.module);
      Op& copy = p_.op(p_.emit(OpKind::clone, Phase::recompute, last.module, {again}, {back}));
      copy.forward = last.forward;
      copy.region = last.region;
      copy.group = next_group_--;
      region.frame.push_back(again);
      remap_[static_cast<std::size_t>(v)] = back;
      storage_remap_[static_cast<std::size_t>(p_.value(v).storage)] = p_.value(back).storage;
      restored_.insert(v);
    }
  }

  void read_restored(Op& op) {
    map_inputs(p_, op, [&](ValueId v) { return restored_.contains(p_.root(v)) ? mapped(v) : v; });
  }

  /// A node's saved tensors go when its function and what follows it are done.
  void hold_saved(std::size_t last) {
    std::vector<ValueId> saved;
    const std::int32_t group = (*old_)[last].group;
    for (std::size_t i = last + 1; i-- > 0 && (*old_)[i].group == group;)
      for (ValueId v : p_.inputs((*old_)[i]))
        if (const ValueId twin = mapped(v); twin != v && !contains(saved, twin))
          saved.push_back(twin);
    if (saved.empty()) return;
    Op& op = p_.op(p_.emit(OpKind::hold, Phase::backward, (*old_)[last].module, saved, {}));
    op.forward = (*old_)[last].forward;
    op.group = group;
  }

  /// Whether the autograd node of old op i reads any saved tensor.
  [[nodiscard]] bool group_unpacks(std::size_t i) const {
    const std::int32_t group = (*old_)[i].group;
    for (; i < old_->size() && (*old_)[i].group == group; ++i) {
      if (saves_nothing((*old_)[i])) continue;
      for (ValueId v : p_.inputs((*old_)[i]))
        if (made_in_forward(v)) return true;
    }
    return false;
  }

  /// bitsandbytes' functions keep codes and scales as attributes of their context, which no hook of
  /// saved tensors sees.
  [[nodiscard]] bool saves_nothing(const Op& op) const {
    if (op.forward == no_id) return false;
    const auto i = static_cast<std::size_t>(op.forward - old_first_);
    const Op& forward = old_ == nullptr ? p_.op(op.forward) : (*old_)[i];
    return forward.kind == OpKind::mm_quantized;
  }

  /// What an imported graph's op allocates for itself, which dies with it.
  [[nodiscard]] bool is_scratch(ValueId v) const {
    return p_.storage(p_.storage_of(v)).role == ir::Role::temporary;
  }

  void push(const Op& op) {
    const auto id = static_cast<OpId>(p_.ops.size());
    for (ValueId v : p_.outputs(op)) p_.value(v).producer = id;
    p_.ops.push_back(op);
  }

  // --- what a node of an imported graph is handed: a checkpoint's hook hands a recomputed tensor
  // to the node's function alone, so it is gone when validate_outputs sums what the function made
  // (torch/utils/checkpoint.py, v2.11: unpack_hook). What was captured, without checkpoints, lives
  // until the node's end, and holds say so.

  /// The op of the node that old op i's is of which computed last before it; i itself if it does.
  [[nodiscard]] std::size_t last_computed(std::size_t i) const {
    const OpId node = (*old_)[i].forward;
    while (i > 0 && ((*old_)[i].kind == OpKind::hold || (*old_)[i].kind == OpKind::view) &&
           (*old_)[i - 1].forward == node)
      --i;
    return i;
  }
  [[nodiscard]] bool is_validation(std::size_t i) const {
    const Op& op = (*old_)[i];
    return op.kind == OpKind::captured && op.phase == Phase::backward &&
           p_.captured_names[static_cast<std::size_t>(ir::attributes<ir::Captured>(op).name)] ==
               "aten::sum";
  }
  [[nodiscard]] bool begins_validation(std::size_t i) const {
    if (i == 0 || !is_validation(i) || (*old_)[i - 1].forward != (*old_)[i].forward) return false;
    return !is_validation(last_computed(i - 1));
  }

  /// What later holds of the node would keep of the recomputed is kept until here.
  void hold_handed(std::size_t i) {
    std::vector<ValueId> handed;
    for (std::size_t j = i; j < old_->size() && (*old_)[j].forward == (*old_)[i].forward; ++j)
      if ((*old_)[j].kind == OpKind::hold)
        for (ValueId v : p_.inputs((*old_)[j]))
          if (const ValueId twin = mapped(v); twin != v) handed.push_back(twin);
    if (handed.empty()) return;
    const Op& node = (*old_)[i];
    Op& op = p_.op(p_.emit(OpKind::hold, Phase::backward, node.module, handed, {}));
    op.forward = node.forward;
    op.group = next_group_--;
  }
  Op without_recomputed(Op op) {
    const std::vector<ValueId> in(p_.inputs(op).begin(), p_.inputs(op).end());
    op.first_operand = static_cast<std::int32_t>(p_.operands.size());
    op.inputs = 0;
    for (ValueId v : in) {
      if (mapped(v) != v) continue;
      p_.operands.push_back(v);
      ++op.inputs;
    }
    return op;
  }

  /// Operands made in the region become their recomputed twins.
  void substitute(Op& op) {
    map_inputs(p_, op, [&](ValueId v) { return mapped(v); });
  }

  [[nodiscard]] ir::StorageId storage_of(ir::StorageId s) const {
    const auto i = static_cast<std::size_t>(s);
    return i < storage_remap_.size() && storage_remap_[i] != no_id ? storage_remap_[i] : s;
  }

  ValueId mapped(ValueId v) {
    const auto i = static_cast<std::size_t>(v);
    if (i < remap_.size() && remap_[i] != no_id) return remap_[i];
    const ValueId base = p_.value(v).base;
    if (base == no_id || i >= remap_.size()) return v;
    const ValueId twin_base = mapped(base);
    if (twin_base == base) return v;
    const ir::Value like = p_.value(v);
    const ValueId twin = p_.reshape(twin_base, like.shape, like.permuted);
    p_.value(twin).narrow_dim = like.narrow_dim;
    p_.value(twin).narrow_start = like.narrow_start;
    remap_[i] = twin;
    return twin;
  }

  /// The twin of an output of `source`, on a storage of its own, or where the op only views what
  /// was kept or came from outside, or writes to a buffer, on that.
  ValueId clone_value(ValueId v, const Op& source) {
    const ir::Value like = p_.value(v);
    const auto s = static_cast<std::size_t>(like.storage);
    ir::StorageId& twin = storage_remap_[s];
    const auto id = static_cast<ValueId>(p_.values.size());
    bool views_kept = p_.storages[s].role == ir::Role::buffer;
    for (ValueId in : p_.inputs(source))
      views_kept = views_kept ||
                   (p_.storage_of(in) == like.storage && p_.storage_of(mapped(in)) == like.storage);
    if (twin == no_id && views_kept) {
      ir::Value value = like;
      value.base = no_id;
      p_.values.push_back(value);
      remap_[static_cast<std::size_t>(v)] = id;
      return id;
    }
    if (twin == no_id) {
      twin = static_cast<ir::StorageId>(p_.storages.size());
      ir::Storage storage = p_.storages[s];
      storage.role = ir::Role::recomputed;
      p_.storages.push_back(storage);
    }
    ir::Value value = like;
    value.storage = twin;
    value.base = no_id;
    p_.values.push_back(value);
    remap_[static_cast<std::size_t>(v)] = id;
    return id;
  }

  void recompute(Region& region) {
    region.recomputed = true;
    for (OpId id : region.ops) {
      if (id >= region.stop) break;
      const Op& source = (*old_)[static_cast<std::size_t>(id - old_first_)];
      if (std::binary_search(inside_kept_.begin(), inside_kept_.end(), id)) continue;
      Op op = source;
      op.phase = Phase::recompute;
      op.forward = id;
      const std::vector<ValueId> in(p_.inputs(source).begin(), p_.inputs(source).end());
      const std::vector<ValueId> out(p_.outputs(source).begin(), p_.outputs(source).end());
      op.group = next_group_--;
      op.first_operand = static_cast<std::int32_t>(p_.operands.size());
      if (source.kept) {
        // Selective: the cached output is taken out here instead of being computed.
        op.kind = OpKind::hold;
        op.attributes = {};
        op.outputs = op.inputs = 0;
        for (ValueId v : out) {
          if (is_scratch(v)) continue;
          p_.operands.push_back(v);
          ++op.inputs;
        }
        p_.ops.push_back(op);
        continue;
      }
      std::vector<ValueId> twins;
      for (ValueId v : in) twins.push_back(mapped(v));
      for (ValueId v : out) twins.push_back(clone_value(v, source));
      op.first_operand = static_cast<std::int32_t>(p_.operands.size());
      p_.operands.insert(p_.operands.end(), twins.begin(), twins.end());
      push(op);
      const ValueId made = out.empty() ? no_id : twins[in.size()];
      twins.resize(in.size());
      if (!region.compiled) follow_detached(op, twins, made);
    }
    hold_locals(region);
  }

  /// Recomputation stops by an exception: what the ops after it would have read was there until
  /// then, in the frames that it unwinds.
  void hold_locals(const Region& region) {
    std::vector<ValueId> locals;
    for (OpId id : region.ops) {
      if (id < region.stop) continue;
      for (ValueId v : p_.inputs((*old_)[static_cast<std::size_t>(id - old_first_)])) {
        const ValueId made = remap_[static_cast<std::size_t>(p_.root(v))];
        if (made != no_id && !contains(locals, made)) locals.push_back(made);
      }
    }
    const bool detached = std::any_of(locals.begin(), locals.end(),
                                      [&](ValueId v) { return contains(detached_.results, v); });
    if (detached) locals.insert(locals.end(), detached_.saved.begin(), detached_.saved.end());
    hold_recomputed(locals);
  }

  void hold_recomputed(const std::vector<ValueId>& values) {
    if (values.empty()) return;
    const Op last = p_.ops.back();
    Op& op = p_.op(p_.emit(OpKind::hold, Phase::recompute, last.module, values, {}));
    op.forward = last.forward;
    op.region = last.region;
    op.group = next_group_--;
  }

  /// Products with trained operands whose result is detached (DoRA's norm): their graph saves what
  /// nothing will unpack, and lives as long as the result. A checkpoint's forward drops what it
  /// saves, its recomputation does not (torch/utils/checkpoint.py, v2.11: _recomputation_hook
  /// returns what it is given).
  struct Detached {
    std::vector<ValueId> saved, results;
  };
  static bool contains(const std::vector<ValueId>& values, ValueId v) {
    return std::find(values.begin(), values.end(), v) != values.end();
  }
  void follow_detached(const Op& op, const std::vector<ValueId>& in, ValueId made) {
    const bool reads = std::any_of(in.begin(), in.end(),
                                   [&](ValueId v) { return contains(detached_.results, v); });
    const bool of_trained =
        std::any_of(in.begin(), in.end(), [&](ValueId v) { return p_.value(v).requires_grad; });
    if (op.kind == OpKind::mm && of_trained && !p_.value(made).requires_grad) {
      if (!reads) detached_ = {};
      for (ValueId v : in)
        if (!p_.value(v).requires_grad) detached_.saved.push_back(v);
      detached_.results.push_back(made);
      return;
    }
    if (!reads) return;
    if (op.kind == OpKind::cast) detached_.results.push_back(made);
    hold_recomputed(detached_.saved);
  }

  /// The region's inputs, and what selective kept and nobody took, die with its last saved tensor.
  void release(const Region& region, const Op& last) {
    std::vector<ValueId> held;
    for (OpId id : region.ops) {
      const Op& op = (*old_)[static_cast<std::size_t>(id - old_first_)];
      for (ValueId v : p_.inputs(op)) {
        const ValueId root = p_.root(v);
        const OpId producer = p_.value(root).producer;
        const bool inside = remap_[static_cast<std::size_t>(root)] != no_id ||
                            std::binary_search(region.ops.begin(), region.ops.end(), producer);
        if (!inside && producer != no_id && std::find(held.begin(), held.end(), root) == held.end())
          held.push_back(root);
      }
      if (id >= region.stop && op.kept)
        for (ValueId v : p_.outputs(op))
          if (!is_scratch(v)) held.push_back(v);
    }
    for (ValueId v : region.frame) held.push_back(mapped(v));
    Op op = last;
    op.kind = OpKind::hold;
    op.attributes = {};
    op.inputs = static_cast<std::uint16_t>(held.size());
    op.outputs = 0;
    op.first_operand = static_cast<std::int32_t>(p_.operands.size());
    p_.operands.insert(p_.operands.end(), held.begin(), held.end());
    p_.ops.push_back(op);
  }

  StepProgram& s_;
  ir::Program& p_;
  ValueId received_;  ///< a stage's gradient, which no op made: no_id without a pipeline
  bool linear_in_python_, reentrant_, early_stop_, saves_arguments_;
  std::vector<Region> regions_;
  OpId forward_end_ = 0;
  std::vector<OpId> inside_kept_;  ///< ops that a kept one is made of, in order
  std::vector<ValueId> remap_;
  std::vector<ir::StorageId> storage_remap_;
  const std::vector<Op>* old_ = nullptr;
  OpId old_first_ = 0;
  Detached detached_;
  std::vector<RecomputedPart> waiting_;  ///< by their hooks
  std::unordered_set<ValueId> restored_;
  std::int32_t next_group_ = -2;  ///< recomputed ops are groups of their own
};

bool applies(const StepConfig& config) {
  return config.memory.ac != AcMode::none || config.memory.tower_ac;
}

void run(StepProgram& step, const model::ModelSpec& spec, const StepConfig& config) {
  if (config.memory.kernels == Kernels::compiled && !checkpoints_compiled_blocks(spec, config))
    return;
  const bool early_stop = model::layer_forms(spec, config).early_stop;
  // Megatron-core's checkpoint is a function of its own, and Transformer Engine's, as PyTorch's
  // reentrant one; what `explain` puts around modules is neither.
  const bool by_module = config.memory.ac == AcMode::attention && config.memory.ac_arg != 0;
  const bool reentrant = config.memory.reentrant || (config.megatron() && !by_module);
  Checkpointer(step, config.layout.zero3(), reentrant, early_stop, config.megatron())
      .run(step.micro_begin.back());
}

}  // namespace

extern const Pass recompute_pass;
const Pass recompute_pass{"recompute",
                          Stage::micro_batch,
                          "a region's ops again, before the first backward op that needs them",
                          applies,
                          run,
                          {}};

}  // namespace ac_advisor::passes
