// The pass that writes a captured micro-batch into the program: its ops in the order in which eager
// PyTorch ran them, and a `hold` where it kept a storage longer than the op that read it last.
#include <algorithm>

#include "ac_advisor/graph/graph.hpp"
#include "ac_advisor/ir/op_table.hpp"
#include "ac_advisor/passes/pass.hpp"
#include "passes/loop_names.hpp"
#include "values.hpp"

namespace ac_advisor::passes {
namespace {

using ir::no_id;
using ir::OpId;
using ir::OpKind;
using ir::Phase;
using ir::ValueId;
using Values = std::vector<ValueId>;

std::size_t at(graph::Index i) { return static_cast<std::size_t>(i); }

OpKind product_kind(const std::string& name) {
  if (name == "aten::addmm" || name == "aten::_addmm_activation") return OpKind::addmm;
  if (name == "aten::bmm") return OpKind::bmm;
  if (name == "aten::baddbmm") return OpKind::baddbmm;
  return name == "aten::mm" ? OpKind::mm : OpKind::captured;
}

class Replay {
 public:
  Replay(StepProgram& step, const graph::Graph& graph, const graph::MicroBatch& micro,
         bool recomputes)
      : s_(step),
        p_(step.program),
        g_(graph),
        m_(micro),
        recomputes_(recomputes),
        tensors_(graph.tensors.size(), no_id),
        first_tensor_(graph.storages.size(), -1),
        touched_(graph.storages.size(), no_id),
        made_by_(graph.storages.size(), -1),
        released_(graph.storages.size(), false),
        emitted_(micro.ops.size(), no_id) {
    for (std::size_t t = g_.tensors.size(); t-- > 0;)
      first_tensor_[at(g_.tensors[t].storage)] = static_cast<graph::Index>(t);
    for (std::size_t i = 0; i < m_.ops.size(); ++i)
      for (const graph::Index s : m_.ops[i].out) made_by_[at(s)] = static_cast<graph::Index>(i);
    for (const graph::Gradient& gradient : m_.gradients) {
      gradients_.push_back(gradient.storage);
      completions_.emplace_back(gradient.whole, gradient.storage);
    }
    std::sort(gradients_.begin(), gradients_.end());
    std::sort(completions_.begin(), completions_.end());
    find_places();
  }

  void run(LoopNames& names) {
    for (std::size_t i = 0; i < m_.ops.size(); ++i) {
      if (m_.ops[i].phase == graph::Phase::backward &&
          (i == 0 || m_.ops[i - 1].phase != graph::Phase::backward))
        names.assign(storage(m_.loss), made_outputs());
      if (recomputes_ && begins_node(i)) unpack(i);
      emit(i);
      release(i);
      complete(i);
    }
    finish();
  }

 private:
  [[nodiscard]] Phase phase(const graph::Op& op) const {
    constexpr Phase phases[] = {Phase::forward, Phase::loss, Phase::backward};
    return phases[static_cast<std::size_t>(op.phase)];
  }

  /// Backward's ops stand where the forward op does that they belong to; those of no forward op,
  /// which add a gradient to a parameter's, where the ones before them do.
  void find_places() {
    const std::vector<ir::ModulePath> places = places_of(g_);
    for (const graph::Op& op : m_.ops) {
      ir::ModulePath place = places[at(op.module)];
      if (op.forward >= 0)
        place = places_[at(op.forward)];
      else if (op.phase == graph::Phase::backward && !places_.empty())
        place = places_.back();
      else if (op.phase == graph::Phase::loss && place.block < 0 && place.leaf == ir::Module::root)
        place = {-1, ir::Module::loss};
      places_.push_back(place);
    }
  }
  [[nodiscard]] ir::ModulePath module(std::size_t op) const { return places_[op]; }

  /// The gradients that are whole now, as what this op makes of them: later passes see where.
  void complete(std::size_t i) {
    for (; completed_ < completions_.size() && at(completions_[completed_].first) == i;
         ++completed_) {
      const ValueId made = storage(completions_[completed_].second);
      const ValueId whole =
          p_.on_storage_of(made, p_.value(made).shape, p_.value(made).dtype, false);
      p_.emit(OpKind::view, Phase::backward, module(i), {made}, {whole});
      s_.captured[at(completions_[completed_].second)] = whole;
    }
  }

