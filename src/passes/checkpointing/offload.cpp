// TRL 1.16's OffloadActivations (trl/models/activation_offloading.py, after torchtune's): what
// autograd saves goes to pinned host memory on a stream of its own, and comes back when its node
// runs. Its defaults: streams, tensors of 1024 bytes and more, a forward stash of five.
#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/pass.hpp"
#include "passes/optimizer/ops.hpp"

namespace ac_advisor::passes {
namespace {

using ir::no_id;
using ir::Op;
using ir::OpId;
using ir::OpKind;
using ir::Phase;
using ir::StorageId;
using ir::ValueId;

constexpr std::int64_t min_offload_size = 1024;  // bytes
constexpr std::int64_t max_fwd_stash_size = 5;   // of tensors packed last, offloaded or not

/// One saved tensor that is on the host.
struct Offloaded {
  ValueId on_device = no_id;  ///< what the forward stash holds: the tensor, or its contiguous copy
  StorageId saved = no_id;    ///< the tensor's
  OpId copy = no_id;          ///< what sent it
  std::int64_t id = 0;        ///< OffloadActivations counts every tensor that it is asked about
};

/// One micro-batch.
class Offloader {
 public:
  /// torchtune 0.6.1's own (training/_activation_offloading.py) copies a storage as often as it is
  /// saved, and is around the model alone: the loss is outside.
  Offloader(StepProgram& step, bool of_torchtune)
      : s_(step), p_(step.program), of_torchtune_(of_torchtune) {}

  void run() {
    first_ = s_.micro_begin.back();
    old_.assign(p_.ops.begin() + first_, p_.ops.end());
    p_.ops.resize(static_cast<std::size_t>(first_));
    for (const Parameter& parameter : s_.parameters)
      parameters_.insert(p_.storage_of(parameter.value));
    find_saved();
    keep_last_graph();
    std::size_t i = 0;
    for (; i < old_.size() && old_[i].phase < Phase::backward; ++i) forward(i);
    while (i < old_.size()) i = node(i);
    hold(fetched_, Phase::backward);  // the engine's callback at the end of backward
    renumber();
  }

 private:
  [[nodiscard]] const Op& forward_of(const Op& op) const {
    return old_[static_cast<std::size_t>(op.forward - first_)];
  }
  /// A copy: what is emitted meanwhile may move the program's own list.
  [[nodiscard]] std::vector<ValueId> inputs_of(const Op& op) const {
    return {p_.inputs(op).begin(), p_.inputs(op).end()};
  }
  [[nodiscard]] bool made_before_backward(ValueId v) const {
    const OpId producer = p_.value(p_.root(v)).producer;
    if (producer == no_id) return true;
    return producer >= first_ &&
           old_[static_cast<std::size_t>(producer - first_)].phase < Phase::backward;
  }
  /// NoOpManager, which get_act_offloading_ctx_manager hangs on the head's module.
  [[nodiscard]] static bool of_head(const Op& op) {
    return op.module.leaf == ir::Module::lm_head &&
           (op.kind == OpKind::mm || op.kind == OpKind::addmm);
  }
  /// What a checkpoint saves of its region: the hidden states that it is called with. What is
  /// passed by name (rotary tables, masks) its closure holds.
  [[nodiscard]] bool enters_region(const Op& op, ValueId v) const {
    const OpId producer = p_.value(p_.root(v)).producer;
    if (!made_before_backward(v) || producer == no_id) return false;
    const Op& maker = old_[static_cast<std::size_t>(producer - first_)];
    const bool hidden = p_.value(p_.root(v)).requires_grad ||
                        (of_torchtune_ && maker.module.leaf == ir::Module::embed);
    return hidden && maker.region != op.region;
  }

