// Megatron-core's DistributedDataParallel and its optimizers (core_v0.16: distributed/
// param_and_grad_buffer.py, optimizer/optimizer.py, optimizer/distrib_optimizer.py): fp32 main
// gradients in one buffer that stays, to which each micro-batch's are added; fp32 masters and
// moments, of all parameters, or with --use-distributed-optimizer (zero1) of this rank's part.
#include <numeric>

#include "ac_advisor/passes/pass.hpp"
#include "passes/optimizer/ops.hpp"
#include "passes/optimizer/optimizer.hpp"
#include "passes/sharding/gradient_hooks.hpp"

namespace ac_advisor::passes {
namespace {

using ir::no_id;
using ir::OpKind;
using ir::Role;
using ir::ValueId;
using model::ModelSpec;

bool always(const StepConfig&) { return true; }
bool distributed(const StepConfig& c) { return c.layout.shard == Sharding::zero1; }

std::int64_t rounded_up(std::int64_t n, std::int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

/// Ranks of an instance of the distributed optimizer, of which each has a part of the buffer.
std::int64_t parts_of(const Layout& layout, bool experts) {
  return experts ? layout.expert_replicas() / layout.optimizer_instances : layout.instance_ranks();
}

/// Where each parameter stands in the buffers, which begin with the last one. The distributed
/// optimizer begins each at a multiple of 64, and the buffer is one of 128 and of its ranks.
struct Places {
  std::vector<std::int64_t> begin;
  std::int64_t elements = 0;
};

/// Of experts that not all data-parallel ranks have, or of all other parameters.
Places places_of(const StepProgram& step, const StepConfig& c, bool experts) {
  Places places;
  places.begin.resize(step.parameters.size());
  for (std::size_t i = step.parameters.size(); i-- > 0;) {
    if (step.parameters[i].expert != experts) continue;
    if (distributed(c)) places.elements = rounded_up(places.elements, 64);
    places.begin[i] = places.elements;
    places.elements += step.program.value(step.parameters[i].value).shape.numel();
  }
  if (distributed(c))
    places.elements = rounded_up(places.elements, std::lcm(parts_of(c.layout, experts), 128));
  return places;
}

/// arguments.py: --fp16 alone accumulates in fp16; --bf16 always in fp32.
DType main_gradients(const StepConfig& c) {
  const bool half =
      c.precision.compute_dtype == DType::f16 && c.precision.reduce_dtype == DType::f16;
  return half ? DType::f16 : DType::f32;
}

void make_buffers(StepProgram& step, const ModelSpec&, const StepConfig& c) {
  ir::Program& p = step.program;
  const Places places[] = {places_of(step, c, false), places_of(step, c, true)};
  ValueId all[] = {no_id, no_id};
  for (const int kind : {0, 1}) {
    if (places[kind].elements == 0) continue;
    all[kind] =
        p.make({places[kind].elements}, main_gradients(c), Role::gradient, {-1, ir::Module::root});
    step.resident.push_back(all[kind]);
  }
  for (std::size_t i = 0; i < step.parameters.size(); ++i) {
    Parameter& parameter = step.parameters[i];
    parameter.stored = parameter.value;
    parameter.optimized = i;
    step.resident.push_back(parameter.value);
    const ir::Shape shape = p.value(parameter.value).shape;
    const int kind = parameter.expert ? 1 : 0;
    step.optimized.push_back(
        {parameter.value,
         p.reshape(p.narrow(all[kind], 0, places[kind].begin[i], shape.numel()), shape)});
  }
}

/// The hook of each parameter: param.main_grad.add_(param.grad.data).
class MainGradients final : public GradientHooks {
 public:
  using GradientHooks::GradientHooks;

 private:
  void on_gradient(std::size_t parameter, ValueId gradient) override {
    const ValueId main = s_.optimized[s_.parameters[parameter].optimized].gradient;
    emit(OpKind::accumulate_inplace, s_.parameters[parameter].module, {main, gradient}, {});
  }
};

void add_gradients(StepProgram& step, const ModelSpec&, const StepConfig& c) {
  MainGradients(step, c).rewrite();
}

void run_collective(ir::Program& p, OpKind kind, const std::vector<ValueId>& inputs) {
  const std::int32_t group = p.ops.back().group + 1;
  p.emit(kind, ir::Phase::optimizer, {-1, ir::Module::optimizer}, inputs, std::vector<ValueId>{});
  p.ops.back().group = group;
}

/// finalize_model_grads: sums over the ranks that have the same parameters, in the buffer; with
/// zero1 each rank's part of it over its instance, then over the instances.
void reduce_gradients(ir::Program& p, ValueId all, const Layout& layout, bool experts) {
  if ((experts ? layout.expert_replicas() : layout.replica_ranks()) < 2) return;
  if (layout.shard != Sharding::zero1) return run_collective(p, OpKind::all_reduce, {all});
  const std::int64_t ranks = parts_of(layout, experts);
  if (ranks > 1) run_collective(p, OpKind::reduce_scatter, {all});
  if (layout.optimizer_instances > 1)
    run_collective(p, OpKind::all_reduce,
                   {p.narrow(all, 0, 0, p.value(all).shape.numel() / ranks)});
}

/// _copy_model_grads_to_main_grads: param.main_grad.float(), which lives until the next step's
/// zero_grad; of the distributed optimizer this rank's part.
OptimizerOps::Values widen_gradients(StepProgram& step) {
  OptimizerOps ops(step);
  OptimizerOps::Values made;
  for (OptimizedTensor& t : step.optimized) {
    const ValueId wide = ops.temporary(ops.shape(t.gradient), DType::f32);
    ops.kernel({t.gradient}, {wide});
    t.gradient = wide;
    made.push_back(wide);
  }
  return made;
}

/// MixedPrecisionOptimizer._unscale_main_grads_and_check_for_nan: one kernel a list, and the
/// largest found_inf of all ranks; DynamicGradScaler.inv_scale is made anew.
void unscale(StepProgram& step) {
  OptimizerOps ops(step);
  OptimizerOps::Values gradients;
  for (const OptimizedTensor& t : step.optimized) gradients.push_back(t.gradient);
  const ValueId wide = ops.temporary({2}, DType::f32);  // a double
  ops.kernel({step.scale}, {wide});
  ops.kernel({wide}, {});
  const ValueId inverse = ops.temporary({}, DType::f32);
  ops.kernel({wide}, {inverse});
  ops.stage({&gradients}, {}, 1);
  ops.hold({inverse});
}

/// _allreduce_non_tensor_model_parallel_grads: gradients of this rank's tokens, of what every rank
/// of a layer has, are joined, summed over them, and copied back. The schedule's last act, after
/// the sums over replicas, which hold nothing: planned before them.
void sum_partial_gradients(StepProgram& step, const StepConfig& c) {
  ir::Program& p = step.program;
  const std::size_t first = p.ops.size();
  OptimizerOps ops(step);
  OptimizerOps::Values partial;
  std::int64_t elements = 0;
  for (std::size_t i = 0; i < step.parameters.size(); ++i) {
    if (!step.parameters[i].partial) continue;
    partial.push_back(step.optimized[i].gradient);
    elements += ops.numel(partial.back());
  }
  if (partial.empty()) return;
  const OptimizerOps::Values joined{ops.temporary({elements}, main_gradients(c))};
  ops.op({&partial}, joined, 1);
  run_collective(p, OpKind::tp_all_reduce, joined);
  ops.op({&joined, &partial}, {}, static_cast<std::int32_t>(partial.size()));
  for (std::size_t i = first; i < p.ops.size(); ++i) p.ops[i].phase = ir::Phase::backward;
}

/// Masters and moments. Of the distributed optimizer this rank has an equal part of the buffer.
void optimize(StepProgram& step, const ModelSpec&, const StepConfig& c) {
  ir::Program& p = step.program;
  std::vector<OptimizedTensor> masters;
  std::vector<ValueId> parameters;
  const auto master = [&](const ir::Shape& shape, ir::ModulePath module, ValueId gradient) {
    const ValueId v = p.make(shape, DType::f32, Role::optimizer_state, module);
    step.resident.push_back(v);
    masters.push_back({v, gradient});
  };
  for (const Parameter& parameter : step.parameters) parameters.push_back(parameter.value);
  ValueId buffers[] = {no_id, no_id};  // of experts the second
  for (std::size_t i = 0; i < step.parameters.size(); ++i)
    buffers[step.parameters[i].expert ? 1 : 0] = p.root(step.optimized[i].gradient);
  sum_partial_gradients(step, c);
  for (const bool experts : {false, true}) {
    const ValueId all = buffers[experts ? 1 : 0];
    if (all == no_id) continue;
    reduce_gradients(p, all, c.layout, experts);
    if (!distributed(c)) continue;
    const std::int64_t own = p.value(all).shape.numel() / parts_of(c.layout, experts);
    master({own}, {-1, ir::Module::optimizer}, p.narrow(all, 0, 0, own));
  }
  if (!distributed(c)) {
    for (std::size_t i = 0; i < step.parameters.size(); ++i)
      master(p.value(step.parameters[i].value).shape, step.parameters[i].module,
             step.optimized[i].gradient);
  }
  step.optimized = std::move(masters);
  OptimizerOps::Values widened;
  if (main_gradients(c) != DType::f32) widened = widen_gradients(step);
  if (c.optimizer.grad_scaler) unscale(step);
  OptimizerOps::Values gradients;
  for (const OptimizedTensor& t : step.optimized) gradients.push_back(t.gradient);
  if (c.optimizer.clip_grad > 0) {
    OptimizerOps ops(step);
    const OptimizerOps::V norm = ops.temporary({}, DType::f32);
    ops.stage({&gradients}, {norm}, 1);  // multi_tensor_l2norm
    ops.stage({&gradients}, {}, 1);      // multi_tensor_scale
  }
  append_optimizer(step, c.optimizer, true);
  OptimizerOps ops(step);
  ops.stage({&parameters}, {}, 2);  // the masters, narrowed into the parameters
  if (distributed(c)) run_collective(p, OpKind::all_gather, parameters);
  if (!widened.empty()) OptimizerOps(step).hold(widened);
}

}  // namespace

extern const Pass megatron_buffers_pass, megatron_gradients_pass, megatron_optimizer_pass;
const Pass megatron_buffers_pass{"megatron-buffers",
                                 Stage::before,
                                 "megatron: the buffer that holds all main gradients, in fp32",
                                 always,
                                 make_buffers,
                                 {},
                                 Of::megatron};
const Pass megatron_gradients_pass{"megatron-gradients",
                                   Stage::micro_batch,
                                   "megatron: gradients are added to the main ones and dropped",
                                   always,
                                   add_gradients,
                                   {},
                                   Of::megatron};
const Pass megatron_optimizer_pass{"megatron-optimizer",
                                   Stage::step,
                                   "megatron: fp32 masters and moments, whole or this rank's part",
                                   always,
                                   optimize,
                                   {},
                                   Of::megatron};

}  // namespace ac_advisor::passes
