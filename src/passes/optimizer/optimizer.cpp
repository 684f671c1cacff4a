// The optimizers by name, and the pass that appends the one that is asked for.
#include "optimizer.hpp"

#include <algorithm>
#include <string>

#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/pass.hpp"
#include "ops.hpp"
#include "passes/pytorch_on_gpu.hpp"
#include "passes/sharding/tensor_parallel.hpp"
#include "passes/sharding/zero_on_host.hpp"

namespace ac_advisor::passes {

using ir::OpKind;
using ir::Role;
using ir::ValueId;

OptimizerOps::OptimizerOps(StepProgram& step, bool counters_on_host)
    : s_(step),
      p_(step.program),
      counters_on_host_(counters_on_host),
      group_(step.program.ops.empty() ? 0 : step.program.ops.back().group) {}

OptimizerOps::Values OptimizerOps::gradients(const std::vector<OptimizedTensor>& tensors) {
  Values given;
  auto of = s_.parameters.begin();  // which are in the order of what is optimized
  const auto like_parameter = [&](const OptimizedTensor& t) {
    of = std::find_if(of, s_.parameters.end(),
                      [&](const Parameter& p) { return p.value == t.parameter; });
    return redistributed(s_, *of, t.gradient, s_.redistributes_for, ir::Phase::optimizer,
                         Role::gradient);
  };
  for (const OptimizedTensor& t : tensors)
    if (t.gradient != ir::no_id)
      given.push_back(s_.redistributes_for < 0 ? t.gradient : like_parameter(t));
  if (s_.redistributes_for >= 0 && !p_.ops.empty()) group_ = p_.ops.back().group;
  return given;
}

ValueId OptimizerOps::state(const ir::Shape& shape, DType dtype, V parameter) {
  const V v = p_.make(shape, dtype, Role::optimizer_state, module_of(parameter));
  s_.optimizer_states.push_back(v);
  s_.resident.push_back(v);
  return v;
}

ValueId OptimizerOps::temporary(const ir::Shape& shape, DType dtype) {
  return p_.make(shape, dtype, Role::temporary, {-1, ir::Module::optimizer});
}

void OptimizerOps::op(std::initializer_list<const Values*> reads, const Values& makes,
                      std::int32_t launches, OpKind kind, TensorLists lists) {
  Values in;
  for (const Values* list : reads) in.insert(in.end(), list->begin(), list->end());
  const ir::Attributes attributes =
      kind == OpKind::foreach
          ? ir::Attributes(ir::Foreach{stage_++, launches, lists.count, lists.scalars})
          : ir::Attributes();
  const ir::OpId id =
      p_.emit(kind, ir::Phase::optimizer, {-1, ir::Module::optimizer}, in, makes, attributes);
  p_.op(id).group = ++group_;
}

ValueId OptimizerOps::product(V a, V b, const ir::Shape& shape, std::int64_t inner) {
  const ir::ModulePath module{-1, ir::Module::optimizer};
  const V y = temporary(shape, dtype(a));
  const ir::OpId id = p_.emit(OpKind::mm, ir::Phase::optimizer, module, {a, b}, {y},
                              ir::Product{static_cast<std::int32_t>(inner), ir::Form::nt});
  p_.op(id).group = ++group_;
  return y;
}

ValueId OptimizerOps::product_added_to(V addend, V a, V b, const ir::Shape& shape,
                                       std::int64_t inner) {
  const V y = product(a, b, shape, inner);
  kernel({addend, y}, {});
  return y;
}

/// aten/src/ATen/native/cuda/Reduce.cuh, setReduceConfig: a block of 512 threads takes less than
/// 256 values each; more go to several blocks, whose semaphores are set to zero before.
std::int32_t reduction_launches(std::int64_t elements) {
  constexpr std::int64_t one_block = 512 * 256;
  return elements < one_block ? 1 : 2;
}

void OptimizerOps::hold(const Values& values) { op({&values}, {}, 0, OpKind::hold); }

namespace {

struct Row {
  Optimizer kind;
  void (*append)(OptimizerOps&, const OptimizerChoice&);
};
constexpr Row rows[] = {
    {Optimizer::adamw, append_adamw},
    {Optimizer::adamw_foreach, append_adamw_foreach},
    {Optimizer::sgd, append_sgd},
    {Optimizer::sgd_momentum, append_sgd_momentum},
    {Optimizer::adamw_8bit, append_bitsandbytes},
    {Optimizer::paged_adamw, append_bitsandbytes},
    {Optimizer::paged_adamw_8bit, append_bitsandbytes},
    {Optimizer::lion, append_bitsandbytes},
    {Optimizer::adamw_8bit_torchao, append_torchao_adamw_8bit},
    {Optimizer::adafactor, append_adafactor},
    {Optimizer::muon, append_muon},
};

}  // namespace

void append_optimizer(StepProgram& step, const OptimizerChoice& choice, bool counters_on_host) {
  OptimizerOps ops(step, counters_on_host);
  for (const Row& row : rows)
    if (row.kind == choice.kind) row.append(ops, choice);
}

namespace {

using model::ModelSpec;

/// DeepSpeed's ZeRO 3 steps a sub-group at a time: sharding/zero3.cpp.
bool applies(const StepConfig& config) {
  return !config.optimizer.in_backward && !config.optimizer.master_weights &&
         !config.layout.zero3() && !keeps_states_on_host(config);
}

/// fused keeps its step counters where the parameters are, foreach on the host (capturable=False);
/// the trainer's are the fused ones.
void run(StepProgram& step, const ModelSpec&, const StepConfig& config) {
  if (config.memory.offload == Offload::parameters || zero_on_host(config)) {
    OptimizerOps ops(step);
    append_on_host(ops, config.optimizer);
    return;
  }
  const bool on_host = config.optimizer.kind == Optimizer::adamw_foreach && pytorch_on_gpu(config);
  append_optimizer(step, config.optimizer, on_host);
}

std::string optimizer_option(const StepConfig& c) {
  return std::string("--optimizer ") + to_option(c.optimizer.kind);
}
std::string with_shard(const ModelSpec&, const StepConfig& c) {
  return optimizer_option(c) + " --shard " + shard_option(c);
}
bool of_torch(Optimizer kind) {
  return kind == Optimizer::adamw || kind == Optimizer::adamw_foreach || kind == Optimizer::sgd;
}
bool of_bitsandbytes(Optimizer kind) {
  return kind == Optimizer::adamw_8bit || kind == Optimizer::paged_adamw ||
         kind == Optimizer::paged_adamw_8bit || kind == Optimizer::lion;
}

constexpr Exclusion exclusions_of_optimizer[] = {
    {"--optimizer of another kind than adamw, adamw-foreach or sgd, --shard zero1, zero2 or zero3",
     "the partition of DeepSpeed is planned with these three",
     "use one of them, or --shard ddp or fsdp2",
     [](const ModelSpec&, const StepConfig& c) {
       return c.layout.zero() && !of_torch(c.optimizer.kind);
     },
     with_shard},
    {"--optimizer adamw-8bit, paged-adamw, paged-adamw-8bit or lion, --shard fsdp2 or hsdp:N",
     "bitsandbytes 0.50 has no kernels for DTensors: its step ends with PyTorch's error",
     "use adamw-8bit-torchao, or --shard ddp",
     [](const ModelSpec&, const StepConfig& c) {
       return c.layout.gathers() && of_bitsandbytes(c.optimizer.kind);
     },
     with_shard},
    {"--optimizer muon, --shard fsdp2 or hsdp:N",
     "DTensor multiplies shards as its own estimate of costs has it: in each Newton-Schulz "
     "iteration "
     "small matrices are gathered whole three times, of large ones parts are exchanged, reduced "
     "and "
     "gathered; which, by size and mesh, is not planned yet",
     "use --shard ddp, or --optimizer adamw",
     [](const ModelSpec&, const StepConfig& c) {
       return c.layout.gathers() && c.optimizer.kind == Optimizer::muon;
     },
     with_shard},
    {"--optimizer muon --grad-scaler", "two optimizers under one scaler are not planned yet",
     "use --optimizer adamw",
     [](const ModelSpec&, const StepConfig& c) {
       return c.optimizer.grad_scaler && c.optimizer.kind == Optimizer::muon;
     }},
    {"--optimizer adafactor, --shard fsdp2 or hsdp:N",
     "transformers' Adafactor takes means over rows and columns, which a shard cuts",
     "use adamw-8bit-torchao, or --shard ddp",
     [](const ModelSpec&, const StepConfig& c) {
       return c.layout.gathers() && c.optimizer.kind == Optimizer::adafactor;
     },
     with_shard},
};

}  // namespace

extern const Pass optimizer_pass;
const Pass optimizer_pass{"optimizer", Stage::step, "its state, and its ops at the end",
                          applies,     run,         exclusions_of_optimizer,
                          Of::pytorch};

}  // namespace ac_advisor::passes