  /// By forward op: what its node in backward reads of what was there before.
  void find_saved() {
    saved_.resize(old_.size());
    for (const Op& op : old_) {
      if (op.phase != Phase::backward || op.forward < first_ || op.kind == OpKind::hold) continue;
      if (op.region != no_id || forward_of(op).region != no_id || of_head(forward_of(op))) continue;
      if (of_torchtune_ && forward_of(op).phase == Phase::loss) continue;
      auto& saved = saved_[static_cast<std::size_t>(op.forward - first_)];
      for (ValueId v : p_.inputs(op))
        if (made_before_backward(v) && !has(saved, v)) saved.push_back(v);
    }
  }
  [[nodiscard]] bool has(const std::vector<ValueId>& values, ValueId v) const {
    return std::any_of(values.begin(), values.end(),
                       [&](ValueId other) { return p_.root(other) == p_.root(v); });
  }

  /// curr_autograd_node is the last node that was handed something, until the next backward's
  /// first one is. What it leads to lives with it: an activation that was made a leaf, and its
  /// gradient, through the next forward.
  void keep_last_graph() {
    for (std::size_t i = 0; i + 1 < s_.graph_held.size(); ++i) {
      const ValueId leaf = s_.graph_held[i], gradient = s_.graph_held[i + 1];
      if (std::find(s_.leaves.begin(), s_.leaves.end(), leaf) == s_.leaves.end()) continue;
      const ir::ModulePath module = p_.storage(p_.storage_of(leaf)).module;
      for (const ValueId v : {leaf, gradient}) {
        const ir::Value like = p_.value(v);
        last_graph_.push_back(p_.make(like.shape, like.dtype, ir::Role::activation, module));
        emit(OpKind::empty, Phase::forward, {}, {last_graph_.back()});
      }
    }
  }

  // --- forward: pack_tensor

  void forward(std::size_t i) {
    const Op op = old_[i];
    if (op.region != no_id && op.region != region_) {
      ++last_id_;  // the checkpoint's empty tensor, saved before its arguments
      region_ = op.region;
      for (ValueId v : inputs_of(op))
        if (enters_region(op, v) && entered_.insert(region_).second) pack(-1 - region_, v);
    }
    if (op.region == no_id) region_ = no_id;
    std::vector<ValueId> saved = saved_[i], made;
    const auto is_made = [&](ValueId v) {
      return p_.value(p_.root(v)).producer == first_ + static_cast<OpId>(i);
    };
    std::copy_if(saved.begin(), saved.end(), std::back_inserter(made), is_made);
    std::erase_if(saved, is_made);
    order(op, saved);
    for (ValueId v : saved) pack(static_cast<OpId>(i), v);  // inputs before an op computes
    push(op);
    for (ValueId v : made) pack(static_cast<OpId>(i), v);
    // its generator's seed and offset; a checkpoint has hooks of its own
    if (op.kind == OpKind::sdpa && (op.region == no_id || !of_torchtune_)) last_id_ += 2;
  }

  /// As the op's inputs are, but mm and mul save the second one first (tools/autograd's order of
  /// derivatives, v2.11).
  void order(const Op& op, std::vector<ValueId>& saved) const {
    const auto place = [&](ValueId v) {
      const auto in = p_.inputs(op);
      return std::find_if(in.begin(), in.end(),
                          [&](ValueId other) { return p_.root(other) == p_.root(v); }) -
             in.begin();
    };
    std::sort(saved.begin(), saved.end(),
              [&](ValueId a, ValueId b) { return place(a) < place(b); });
    if (op.kind == OpKind::mm || op.kind == OpKind::mul) std::reverse(saved.begin(), saved.end());
  }

  void pack(OpId by, ValueId v) {
    const std::int64_t id = ++last_id_;
    const StorageId storage = p_.storage_of(v);
    if (!of_torchtune_ && tracked_.contains(storage)) {  // on its way to the host: kept, too
      tracked_[storage] = id;
      return;
    }
    if (parameters_.contains(storage) || p_.bytes(v) < min_offload_size) return;
    ValueId source = p_.root(v);
    if (p_.value(v).permuted) {  // .contiguous()
      const ir::Value like = p_.value(v);
      source = p_.make(like.shape, like.dtype, ir::Role::activation, p_.storage(storage).module);
      emit(OpKind::clone, Phase::forward, {v}, {source});
    }
    leave_stash(id - max_fwd_stash_size);
    if (source == p_.root(v))
      emit(OpKind::copy_to_host, Phase::forward, {source}, {});
    else
      emit(OpKind::copy_to_host, Phase::forward, {source, v}, {});
    stash_.push_back({source, storage, static_cast<OpId>(p_.ops.size()) - 1, id});
    offloaded_[{by, storage}] = stash_.back();
    tracked_[storage] = id;
  }

