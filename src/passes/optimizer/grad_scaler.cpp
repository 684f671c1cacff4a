// torch.amp.GradScaler, PyTorch v2.11, torch/amp/grad_scaler.py: the scale and its growth tracker
// stay; the loss is multiplied; all gradients of a dtype are checked, and unscaled unless the fused
// optimizer does it, by one multi-tensor op; the scale is updated after the step.
#include "grad_scaler.hpp"

#include <algorithm>
#include <string>

#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/pass.hpp"
#include "ops.hpp"

namespace ac_advisor::passes {

using ir::ModulePath;
using ir::OpKind;
using ir::Phase;
using ir::ValueId;
using model::ModelSpec;

void scale_loss(StepProgram& step) {
  ir::Program& p = step.program;
  const ModulePath module{-1, ir::Module::loss};
  const ValueId loss = step.loss;
  step.loss = p.make({}, DType::f32, ir::Role::activation, module, true);
  p.emit(OpKind::mul, Phase::loss, module, {loss, step.scale}, {step.loss});
}

namespace {

bool applies(const StepConfig& config) { return config.optimizer.grad_scaler; }

/// _lazy_init_scale_growth_tracker
void declare(StepProgram& step, const ModelSpec&, const StepConfig&) {
  const auto make = [&](DType dtype) {
    const ValueId v =
        step.program.make({}, dtype, ir::Role::buffer, {-1, ir::Module::optimizer}, false);
    step.resident.push_back(v);
    return v;
  };
  step.scale = make(DType::f32);
  make(DType::i32);
}

/// _step_supports_amp_scaling: their kernels are given scale and found_inf.
bool fused(const StepConfig& c) {
  return c.optimizer.kind == Optimizer::adamw || c.optimizer.kind == Optimizer::sgd;
}

/// Gradients of one dtype after the other.
void check(OptimizerOps& ops) {
  std::vector<DType> done;
  for (const OptimizedTensor& one : ops.tensors()) {
    if (one.gradient == ir::no_id) continue;
    const DType dtype = ops.dtype(one.gradient);
    if (std::find(done.begin(), done.end(), dtype) != done.end()) continue;
    done.push_back(dtype);
    OptimizerOps::Values gradients;
    for (const OptimizedTensor& t : ops.tensors())
      if (t.gradient != ir::no_id && ops.dtype(t.gradient) == dtype)
        gradients.push_back(t.gradient);
    ops.stage({&gradients}, {}, 1);  // _amp_foreach_non_finite_check_and_unscale_
  }
}

/// found_inf_reduce_handler (torch/distributed/tensor/_dispatch.py): the largest of all ranks, by a
/// functional collective, copied back.
void reduce_found_inf(StepProgram& step, OptimizerOps& ops) {
  const ValueId all = ops.temporary({}, DType::f32);
  ops.kernel({step.found_inf}, {all});
  step.program.emit(OpKind::all_reduce, Phase::optimizer, {-1, ir::Module::optimizer}, {all}, {});
  step.program.ops.back().group = step.program.ops[step.program.ops.size() - 2].group;
  OptimizerOps(step).kernel({all}, {});
}

/// unscale_, or what step() does of it where the optimizer unscales: _check_inf_per_device.
void unscale(StepProgram& step, const ModelSpec&, const StepConfig& config) {
  const bool unscales = !fused(config) || config.optimizer.clip_grad > 0;
  ValueId inverse{}, found{};
  {
    OptimizerOps ops(step);
    const auto scalar = [&] { return ops.temporary({}, DType::f32); };
    inverse = scalar();
    if (unscales) {  // scale.double().reciprocal().float(); a double is two fp32
      const ValueId wide = ops.temporary({2}, DType::f32), one_by = ops.temporary({2}, DType::f32);
      ops.kernel({step.scale}, {wide});
      ops.kernel({wide}, {one_by});
      ops.kernel({one_by}, {inverse});
    } else {
      ops.kernel({}, {inverse});
    }
    found = scalar();
    ops.kernel({}, {found});
    // _MultiDeviceReplicator.get: .to(device, copy=True)
    step.found_inf = scalar();
    ops.kernel({found}, {step.found_inf});
    const ValueId here = scalar();
    ops.kernel({inverse}, {here});
    check(ops);
    ops.hold({found, inverse, here});
    if (config.layout.gathers()) reduce_found_inf(step, ops);
  }
  if (!fused(config)) return;
  OptimizerOps ops(step);
  const ValueId sum = ops.temporary({}, DType::f32);
  ops.kernel({step.found_inf}, {sum});  // sum([found_inf]): 0 + it
  if (!unscales) ops.kernel({step.scale}, {ops.temporary({}, DType::f32)});  // scale * 1
}

/// _amp_update_scale_
void update(StepProgram& step, const ModelSpec&, const StepConfig&) {
  OptimizerOps ops(step);
  ops.kernel({step.scale, step.found_inf}, {});
}

bool in_fp16(const StepConfig& c) {
  return c.precision.compute_dtype == DType::f16 || c.precision.param_dtype == DType::f16;
}
std::string fp16_option(const StepConfig& c) {
  if (c.precision.autocast) return std::string("--autocast ") + autocast_option(c);
  if (c.precision.param_dtype == DType::f16) return "--param-dtype fp16";
  return in_fp16(c) ? "--compute-dtype fp16" : "--grad-scaler";
}

constexpr Exclusion exclusions_of_fp16[] = {
    {"--param-dtype fp16 --compute-dtype bf16, or bf16 and fp16",
     "casts between two dtypes of 16 bits gain nothing",
     "give both the same, or --param-dtype fp32",
     [](const ModelSpec&, const StepConfig& c) {
       return is_half(c.precision.param_dtype) && is_half(c.precision.compute_dtype) &&
              c.precision.param_dtype != c.precision.compute_dtype;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return std::string("--param-dtype ") + to_option(c.precision.param_dtype) +
              (c.precision.autocast
                   ? std::string(" --autocast ") + autocast_option(c)
                   : std::string(" --compute-dtype ") + to_option(c.precision.compute_dtype));
     }},
    {"--grad-scaler --param-dtype fp16",
     "torch.amp.GradScaler refuses gradients in fp16 (\"Attempting to unscale FP16 gradients.\")",
     "use --autocast fp16, over fp32 parameters, or --no-grad-scaler",
     [](const ModelSpec&, const StepConfig& c) {
       return applies(c) && c.precision.param_dtype == DType::f16 && !c.adapters.used();
     }},
    {"--grad-scaler --lora RANK --lora-dtype bf16",
     "torch.amp.GradScaler has no kernel that checks gradients in bf16",
     "use --lora-dtype fp32, or --no-grad-scaler",
     [](const ModelSpec&, const StepConfig& c) {
       return applies(c) && c.adapters.used() && c.adapters.dtype == DType::bf16;
     }},
    {"--grad-scaler or fp16, --shard zero1, zero2 or zero3",
     "DeepSpeed has a loss scaler of its own, whose check widens the partition's gradients: not "
     "planned yet",
     "use bf16, or --shard ddp or fsdp2",
     [](const ModelSpec&, const StepConfig& c) {
       return c.layout.zero() && (applies(c) || in_fp16(c));
     },
     [](const ModelSpec&, const StepConfig& c) {
       return fp16_option(c) + " --shard " + shard_option(c);
     }},
    {"--grad-scaler --optimizer-in-backward", "it checks all gradients before the step",
     "drop one of them",
     [](const ModelSpec&, const StepConfig& c) { return applies(c) && c.optimizer.in_backward; }},
    {"--grad-scaler, --pp N or --tp T",
     "whose loss is scaled in a pipeline, and how DTensors of two dimensions are checked, is not "
     "planned yet",
     "use --no-grad-scaler, or bf16",
     [](const ModelSpec&, const StepConfig& c) {
       return applies(c) && (c.layout.pp > 1 || c.layout.tp > 1);
     },
     [](const ModelSpec&, const StepConfig& c) {
       return c.layout.pp > 1 ? "--grad-scaler --pp " + std::to_string(c.layout.pp)
                              : "--grad-scaler --tp " + std::to_string(c.layout.tp);
     }},
    {"--grad-scaler --cuda-graph", "the host reads whether gradients were finite",
     "use --no-grad-scaler, or leave --cuda-graph out",
     [](const ModelSpec&, const StepConfig& c) {
       return applies(c) && c.runtime.cuda_graph != CudaGraph::off;
     }},
    {"fp16 --quantize HOW", "what bitsandbytes computes in is planned as bf16",
     "use bf16, or --quantize none",
     [](const ModelSpec&, const StepConfig& c) {
       return in_fp16(c) && c.adapters.quantize != Quantization::none;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return fp16_option(c) + " --quantize " + to_option(c.adapters.quantize);
     }},
    {"fp16, a mixture of experts", "PyTorch's grouped product is one kernel in bf16 alone",
     "use bf16",
     [](const ModelSpec& m, const StepConfig& c) {
       return in_fp16(c) && m.moe && !m.moe->every_expert;
     },
     [](const ModelSpec& m, const StepConfig& c) { return fp16_option(c) + " for " + m.family; }},
    {"--grad-scaler or fp16, ac-trainer", "planned for PyTorch, not run by the trainer",
     "use bf16 or fp32",
     [](const ModelSpec&, const StepConfig& c) {
       return c.runtime.kind == Runtime::ac_trainer && (applies(c) || in_fp16(c));
     },
     [](const ModelSpec&, const StepConfig& c) { return fp16_option(c); }},
    {"--grad-scaler or fp16, an imported graph", "its dtypes and its loss are those of its capture",
     "leave it out",
     [](const ModelSpec& m, const StepConfig& c) {
       return m.graph != nullptr && (applies(c) || in_fp16(c));
     },
     [](const ModelSpec&, const StepConfig& c) {
       return fp16_option(c) + " of an imported graph";
     }},
};

}  // namespace

extern const Pass grad_scaler_pass, unscale_pass, update_scale_pass;
const Pass grad_scaler_pass{"grad-scaler", Stage::before, "fp16: the loss's scale",
                            applies,       declare,       {}};
const Pass unscale_pass{"unscale",  Stage::step, "fp16: gradients checked and unscaled",
                        applies,    unscale,     exclusions_of_fp16,
                        Of::pytorch};
const Pass update_scale_pass{
    "update-scale", Stage::step, "fp16: the loss's scale for the next step", applies, update, {},
    Of::pytorch};

}  // namespace ac_advisor::passes