  [[nodiscard]] ValueId storage(graph::Index s) const { return s_.captured[at(s)]; }

  ValueId tensor(graph::Index t) {
    ValueId& value = tensors_[at(t)];
    const graph::Tensor& like = g_.tensors[at(t)];
    const ValueId root = storage(like.storage);
    // A storage that was made anew under the same number has other values.
    if (value == no_id || p_.root(value) != root) value = view_of(p_, root, like);
    return value;
  }

  [[nodiscard]] ir::Role role(const graph::Op& op, graph::Index s) const {
    if (std::binary_search(gradients_.begin(), gradients_.end(), s)) return ir::Role::gradient;
    if (std::find(op.frees.begin(), op.frees.end(), s) != op.frees.end())
      return ir::Role::temporary;
    return op.phase == graph::Phase::backward ? ir::Role::activation_grad : ir::Role::activation;
  }

  [[nodiscard]] const graph::Tensor* looks(graph::Index s) const {
    const graph::Index first = first_tensor_[at(s)];
    return first < 0 ? nullptr : &g_.tensors[at(first)];
  }

  ValueId make(std::size_t i, graph::Index s) {
    const ValueId value = make_storage(p_, g_, s, looks(s), role(m_.ops[i], s), module(i));
    return s_.captured[at(s)] = value;
  }

  struct Kind {
    OpKind kind = OpKind::captured;
    ir::Attributes attributes;
  };

  /// A matrix product is one that the clock knows, where it is one launch; what launches nothing is
  /// a view or an allocation; the rest is told by what it moves.
  [[nodiscard]] Kind kind_of(const graph::Op& op) const {
    if (op.launches == 0) return {op.out.empty() ? OpKind::view : OpKind::empty, {}};
    const OpKind product = product_kind(g_.op_names[at(op.name)]);
    if (op.product && product != OpKind::captured && op.launches == 1 && op.in.size() > 1 &&
        !op.out.empty())
      return {product, ir::Product{static_cast<std::int32_t>(op.product->inner), ir::Form::nt}};
    double flops = op.flops;
    if (op.product)
      flops = 2.0 * static_cast<double>(op.product->rows) *
              static_cast<double>(op.product->columns) * static_cast<double>(op.product->inner);
    return {OpKind::captured, ir::Captured{flops, op.name, static_cast<std::int32_t>(op.launches)}};
  }

  void emit(std::size_t i) {
    const graph::Op& op = m_.ops[i];
    Values in, out;
    for (const graph::Index t : op.in) in.push_back(tensor(t));
    for (const graph::Index s : op.out) out.push_back(make(i, s));
    const Kind kind = kind_of(op);
    if (kind.kind != OpKind::captured && op.product && !out.empty())
      p_.value(out.front()).shape = {op.product->rows, op.product->columns};
    const OpId id = p_.emit(kind.kind, phase(op), module(i), in, out, kind.attributes);
    emitted_[i] = id;
    if (op.forward >= 0) p_.op(id).forward = emitted_[at(op.forward)];
    for (const graph::Index t : op.in) touched_[at(g_.tensors[at(t)].storage)] = id;
    for (const graph::Index s : op.out) touched_[at(s)] = id;
  }

  // --- lifetimes --------------------------------------------------------------------------------

  void hold(const Values& values, const graph::Op& op, ir::ModulePath module) {
    if (values.empty()) return;
    const OpId id = p_.emit(OpKind::hold, phase(op), module, values, Values{});
    if (op.forward >= 0) p_.op(id).forward = emitted_[at(op.forward)];
  }

  /// What was kept beyond the op that touched it last. A frame's local is of its block's forward,
  /// which a checkpoint runs again; what came into the block is the caller's.
  void release(std::size_t i) {
    const graph::Op& op = m_.ops[i];
    const ir::ModulePath here = module(i);
    Values own, callers;
    const auto let_go = [&](graph::Index s) {
      const graph::Index maker = made_by_[at(s)];
      if (maker < 0) return;  // what exists before the step stays
      if (touched_[at(s)] == emitted_[i]) return;
      const bool inside =
          op.phase == graph::Phase::backward || module(at(maker)).block == here.block;
      (inside ? own : callers).push_back(storage(s));
    };
    for (const graph::Index s : op.frees) {
      let_go(s);
      released_[at(s)] = true;
    }
    for (const graph::Index s : op.drops) let_go(s);
    hold(own, op, here);
    hold(callers, op, {-1, ir::Module::root});
  }