  void leave_stash(std::int64_t up_to) {
    while (!stash_.empty() && stash_.front().id <= up_to) {
      const Offloaded old = stash_.front();
      stash_.erase(stash_.begin());
      hold({old.on_device}, Phase::forward);
      if (tracked_[old.saved] == old.id) tracked_.erase(old.saved);
    }
  }

  // --- backward: unpack_tensor_with_streams

  /// An autograd node, with the recomputation before it. Returns where the next one begins.
  std::size_t node(std::size_t begin) {
    std::size_t end = begin;
    while (end < old_.size() && old_[end].phase == Phase::recompute) ++end;
    const std::size_t own = end;
    while (end < old_.size() && old_[end].phase == Phase::backward &&
           old_[end].group == old_[own].group)
      ++end;
    if (end == begin) ++end;  // not of backward
    std::vector<ValueId> before = fetched_;
    bool unpacked = false;
    for (std::size_t i = begin; i < end; ++i) unpacked = unpack(old_[i]) || unpacked;
    for (std::size_t i = begin; i < end; ++i) {
      Op op = old_[i];
      substitute(op);
      push(op);
    }
    if (!unpacked) return end;
    give_up(before.size(), end);
    for (const Offloaded& left : stash_) hold({left.on_device}, Phase::backward);
    stash_.clear();
    hold(before, Phase::backward);  // of the node before that was handed something
    fetched_.erase(fetched_.begin(), fetched_.begin() + static_cast<std::ptrdiff_t>(before.size()));
    return end;
  }

  /// The node's hook keeps what came back until the next such node is done, but for what is saved
  /// elsewhere, too (_storage_Use_Count): a checkpoint's input that its recomputation saved. That
  /// is recorded on the compute stream, and goes with its last use. `fresh`: in fetched_, the
  /// node's.
  void give_up(std::size_t fresh, std::size_t end) {
    const auto kept = std::remove_if(
        fetched_.begin() + static_cast<std::ptrdiff_t>(fresh), fetched_.end(), [&](ValueId twin) {
          return std::any_of(old_.begin() + static_cast<std::ptrdiff_t>(end), old_.end(),
                             [&](const Op& op) { return reads(op, twin); });
        });
    fetched_.erase(kept, fetched_.end());
  }
  /// Whether the op's node saved what `twin` stands for.
  [[nodiscard]] bool reads(const Op& op, ValueId twin) const {
    if (!of_node(op) || op.kind == OpKind::hold) return false;
    const auto in = p_.inputs(op);
    return std::any_of(in.begin(), in.end(), [&](ValueId v) {
      const auto found = twins_.find(key_of(op, v));
      return found != twins_.end() && found->second == twin;
    });
  }

  /// Whether the op is of backward, or of a recomputation, of some forward op.
  [[nodiscard]] static bool of_node(const Op& op) {
    return op.phase >= Phase::backward && op.phase != Phase::optimizer && op.forward != no_id;
  }
  [[nodiscard]] std::pair<OpId, StorageId> key_of(const Op& op, ValueId v) const {
    const bool of_region = op.region != no_id;
    return {of_region ? -1 - op.region : op.forward - first_, p_.storage_of(v)};
  }

