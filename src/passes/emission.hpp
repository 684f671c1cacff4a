#pragma once

#include <initializer_list>
#include <vector>

#include "ac_advisor/passes/step_program.hpp"
#include "ir/own_rows.hpp"

namespace ac_advisor::passes {

/// What a forward is written with, whoever's modelling code it follows: values and ops of the
/// module and phase that are being written.
class Emission {
 protected:
  using V = ir::ValueId;

  explicit Emission(StepProgram& step) : Emission(step, step.model, ir::Owner::policy) {}
  Emission(StepProgram& step, ModelValues& model, ir::Owner owner)
      : s_(step), p_(step.program), m_(model), owner_(owner) {}

  [[nodiscard]] ir::ModulePath at(ir::Module leaf) const { return {block_, leaf, owner_}; }
  V out(const ir::Shape& shape, DType dtype, bool requires_grad);
  ir::OpId emit(ir::OpKind kind, std::initializer_list<V> inputs, std::initializer_list<V> outputs,
                const ir::Attributes& attributes = {});
  /// An op whose result needs no gradient.
  V make_int(ir::OpKind kind, const ir::Shape& size, DType type, std::initializer_list<V> inputs,
             const ir::Attributes& attributes = {});
  /// to += alpha * what
  V added_in_place(V to, V what, const ir::Attributes& attributes = {});
  /// Dropout, unless the probability is 0.
  V dropped(V x, double probability);
  /// `made` of a kernel becomes what an autograd node with `backward` puts out, which is given the
  /// node's inputs first, then the gradient of `made`.
  V node(ir::OpKind kind, const std::vector<V>& inputs, V made, ir::CompiledGraph backward);
  /// Each of a dimension's entries `times` times after itself: an expanded view, copied.
  V repeated(V x, std::size_t dim, std::int64_t times);
  /// Values live until here; no_id is passed over.
  void hold(std::initializer_list<V> values);
  void hold_all(const std::vector<V>& values);
  [[nodiscard]] const ir::Shape& shape(V v) const { return p_.value(v).shape; }
  [[nodiscard]] DType dtype(V v) const { return p_.value(v).dtype; }
  [[nodiscard]] bool grad(V v) const { return p_.value(v).requires_grad; }
  [[nodiscard]] const StageBlocks& stage() const { return s_.stages[s_.chunk]; }

  /// Of indices the rows that this rank has, the others at its first one.
  ir::OwnRows own_rows(V indices, std::int64_t rows, std::int64_t rank);
  void zero_elsewhere(V x, V elsewhere);

  StepProgram& s_;
  ir::Program& p_;
  ModelValues& m_;
  ir::Owner owner_;
  std::int16_t block_ = -1;
  ir::Module leaf_ = ir::Module::root;
  ir::Phase phase_ = ir::Phase::forward;
  bool distributed_ = false;  ///< what is made now is a DTensor
};

}  // namespace ac_advisor::passes