  [[nodiscard]] bool begins_node(std::size_t i) const {
    const graph::Op& op = m_.ops[i];
    return op.phase == graph::Phase::backward && op.node >= 0 && op.forward >= 0 &&
           (i == 0 || m_.ops[i - 1].node != op.node);
  }

  [[nodiscard]] bool made_before_backward(graph::Index t) const {
    const graph::Index maker = made_by_[at(g_.tensors[at(t)].storage)];
    return maker < 0 || m_.ops[at(maker)].phase != graph::Phase::backward;
  }

  /// A node's function unpacks all that it saved before it runs its first op; a checkpoint
  /// recomputes then.
  void unpack(std::size_t i) {
    Values saved;
    for (std::size_t j = i; j < m_.ops.size() && m_.ops[j].node == m_.ops[i].node; ++j)
      for (const graph::Index t : m_.ops[j].in)
        if (made_before_backward(t)) saved.push_back(storage(g_.tensors[at(t)].storage));
    std::sort(saved.begin(), saved.end());
    saved.erase(std::unique(saved.begin(), saved.end()), saved.end());
    hold(saved, m_.ops[i], module(i));
  }

  [[nodiscard]] Values made_outputs() const {
    Values outputs;
    for (const graph::Index s : m_.outputs) outputs.push_back(storage(s));
    return outputs;
  }

  /// What is left of the micro-batch: gradients, the loss, the output if it is held, and what the
  /// graph of the loss still refers to.
  void finish() {
    s_.loss = storage(m_.loss);
    s_.losses.push_back(s_.loss);
    s_.outputs = made_outputs();
    for (const auto& [parameter, s, whole] : m_.gradients) {
      s_.parameters[at(parameter)].gradient = storage(s);
      p_.storage(p_.storage_of(storage(s))).module = s_.parameters[at(parameter)].module;
    }
    for (std::size_t s = 0; s < made_by_.size(); ++s) {
      const auto number = static_cast<graph::Index>(s);
      if (made_by_[s] < 0 || released_[s] || number == m_.loss ||
          std::binary_search(gradients_.begin(), gradients_.end(), number))
        continue;
      s_.graph_held.push_back(storage(number));
    }
  }

  StepProgram& s_;
  ir::Program& p_;
  const graph::Graph& g_;
  const graph::MicroBatch& m_;
  std::vector<ir::ModulePath> places_;  ///< by op
  bool recomputes_;
  Values tensors_;               ///< by tensor
  graph::Indices first_tensor_;  ///< by storage
  std::vector<OpId> touched_;    ///< by storage: the op that made or read it last
  graph::Indices made_by_;       ///< by storage: the graph's op; -1: exists before
  std::vector<bool> released_;   ///< by storage
  std::vector<OpId> emitted_;    ///< by op of the graph
  graph::Indices gradients_;     ///< storages, sorted
  std::vector<std::pair<graph::Index, graph::Index>> completions_;  ///< op, gradient that is whole
  std::size_t completed_ = 0;                                       ///< of them
};

bool always(const StepConfig&) { return true; }

void run(StepProgram& step, const model::ModelSpec& spec, const StepConfig& config) {
  LoopNames names(step, config);
  step.graph_held.clear();
  // Where gradients stay what autograd made them, the next micro-batch adds to them.
  const bool adds = std::any_of(step.parameters.begin(), step.parameters.end(),
                                [](const Parameter& p) { return p.gradient != no_id; });
  const graph::MicroBatch& micro = spec.graph->micro_batches[adds ? 1 : 0];
  step.loss_outside = std::any_of(micro.ops.begin(), micro.ops.end(), [](const graph::Op& op) {
    return op.phase == graph::Phase::loss;
  });
  Replay(step, *spec.graph, micro, config.memory.ac != AcMode::none).run(names);
}

}  // namespace

extern const Pass graph_replay_pass;
const Pass graph_replay_pass{
    "graph-replay",
    Stage::micro_batch,
    "an imported graph's forward, loss and backward, as they were captured",
    always,
    run,
    {},
    Of::graph};

}  // namespace ac_advisor::passes