  /// Brings back what the op's node saved on the host; whether there was any.
  bool unpack(const Op& op) {
    if (!of_node(op) || (op.region == no_id && op.kind == OpKind::hold)) return false;
    bool any = false;
    for (ValueId v : inputs_of(op)) {
      const auto found = offloaded_.find(key_of(op, v));
      if (found == offloaded_.end() || twins_.contains(found->first)) continue;
      any = true;
      hold(last_graph_, Phase::backward);
      last_graph_.clear();
      const Offloaded at = found->second;
      const bool stashed = std::any_of(stash_.begin(), stash_.end(),
                                       [&](const Offloaded& other) { return other.id == at.id; });
      if (stashed) {
        twins_[found->first] = p_.root(v);
        continue;
      }
      const ir::Value like = p_.value(p_.root(v));
      const ValueId twin = p_.make(like.shape, like.dtype, ir::Role::activation,
                                   p_.storage(p_.storage_of(v)).module);
      p_.value(twin).permuted = like.permuted;
      emit(OpKind::copy_from_host, Phase::backward, {}, {twin});
      p_.ops.back().forward = at.copy;
      twins_[found->first] = twin;
      fetched_.push_back(twin);
    }
    return any;
  }

  void substitute(Op& op) {
    if (!of_node(op)) return;
    std::vector<ValueId> in = inputs_of(op);
    const std::vector<ValueId> out(p_.outputs(op).begin(), p_.outputs(op).end());
    bool any = false;
    for (ValueId& v : in) {
      const auto twin = twins_.find(key_of(op, v));
      if (twin == twins_.end() || twin->second == p_.root(v)) continue;
      any = true;
      const ir::Value like = p_.value(v);
      if (like.base == no_id) {
        v = twin->second;
      } else {
        v = p_.reshape(twin->second, like.shape, like.permuted);
        p_.value(v).narrow_dim = like.narrow_dim;
        p_.value(v).narrow_start = like.narrow_start;
      }
    }
    if (!any) return;
    // What a checkpoint holds of its inputs it has from the host by then.
    if (op.kind == OpKind::hold && op.phase == Phase::backward) in.clear();
    op.first_operand = static_cast<std::int32_t>(p_.operands.size());
    op.inputs = static_cast<std::uint16_t>(in.size());
    p_.operands.insert(p_.operands.end(), in.begin(), in.end());
    p_.operands.insert(p_.operands.end(), out.begin(), out.end());
  }

  // --- the new list of ops

  void emit(OpKind kind, Phase phase, std::initializer_list<ValueId> in,
            std::initializer_list<ValueId> out) {
    const ir::ModulePath module =
        p_.storage(p_.storage_of(in.size() > 0 ? *in.begin() : *out.begin())).module;
    p_.op(p_.emit(kind, phase, module, in, out)).group = next_group_--;
  }
  void hold(const std::vector<ValueId>& values, Phase phase) {
    if (values.empty()) return;
    const ir::ModulePath module = p_.storage(p_.storage_of(values.front())).module;
    p_.op(p_.emit(OpKind::hold, phase, module, values, {})).group = next_group_--;
  }
  void push(Op op) {
    const auto id = static_cast<OpId>(p_.ops.size());
    moved_.push_back(id);
    if (op.forward >= first_) op.forward = moved_[static_cast<std::size_t>(op.forward - first_)];
    p_.ops.push_back(op);
  }

  /// Producers, once all ops stand where they will.
  void renumber() {
    for (auto id = static_cast<std::size_t>(first_); id < p_.ops.size(); ++id)
      for (ValueId v : p_.outputs(p_.ops[id])) p_.value(v).producer = static_cast<OpId>(id);
  }

