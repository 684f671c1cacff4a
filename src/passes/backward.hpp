#pragma once

#include <cstdint>
#include <vector>

#include "ac_advisor/ir/derivation.hpp"
#include "ac_advisor/passes/step_program.hpp"

namespace ac_advisor::passes {

/// PyTorch's autograd engine over the ops of a micro-batch's forward
/// (torch/csrc/autograd/engine.cpp, v2.11): nodes run in reverse order of creation, a leaf's
/// gradient is stored as soon as its last use has contributed, and gradients that meet are added
/// (input_buffer.cpp).
class Backward {
 public:
  /// `linear_in_python`: a linear layer's gradient is a product of its function's own, no view
  /// (DeepSpeed's ZeRO 3, zero/linear.py). `reentrant`: a checkpoint's backward is an engine of its
  /// own, whose caller holds the gradients that it is given.
  Backward(StepProgram& step, bool under_dispatch_mode, bool linear_in_python,
           bool reentrant = false);

  /// All of it, over the ops from `first` on.
  void run(ir::OpId first);

  // --- its parts, for a backward that is not run at once
  /// Counts uses of parameters in the forward, which is written from `first` to the end.
  void begin(ir::OpId first);
  /// Starts from the loss, or from what the next stage sends.
  void seed();
  /// The node of a forward op, where a gradient has reached it.
  void visit(ir::OpId id);
  /// Of these roots alone gradients are computed from now on: autograd.grad(inputs=…).
  void ask_for(const std::vector<bool>& roots) { asked_for_ = &roots; }
  /// The gradient that waits for the node which made `v`; no_id: none.
  [[nodiscard]] ir::ValueId pending(ir::ValueId v) const;
  void set_pending(ir::ValueId v, ir::ValueId g);
  /// Somebody beside the engine refers to it: nothing is added to it in place.
  void keep(ir::ValueId g) { ++holders(g); }
  /// What reached the stage's input.
  void note_input_gradient();
  /// The caller of backward() holds the gradient it started from until the end.
  void hold_seed() { hold(seed_); }
  void hold(ir::ValueId v) { hold(std::vector<ir::ValueId>{v}); }
  void hold(const std::vector<ir::ValueId>& values);
  /// For what others write between nodes.
  [[nodiscard]] std::int32_t next_group() { return ++group_; }

 private:
  void count_uses(ir::OpId first, ir::OpId end);
  bool keep_leaf(ir::OpId id);
  ir::ValueId as_shape_of(ir::ValueId g, ir::ValueId like);
  void route(ir::OpId from, ir::ValueId input, ir::ValueId g);
  [[nodiscard]] bool came_through_view(ir::OpId from, ir::ValueId input, ir::ValueId g) const;
  [[nodiscard]] bool reached_by_view(ir::ValueId root) const;
  [[nodiscard]] ir::ValueId reached_through(ir::ValueId root) const;
  void set_reached_through(ir::ValueId root, ir::ValueId view);
  ir::ValueId seen_as(ir::ValueId g, ir::ValueId like);
  void mark_viewed(ir::ValueId g);
  [[nodiscard]] bool viewed(ir::ValueId g) const;
  ir::ValueId add(ir::OpId from, ir::ValueId old, ir::ValueId g, bool distributed, bool by_view);
  ir::ValueId own_part(ir::OpId from, ir::ValueId g);
  void store(Parameter& parameter, ir::ValueId root);
  std::int32_t& holders(ir::ValueId g);

  StepProgram& s_;
  ir::Program& p_;
  [[nodiscard]] bool callers(ir::OpId from, ir::ValueId g) const;

  bool under_dispatch_mode_, linear_in_python_, reentrant_;
  std::int32_t group_ = 0;
  ir::ValueId seed_ = ir::no_id;
  const std::vector<bool>* asked_for_ = nullptr;  ///< none: all
  std::vector<ir::ValueId> pending_;
  std::vector<std::int32_t> parameter_of_;
  std::vector<std::int32_t> holders_;
  std::vector<bool> viewed_;
  std::vector<ir::ValueId> reached_through_;  ///< of values, by their root
  std::vector<ir::ValueId> given_;  ///< by the node that is visited, an input's gradient each
};

}  // namespace ac_advisor::passes
