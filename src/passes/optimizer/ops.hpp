#pragma once

#include <initializer_list>
#include <vector>

#include "ac_advisor/model/step_config.hpp"
#include "ac_advisor/passes/step_program.hpp"

namespace ac_advisor::passes {

/// Tensor lists that a multi-tensor kernel walks along together, and whether each tensor has a
/// scalar of its own. 0: what is on the host.
struct TensorLists {
  std::int32_t count = 0;
  bool scalars = false;
};

/// Where the stages of clip_grad_norm_ begin: those of an optimizer, which follow it, at 0.
inline constexpr std::int32_t clip_stages = 100;
/// They are, in this order; squares and roots once for each dimension that norms are summed over.
enum class ClipStage : std::int32_t {
  zeros = clip_stages,
  norms,
  sums,
  divide,
  stack,
  square,
  root,
  norm,
  shift,
  invert,
  coefficient,
  clamp,
  scale
};

/// What an optimizer is written with: states that stay, temporaries, and ops one after the other at
/// the step's end. One file an optimizer, one row of optimizer.cpp's table.
class OptimizerOps {
 public:
  using V = ir::ValueId;
  using Values = std::vector<V>;

  /// `counters_on_host`: of steps, one a tensor; otherwise they are states of the device.
  explicit OptimizerOps(StepProgram& step, bool counters_on_host = false);

  [[nodiscard]] bool counters_on_host() const { return counters_on_host_; }

  [[nodiscard]] ir::Program& program() { return p_; }
  /// The gradient scaler's: whether a gradient was not finite.
  [[nodiscard]] V found_inf() const { return s_.found_inf; }
  [[nodiscard]] const std::vector<OptimizedTensor>& tensors() const { return s_.optimized; }
  [[nodiscard]] ir::Shape shape(V v) const { return p_.value(v).shape; }
  [[nodiscard]] std::int64_t numel(V v) const { return p_.value(v).shape.numel(); }
  [[nodiscard]] DType dtype(V v) const { return p_.value(v).dtype; }
  /// The module of a parameter.
  [[nodiscard]] ir::ModulePath module_of(V parameter) const {
    return p_.storage(p_.storage_of(parameter)).module;
  }

  /// The gradients of these as an op is handed them: DTensors of another layout than their
  /// parameters' are redistributed for each.
  Values gradients(const std::vector<OptimizedTensor>& tensors);
  /// Exists from the first step's end on; counted with `parameter`'s module.
  V state(const ir::Shape& shape, DType dtype, V parameter);
  V temporary(const ir::Shape& shape, DType dtype);
  /// Each reads all of `reads` and makes `makes`; both live while it runs. `stage` counts on.
  void op(std::initializer_list<const Values*> reads, const Values& makes,
          std::int32_t launches = 0, ir::OpKind kind = ir::OpKind::foreach, TensorLists lists = {});
  /// A stage of a foreach optimizer.
  void stage(std::initializer_list<const Values*> reads, const Values& makes, std::int32_t lists,
             bool scalars = false) {
    op(reads, makes, 0, ir::OpKind::foreach, {lists, scalars});
  }
  /// One kernel on these.
  void kernel(const Values& reads, const Values& makes) { op({&reads}, makes, 1); }
  /// a · bᵀ or a · b in bf16: `inner` multiply-adds an element.
  V product(V a, V b, const ir::Shape& shape, std::int64_t inner);
  /// addend + a · b by addmm, which copies a matrix that is added to its output first.
  V product_added_to(V addend, V a, V b, const ir::Shape& shape, std::int64_t inner);
  /// Locals that live until here.
  void hold(const Values& values);
  /// The next op's stage.
  void begin_stages(std::int32_t first) { stage_ = first; }
  /// A profiler range: Optimizer.step's.
  void range() { op({}, {}, 0, ir::OpKind::record_function); }

 private:
  StepProgram& s_;
  ir::Program& p_;
  bool counters_on_host_;
  std::int32_t group_;
  std::int32_t stage_ = 0;
};

/// Launches of a reduction of so many elements to one.
[[nodiscard]] std::int32_t reduction_launches(std::int64_t elements);

void append_adamw(OptimizerOps& ops, const OptimizerChoice& choice);
/// Of these alone.
void append_adamw_of(OptimizerOps& ops, const std::vector<OptimizedTensor>& tensors,
                     const OptimizerChoice& choice);
void append_muon(OptimizerOps& ops, const OptimizerChoice& choice);
void append_adamw_foreach(OptimizerOps& ops, const OptimizerChoice& choice);
void append_sgd(OptimizerOps& ops, const OptimizerChoice& choice);
void append_sgd_of(OptimizerOps& ops, const std::vector<OptimizedTensor>& tensors);
void append_sgd_momentum(OptimizerOps& ops, const OptimizerChoice& choice);
void append_bitsandbytes(OptimizerOps& ops, const OptimizerChoice& choice);
void append_torchao_adamw_8bit(OptimizerOps& ops, const OptimizerChoice& choice);
void append_adafactor(OptimizerOps& ops, const OptimizerChoice& choice);

/// Of tensors that are the host's (--offload parameters), and whether that is planned.
void append_on_host(OptimizerOps& ops, const OptimizerChoice& choice);
[[nodiscard]] bool steps_on_host(Optimizer kind);
/// Of one tensor whose parameter, gradient and states the host has.
void step_on_host(OptimizerOps& ops, const OptimizedTensor& tensor, const OptimizerChoice& choice);
[[nodiscard]] int states_on_host(Optimizer kind);
/// Whether the host has states alone, and copies of parameters and gradients (--offload optimizer
/// and gradients).
[[nodiscard]] bool keeps_states_on_host(const StepConfig& config);

}  // namespace ac_advisor::passes
