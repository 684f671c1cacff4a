// FullyShardedDataParallel.clip_grad_norm_, PyTorch v2.11, fully_sharded_data_parallel.py: a norm
// in fp32 of each part of a gradient, one of all, its square reduced; then each part is multiplied.
#include "ac_advisor/passes/pass.hpp"
#include "passes/optimizer/ops.hpp"

namespace ac_advisor::passes {
namespace {

using ir::OpKind;
using V = OptimizerOps::V;
using Values = OptimizerOps::Values;

bool applies(const StepConfig& config) {
  return config.layout.shard == Sharding::fsdp1 && config.optimizer.clip_grad > 0;
}

/// _get_grad_norm, by torch.linalg.vector_norm.
V local_norm(OptimizerOps& ops, const Values& gradients) {
  Values norms;
  for (V gradient : gradients) {
    norms.push_back(ops.temporary({}, DType::f32));
    const Values read{gradient};
    ops.op({&read}, {norms.back()}, reduction_launches(ops.numel(gradient)));
  }
  const V stacked = ops.temporary({static_cast<std::int64_t>(norms.size())}, DType::f32);
  ops.op({&norms}, {stacked}, 1);
  const V norm = ops.temporary({}, DType::f32);
  ops.kernel({stacked}, {norm});
  return norm;
}

void all_reduce(StepProgram& step, V v) {
  ir::Program& p = step.program;
  p.emit(OpKind::all_reduce, ir::Phase::optimizer, {-1, ir::Module::optimizer}, {v}, {});
  p.ops.back().group = p.ops[p.ops.size() - 2].group;
}

/// With CPUOffload norms are taken, and parts multiplied, on the host: on_host.cpp. What ranks
/// reduce comes to the device for it, as their group is NCCL's.
void reduce_norm_of_host(StepProgram& step) {
  OptimizerOps ops(step);
  ops.begin_stages(clip_stages);
  const V zero = ops.temporary({}, DType::f32), norm = ops.temporary({}, DType::f32),
          squared = ops.temporary({}, DType::f32), root = ops.temporary({}, DType::f32);
  ops.op({}, {zero, norm}, 0, OpKind::empty);
  const Values sent{norm};
  ops.op({&sent}, {}, 0, OpKind::copy_from_host);
  ops.kernel({norm}, {squared});  // ** 2
  all_reduce(step, squared);
  ops.kernel({squared}, {root});  // ** (1 / 2)
  const Values read{root};
  ops.op({&read}, {}, 0, OpKind::copy_to_host);  // .cpu()
  ops.hold({zero, norm});
}

void run(StepProgram& step, const model::ModelSpec&, const StepConfig& config) {
  if (config.memory.offload == Offload::parameters) return reduce_norm_of_host(step);
  Values gradients;
  for (const OptimizedTensor& t : step.optimized)
    if (t.gradient != ir::no_id) gradients.push_back(t.gradient);
  if (gradients.empty()) return;
  V scalar{};
  const auto next = [&](OptimizerOps& ops) {
    const V made = ops.temporary({}, DType::f32);
    ops.kernel({scalar}, {made});
    scalar = made;
  };
  V zero{};  // what a rank without gradients would give
  {
    OptimizerOps ops(step);
    ops.begin_stages(clip_stages);
    zero = ops.temporary({}, DType::f32);
    ops.op({}, {zero}, 0, OpKind::empty);
    scalar = local_norm(ops, gradients);
    next(ops);  // ** 2
  }
  all_reduce(step, scalar);
  OptimizerOps ops(step);
  // ** (1 / 2), + 1e-6, max_norm / it: a reciprocal and a product, clamp
  for (int i = 0; i < 5; ++i) next(ops);
  for (V gradient : gradients) {
    V factor = scalar;
    if (ops.dtype(gradient) != DType::f32) {
      factor = ops.temporary({}, ops.dtype(gradient));
      ops.kernel({scalar}, {factor});
    }
    ops.kernel({gradient, factor}, {});
  }
  const DType dtype = ops.dtype(gradients.front());  // of what is returned
  if (dtype != DType::f32) ops.kernel({scalar}, {ops.temporary({}, dtype)});
  ops.hold({zero});
}

}  // namespace

extern const Pass fsdp1_clip_pass;
const Pass fsdp1_clip_pass{
    "fsdp1-clip", Stage::step, "fsdp1: the norm of all gradients, by parts of parameters",
    applies,      run,         {},
    Of::pytorch};

}  // namespace ac_advisor::passes
