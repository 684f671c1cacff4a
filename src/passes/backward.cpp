#include "backward.hpp"

#include <algorithm>
#include <span>

#include "ac_advisor/ir/op_table.hpp"

namespace ac_advisor::passes {

using ir::no_id;
using ir::OpId;
using ir::OpKind;
using ir::ValueId;

Backward::Backward(StepProgram& step, bool under_dispatch_mode, bool linear_in_python,
                   bool reentrant)
    : s_(step),
      p_(step.program),
      under_dispatch_mode_(under_dispatch_mode),
      linear_in_python_(linear_in_python),
      reentrant_(reentrant) {}

void Backward::run(OpId first) {
  const auto end = static_cast<OpId>(p_.ops.size());
  begin(first);
  seed();
  for (OpId op = end; op-- > first;) visit(op);
  note_input_gradient();
  hold_seed();
}

void Backward::begin(OpId first) {
  const auto end = static_cast<OpId>(p_.ops.size());
  pending_.assign(p_.values.size(), no_id);
  parameter_of_.assign(p_.values.size(), no_id);
  for (std::size_t i = 0; i < s_.parameters.size(); ++i) {
    s_.parameters[i].uses = 0;
    parameter_of_[static_cast<std::size_t>(s_.parameters[i].value)] = static_cast<std::int32_t>(i);
  }
  count_uses(first, end);
  group_ = end;
}

void Backward::count_uses(OpId first, OpId end) {
  for (OpId id = first; id < end; ++id) {
    const ir::Op& op = p_.op(id);
    if (ir::row(op.kind).derive == nullptr || op.outputs == 0) continue;
    if (!p_.value(p_.output(op, 0)).requires_grad) continue;
    for (ValueId v : p_.inputs(op)) {
      const std::int32_t index = parameter_of_[static_cast<std::size_t>(p_.root(v))];
      if (index != no_id) ++s_.parameters[static_cast<std::size_t>(index)].uses;
    }
  }
}

ValueId Backward::pending(ValueId v) const {
  return pending_[static_cast<std::size_t>(p_.root(v))];
}

void Backward::note_input_gradient() {
  if (s_.ends.empty() || s_.ends.back().input == no_id) return;
  const ValueId g = pending(s_.ends.back().input);
  s_.ends.back().input_gradient = g == no_id ? no_id : p_.root(g);
}

void Backward::seed() {
  if (s_.loss == no_id) {  // stage_backward: from a gradient that its caller holds
    seed_ = s_.ends.back().output_gradient;
    set_pending(s_.ends.back().output, seed_);
    ++holders(seed_);
    return;
  }
  const ir::Value& loss = p_.value(s_.loss);
  seed_ = p_.make(loss.shape, loss.dtype, ir::Role::activation_grad, {-1, ir::Module::loss});
  p_.emit(OpKind::fill, ir::Phase::backward, {-1, ir::Module::loss}, {}, {seed_},
          ir::Number{s_.loss_scale});
  p_.ops.back().group = ++group_;
  set_pending(s_.loss, seed_);
}

void Backward::visit(OpId id) {
  const ir::OpRow& row = ir::row(p_.op(id).kind);
  if (row.derive == nullptr) return;
  if (keep_leaf(id)) return;
  const std::size_t outputs = p_.op(id).outputs, inputs = p_.op(id).inputs;
  bool reached = false;
  ir::Derivation d(p_, id, ++group_, under_dispatch_mode_);
  if (asked_for_ != nullptr) d.ask_for(*asked_for_);
  for (std::size_t i = 0; i < outputs; ++i) {
    const ValueId root = p_.root(p_.output(p_.op(id), i));
    const ValueId g = pending_[static_cast<std::size_t>(root)];
    if (g == no_id) continue;
    reached = true;
    pending_[static_cast<std::size_t>(root)] = no_id;
    --holders(g);
    const ValueId like = p_.output(p_.op(id), i);
    d.set_incoming(i, reached_by_view(root) ? seen_as(g, like) : as_shape_of(g, like),
                   holders(g) == 0);
  }
  if (!reached) return;
  row.derive(d);
  // validate_outputs: a gradient wider than its input is summed before saved tensors are freed
  std::vector<ValueId>& given = given_;
  given.assign(inputs, no_id);
  for (std::size_t i = 0; i < inputs; ++i) {
    given[i] = d.given(i);
    if (given[i] == no_id) continue;
    const ValueId input = p_.input(p_.op(id), i);
    if (p_.value(given[i]).shape.numel() != p_.value(input).shape.numel())
      given[i] = d.emit(OpKind::sum, {given[i]}, p_.value(input).shape, p_.value(given[i]).dtype);
    // What is in fp8 passes for a tensor of its own dtype: a gathered weight, DTensor's gradients.
    const DType of_gradient = p_.value(given[i]).dtype, of_input = p_.value(input).dtype;
    if (of_gradient != of_input && of_gradient != DType::f8 && of_input != DType::f8)
      given[i] = d.emit(OpKind::cast, {given[i]}, p_.value(input).shape, p_.value(input).dtype);
  }
  for (std::size_t i = 0; i < inputs; ++i)
    if (given[i] != no_id) route(id, p_.input(p_.op(id), i), given[i]);
}

/// An activation that was made a leaf: nothing runs before it, and its gradient and it itself
/// live as long as the graph: without a pipeline until the loss is bound anew.
bool Backward::keep_leaf(OpId id) {
  const ir::Op& op = p_.op(id);
  if (op.outputs == 0) return false;
  const ValueId made = p_.root(p_.output(op, 0));
  if (std::find(s_.leaves.begin(), s_.leaves.end(), made) == s_.leaves.end()) return false;
  const ValueId g = pending_[static_cast<std::size_t>(made)];
  if (g == no_id) return true;
  if (!s_.ends.empty()) {  // a stage's graph goes with its output, when its backward is done
    hold({made, g});
    return true;
  }
  s_.graph_held.push_back(made);
  s_.graph_held.push_back(g);
  return true;
}

ValueId Backward::as_shape_of(ValueId g, ValueId like) {
  if (p_.value(g).shape == p_.value(like).shape) return g;
  // Heads that were merged, [B, S, heads x D], come apart in the layout that they were merged
  // from.
  const bool apart = p_.value(like).permuted && p_.value(g).shape.rank() == 3;
  return p_.reshape(g, p_.value(like).shape, apart || p_.value(g).permuted);
}

/// Hands a gradient to the node that made `input`, or to its leaf.
void Backward::route(OpId from, ValueId input, ValueId g) {
  const ValueId root = p_.root(input);
  if (!p_.value(root).requires_grad) return;
  if (asked_for_ != nullptr && !(*asked_for_)[static_cast<std::size_t>(root)]) return;
  const std::int32_t index = parameter_of_[static_cast<std::size_t>(root)];
  const ValueId old = pending_[static_cast<std::size_t>(root)];
  if (came_through_view(from, input, g)) mark_viewed(g);
  if (old != no_id) {
    const ValueId whole = p_.root(g);
    const OpId maker = p_.value(whole).producer;
    const bool in_parts = maker != no_id && p_.op(maker).kind == OpKind::embedding_backward &&
                          p_.value(whole).shape.numel() > p_.value(g).shape.numel();
    if (in_parts) g = own_part(from, g);
    // What reaches one view twice meets at that view's own node.
    const bool same_view = reached_through(root) == input;
    g = add(from, old, g, p_.value(root).distributed, reached_by_view(root) && !same_view);
    if (in_parts) hold(whole);
    pending_[static_cast<std::size_t>(root)] = g;
    if (!same_view) set_reached_through(root, no_id);
  } else {
    set_pending(root, g);
    set_reached_through(root, p_.value(input).base != no_id ? input : no_id);
  }
  if (index != no_id) store(s_.parameters[static_cast<std::size_t>(index)], root);
}

/// A linear layer flattens its input and transposes its weight by views; so does every reshape.
/// LLM.int8()'s backward gives its gradient the input's shape by a view, MatMul4Bit's does not.
bool Backward::came_through_view(OpId from, ValueId input, ValueId g) const {
  const OpKind kind = p_.op(from).kind;
  if (kind == OpKind::mm_quantized)
    return ir::attributes<ir::QuantizedProduct>(p_.op(from)).inner == 0;
  const bool rows = kind == OpKind::mm && p_.value(input).shape.rank() == 2 &&
                    input == p_.input(p_.op(from), 0);  // which are flat already
  return (kind == OpKind::mm && !rows && !linear_in_python_) || kind == OpKind::addmm ||
         kind == OpKind::float8_linear || p_.value(g).base != no_id;
}
/// Whether what first reached a value is a view of a gradient, which others may have as it is.
bool Backward::reached_by_view(ValueId root) const { return reached_through(root) != no_id; }
/// That view; no_id: none.
ValueId Backward::reached_through(ValueId root) const {
  const auto i = static_cast<std::size_t>(root);
  return i < reached_through_.size() ? reached_through_[i] : no_id;
}
void Backward::set_reached_through(ValueId root, ValueId view) {
  const auto i = static_cast<std::size_t>(root);
  if (reached_through_.size() <= i) reached_through_.resize(p_.values.size() + 256, no_id);
  reached_through_[i] = view;
}
/// The gradient as a view of itself.
ValueId Backward::seen_as(ValueId g, ValueId like) {
  const ValueId shaped = as_shape_of(g, like);
  return shaped == g ? p_.reshape(g, p_.value(g).shape, p_.value(g).permuted) : shaped;
}
void Backward::mark_viewed(ValueId g) {
  if (viewed_.size() <= static_cast<std::size_t>(g)) viewed_.resize(p_.values.size() + 256, false);
  viewed_[static_cast<std::size_t>(g)] = true;
}
bool Backward::viewed(ValueId g) const {
  return static_cast<std::size_t>(g) < viewed_.size() && viewed_[static_cast<std::size_t>(g)];
}

/// Whether CheckpointFunction.backward, which runs `from`'s node, was given the gradient.
bool Backward::callers(OpId from, ValueId g) const {
  const std::int32_t region = p_.op(from).region;
  if (!reentrant_ || region == no_id) return false;
  const OpId maker = p_.value(p_.root(g)).producer;
  const OpId node = maker == no_id ? no_id : p_.op(maker).forward;
  return node == no_id || p_.op(node).region != region;
}

/// InputBuffer::add: in place when the gradient that came first is dense and nobody else's. A
/// view holds its base, so one that came through a view is not (two V x H buffers and their sum
/// for a tied LM head and embedding). A DTensor has no storage of its own: never in place.
ValueId Backward::add(OpId from, ValueId old, ValueId g, bool distributed, bool by_view) {
  const bool in_place = !distributed && !under_dispatch_mode_ && !viewed(old) && !by_view &&
                        holders(old) == 1 && !callers(from, old);
  const ir::ModulePath module = p_.op(from).module;
  const ir::Value like = p_.value(old);
  --holders(old);
  const ValueId sum = in_place ? p_.on_storage_of(old, like.shape, like.dtype, true)
                               : p_.make(like.shape, like.dtype, ir::Role::activation_grad, module);
  p_.value(sum).permuted = like.permuted;
  p_.emit(in_place ? OpKind::accumulate_inplace : OpKind::accumulate, ir::Phase::backward, module,
          {old, g}, {sum});
  p_.ops.back().group = ++group_;
  p_.ops.back().forward = from;
  ++holders(sum);
  return sum;
}

/// Of a gradient of the whole vocabulary, what meets this rank's: DTensor copies it out.
ValueId Backward::own_part(OpId from, ValueId g) {
  const ir::ModulePath module = p_.op(from).module;
  const ir::Value like = p_.value(g);
  const ValueId own = p_.make(like.shape, like.dtype, ir::Role::activation_grad, module);
  p_.emit(OpKind::clone, ir::Phase::backward, module, {g}, {own});
  p_.ops.back().group = ++group_;
  p_.ops.back().forward = from;
  return own;
}
void Backward::hold(const std::vector<ValueId>& values) {
  p_.emit(OpKind::hold, ir::Phase::backward, {}, std::span<const ValueId>(values), {});
  p_.ops.back().group = ++group_;
}

void Backward::store(Parameter& parameter, ValueId root) {
  if (--parameter.uses > 0) return;
  ValueId g = pending_[static_cast<std::size_t>(root)];
  pending_[static_cast<std::size_t>(root)] = no_id;
  g = p_.root(g);
  const ir::Shape shape = p_.value(parameter.value).shape;
  // Summed in another shape: a view, so that its producer stays that of what it views.
  if (p_.value(g).shape != shape && p_.value(g).shape.numel() == shape.numel())
    g = p_.reshape(g, shape);
  if (parameter.gradient != no_id) {
    // AccumulateGrad: variable_grad += new_grad, in place without grad mode. A sharding pass that
    // keeps shards alone has taken the last micro-batch's gradient out.
    const ir::Value kept = p_.value(parameter.gradient);
    const ValueId sum = p_.on_storage_of(parameter.gradient, kept.shape, kept.dtype, true);
    p_.emit(OpKind::accumulate_inplace, ir::Phase::backward, parameter.module,
            {parameter.gradient, g}, {sum});
    p_.ops.back().group = ++group_;
    parameter.gradient = sum;
    return;
  }
  p_.storage(p_.value(g).storage).role = ir::Role::gradient;
  p_.storage(p_.value(g).storage).module = parameter.module;
  parameter.gradient = g;
}

void Backward::set_pending(ValueId v, ValueId g) {
  pending_[static_cast<std::size_t>(p_.root(v))] = g;
  ++holders(g);
}

/// Input buffers that refer to g's storage.
std::int32_t& Backward::holders(ValueId g) {
  const auto s = static_cast<std::size_t>(p_.value(g).storage);
  if (holders_.size() <= s) holders_.resize(s + 256, 0);
  return holders_[s];
}

}  // namespace ac_advisor::passes
