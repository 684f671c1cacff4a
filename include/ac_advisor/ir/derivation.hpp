#pragma once

#include <array>
#include <initializer_list>
#include <span>
#include <vector>

#include "ac_advisor/ir/program.hpp"

namespace ac_advisor::ir {

/// One autograd node being derived: a rule reads the forward op and the incoming gradients, emits
/// the ops that PyTorch's formula launches, in its order, and gives each input its gradient.
/// Formulas: tools/autograd/derivatives.yaml and torch/csrc/autograd/FunctionsManual.cpp, v2.11.
/// What a rule reads of the forward is what autograd saves; no saved set is declared by hand.
class Derivation {
 public:
  Derivation(Program& program, OpId forward, std::int32_t group, bool under_dispatch_mode)
      : p_(program), forward_(forward), group_(group), under_dispatch_mode_(under_dispatch_mode) {}

  [[nodiscard]] const Op& op() const { return p_.op(forward_); }
  /// Of the forward op; a copy, as emitting moves it.
  template <typename A>
  [[nodiscard]] A attributes() const {
    return ir::attributes<A>(op());
  }
  [[nodiscard]] std::size_t inputs() const { return op().inputs; }
  [[nodiscard]] ValueId in(std::size_t i) const { return p_.input(op(), i); }
  [[nodiscard]] ValueId out(std::size_t i = 0) const { return p_.output(op(), i); }
  [[nodiscard]] Shape shape(ValueId v) const { return p_.value(v).shape; }
  [[nodiscard]] DType dtype(ValueId v) const { return p_.value(v).dtype; }
  [[nodiscard]] bool needs(std::size_t i) const {
    return p_.value(in(i)).requires_grad && is_asked_for(in(i));
  }
  /// torch.autograd.grad: gradients of these roots alone are computed (task_should_compute_output).
  void ask_for(const std::vector<bool>& roots) { asked_for_ = &roots; }
  [[nodiscard]] bool is_asked_for(ValueId v) const {
    return asked_for_ == nullptr || (*asked_for_)[static_cast<std::size_t>(p_.root(v))];
  }
  /// Incoming gradient of output i; `no_id` when nothing used that output.
  [[nodiscard]] ValueId grad(std::size_t i = 0) const {
    if (i < most_outputs) return incoming_[i];
    return i - most_outputs < more_incoming_.size() ? more_incoming_[i - most_outputs] : no_id;
  }
  /// `sole`: nothing else will read the gradient, so the rule may write over it.
  void set_incoming(std::size_t i, ValueId g, bool sole) {
    if (i >= most_outputs) return set_more(more_incoming_, i - most_outputs, g);
    incoming_[i] = g;
    sole_[i] = sole;
  }

  /// Emits a backward op with one new output; a pointwise op's keeps its first operand's layout.
  ValueId emit(OpKind kind, std::initializer_list<ValueId> inputs, const Shape& shape, DType dtype,
               const Attributes& attributes = {});
  /// Emits a backward op with outputs that the rule has made itself.
  void emit_raw(OpKind kind, std::initializer_list<ValueId> inputs,
                std::initializer_list<ValueId> outputs, const Attributes& attributes = {});
  ValueId make(const Shape& shape, DType dtype);
  /// An op that writes into `target`: in place, but out of place under a TorchDispatchMode, where
  /// PyTorch's formulas test areAnyTensorSubclassLike.
  ValueId write_into(OpKind kind, ValueId target, std::initializer_list<ValueId> inputs);
  ValueId make_like(ValueId v) { return make(shape(v), dtype(v)); }
  [[nodiscard]] bool permuted(ValueId v) const { return p_.value(v).permuted; }
  /// Whether its elements lie in the order of its shape: of one head, (batch, 1, rows, width), they
  /// do whatever its strides are called.
  [[nodiscard]] bool in_order(ValueId v) const {
    return !permuted(v) || (shape(v).rank() == 4 && shape(v)[1] == 1);
  }
  void set_permuted(ValueId v, bool permuted) { p_.value(v).permuted = permuted; }
  /// A new version of `target`, on its storage: what an op that overwrites it puts out.
  ValueId overwrite(ValueId target);
  /// Incoming gradient i overwritten, or a new value where somebody else still needs it.
  ValueId overwrite_incoming(std::size_t i) {
    return sole_[i] ? overwrite(incoming_[i]) : make_like(incoming_[i]);
  }
  ValueId alias(ValueId base, const Shape& shape);
  /// `shape`'s part of `base`: a view.
  ValueId slice_of(ValueId base, const Shape& shape, const Slice& slice);

  /// `size` of `base` from `start` on along dimension `dim`: a view.
  ValueId part(ValueId base, std::int32_t dim, std::int64_t start, std::int64_t size);
  /// A tensor of another shape at the beginning of `buffer`'s storage, which it overwrites.
  ValueId within(ValueId buffer, const Shape& shape);

  /// Emits a backward op with a new output from as many inputs as there are.
  ValueId emit_list(OpKind kind, std::span<const ValueId> inputs, const Shape& shape, DType dtype);

  /// Of this node, for what writes several ops.
  [[nodiscard]] Program& program() { return p_; }
  [[nodiscard]] std::int32_t group() const { return group_; }
  [[nodiscard]] OpId forward() const { return forward_; }

  void give(std::size_t i, ValueId gradient) {
    if (i >= outgoing_.size()) return set_more(more_, i - outgoing_.size(), gradient);
    outgoing_[i] = gradient;
  }
  [[nodiscard]] ValueId given(std::size_t i) const {
    if (i < outgoing_.size()) return outgoing_[i];
    return i - outgoing_.size() < more_.size() ? more_[i - outgoing_.size()] : no_id;
  }

  /// Emits a compiled unit's backward: its inputs, the incoming gradient, then what it makes.
  void run_compiled(const CompiledGraph& graph);
  /// A copy, as emitting may move it.
  [[nodiscard]] CompiledGraph compiled(std::int32_t index) const {
    return p_.compiled.at(static_cast<std::size_t>(index));
  }

  /// Of a forward op's outputs, those whose gradients a rule may write over: of more a rule reads
  /// alone, the parts of a split.
  static constexpr std::size_t most_outputs = 32;

 private:
  template <std::size_t n>
  static constexpr std::array<ValueId, n> all_absent() {
    std::array<ValueId, n> absent{};
    absent.fill(no_id);
    return absent;
  }

  Program& p_;
  OpId forward_;
  std::int32_t group_;
  bool under_dispatch_mode_;
  const std::vector<bool>* asked_for_ = nullptr;  ///< none: all
  std::array<ValueId, most_outputs> incoming_ = all_absent<most_outputs>();
  std::array<bool, most_outputs> sole_{};
  std::vector<ValueId> more_incoming_;
  static void set_more(std::vector<ValueId>& more, std::size_t i, ValueId gradient) {
    if (more.size() <= i) more.resize(i + 1, no_id);
    more[i] = gradient;
  }

  static constexpr std::size_t usual_inputs = 16;
  std::array<ValueId, usual_inputs> outgoing_ = all_absent<usual_inputs>();
  std::vector<ValueId> more_;  ///< of the inputs after those: a compiled unit has hundreds
};

using Derive = void (*)(Derivation&);

}  // namespace ac_advisor::ir