  StepProgram& s_;
  ir::Program& p_;
  bool of_torchtune_;
  OpId first_ = 0;
  std::vector<Op> old_;
  std::vector<OpId> moved_;  ///< where the ops from first_ on stand now
  std::set<StorageId> parameters_;
  std::vector<std::vector<ValueId>> saved_;  ///< by forward op
  std::set<std::int32_t> entered_;           ///< regions whose input is packed
  std::int32_t region_ = no_id;
  std::int64_t last_id_ = 0;
  std::map<StorageId, std::int64_t> tracked_;  ///< storages that are not copied twice
  std::vector<Offloaded> stash_;
  std::map<std::pair<OpId, StorageId>, Offloaded> offloaded_;  ///< by the op, or the region
  std::map<std::pair<OpId, StorageId>, ValueId> twins_;
  std::vector<ValueId> last_graph_;           ///< of the micro-batch before
  std::vector<ValueId> fetched_;              ///< the backward stash
  std::int32_t next_group_ = -1'000'000'000;  ///< each a group of its own
};

bool applies(const StepConfig& config) { return config.memory.offload == Offload::activations; }
bool on_host(const StepConfig& config) { return config.memory.offload == Offload::parameters; }

void run(StepProgram& step, const model::ModelSpec&, const StepConfig& config) {
  Offloader(step, config.runtime.framework == "torchtune").run();
}

using model::ModelSpec;

constexpr Exclusion exclusions_of_offload[] = {
    {"--offload parameters, --shard other than fsdp1, fsdp2, hsdp:N or zero3",
     "it is FSDP's CPU offloading, or DeepSpeed's offload_param, of shards",
     "use --shard fsdp2, hsdp:N, fsdp1 or zero3",
     [](const ModelSpec&, const StepConfig& c) {
       return on_host(c) && !c.layout.fsdp() && !c.layout.zero3();
     },
     [](const ModelSpec&, const StepConfig& c) {
       return "--offload parameters --shard " + shard_option(c);
     }},
    {"--offload parameters, ac-trainer", "planned for PyTorch, not run by the trainer",
     "leave it out",
     [](const ModelSpec&, const StepConfig& c) {
       return on_host(c) && c.runtime.kind == Runtime::ac_trainer;
     }},
    {"--offload parameters --gpu cpu", "there is no device to leave", "choose a GPU",
     [](const ModelSpec&, const StepConfig& c) { return on_host(c) && c.device.gpu == "cpu"; }},
    {"--offload parameters, an optimizer other than adamw, adamw-foreach, sgd and sgd-momentum",
     "the others' steps on a CPU are not planned yet", "use one of these four",
     [](const ModelSpec&, const StepConfig& c) {
       return on_host(c) && !steps_on_host(c.optimizer.kind);
     },
     [](const ModelSpec&, const StepConfig& c) {
       return std::string("--offload parameters --optimizer ") + to_option(c.optimizer.kind);
     }},
    {"--offload parameters --ema or --grad-scaler",
     "an average, or a check of gradients, on the host is not planned yet", "leave one of them out",
     [](const ModelSpec&, const StepConfig& c) {
       return on_host(c) && (c.optimizer.ema || c.optimizer.grad_scaler);
     }},
    {"--offload parameters --cuda-graph", "copies from and to the host are not captured",
     "leave one of them out",
     [](const ModelSpec&, const StepConfig& c) {
       return on_host(c) && c.runtime.cuda_graph != CudaGraph::off;
     }},
    {"--offload activations, ac-trainer on a GPU",
     "the trainer's copies to the host are the CPU's alone", "use --gpu cpu, or leave it out",
     [](const ModelSpec&, const StepConfig& c) {
       return applies(c) && c.runtime.kind == Runtime::ac_trainer && c.device.gpu != "cpu";
     }},
    {"--offload activations --gpu cpu", "there is no device to leave",
     "choose a GPU, or measure it: the trainer counts what has left apart",
     [](const ModelSpec&, const StepConfig& c) {
       return applies(c) && c.runtime.kind == Runtime::pytorch && c.device.gpu == "cpu";
     }},
    {"--offload activations --cuda-graph", "copies to the host are not captured",
     "leave one of them out",
     [](const ModelSpec&, const StepConfig& c) {
       return applies(c) && c.runtime.cuda_graph != CudaGraph::off;
     }},
};

}  // namespace

extern const Pass offload_pass;
const Pass offload_pass{"offload",
                        Stage::micro_batch,
                        "what autograd saves to the host and back",
                        applies,
                        run,
                        exclusions_of_offload,
                        Of::transformers};

}  // namespace ac_advisor::passes
