// torch.nn.utils.clip_grad_norm_ with foreach, PyTorch v2.11, torch/nn/utils/clip_grad.py, and its
// norms, aten/src/ATen/native/cuda/ForeachReduceOp.cu: a partial sum for each chunk of 65536
// elements of the longest tensor, for every tensor, then a scalar a tensor. Of shards the norm of
// all is a partial DTensor, which becomes whole by a functional all_reduce: of a copy.
#include <algorithm>

#include "ac_advisor/passes/pass.hpp"
#include "ops.hpp"

namespace ac_advisor::passes {

OptimizerOps::Values append_clip_factors(OptimizerOps& ops, OptimizerOps::V total) {
  const auto scalar = [&] { return ops.temporary({}, ops.dtype(total)); };
  const OptimizerOps::V shifted = scalar(), inverse = scalar(), coefficient = scalar(),
                        clamped = scalar();
  ops.kernel({total}, {shifted});
  ops.kernel({shifted}, {inverse});  // a reciprocal and a product
  ops.kernel({inverse}, {coefficient});
  ops.kernel({coefficient}, {clamped});
  return {clamped, coefficient};
}

void append_clip_grad(OptimizerOps& ops, bool sharded) {
  constexpr std::int64_t chunk_elements = 65536;
  OptimizerOps::Values gradients, norms;
  std::int64_t chunks = 1;
  DType dtype = DType::f32;
  for (const OptimizedTensor& t : ops.tensors()) {
    if (t.gradient == ir::no_id) continue;
    gradients.push_back(t.gradient);
    dtype = ops.dtype(t.gradient);
    chunks = std::max(chunks, (ops.numel(t.gradient) + chunk_elements - 1) / chunk_elements);
    norms.push_back(ops.temporary({}, dtype));
  }
  if (gradients.empty()) return;
  ops.begin_stages(clip_stages);
  const auto count = static_cast<std::int64_t>(gradients.size());
  const auto scalar = [&] { return ops.temporary({}, dtype); };
  OptimizerOps::Values made{ops.temporary({count * chunks}, DType::f32)};
  made.insert(made.end(), norms.begin(), norms.end());
  ops.stage({&gradients}, made, 1);
  const OptimizerOps::V stacked = ops.temporary({count}, dtype);
  OptimizerOps::V total = scalar();
  ops.op({&norms}, {stacked}, 1);
  ops.kernel({stacked}, {total});
  ops.hold(norms);
  if (sharded) {
    const OptimizerOps::Values part{total}, whole{scalar()};
    ops.op({&part}, whole, 0, ir::OpKind::clone);
    ops.op({&whole}, {}, 0, ir::OpKind::all_reduce);
    total = whole.front();
  }
  const OptimizerOps::Values by = append_clip_factors(ops, total);
  ops.stage({&gradients, &by}, {}, 1);
  ops.hold({total});
}

namespace {

using model::ModelSpec;

/// DeepSpeed clips its partition's gradient inside its own step: sharding/zero.cpp. What is on the
/// host is clipped there: on_host.cpp. FSDP1 has a function of its own: sharding/fsdp1_clip.cpp; of
/// split layers: sharding/tensor_parallel_clip.cpp.
bool applies(const StepConfig& config) {
  return config.optimizer.clip_grad > 0 && !config.layout.zero() && config.layout.tp == 1 &&
         config.layout.shard != Sharding::fsdp1 && config.memory.offload != Offload::parameters;
}

void run(StepProgram& step, const ModelSpec&, const StepConfig& config) {
  OptimizerOps ops(step);
  append_clip_grad(ops, config.layout.gathers());
}

}  // namespace

extern const Pass clip_grad_pass;
const Pass clip_grad_pass{
    "clip-grad", Stage::step, "the norm of all gradients, and its temporaries", applies, run,
    {},          Of::pytorch};

}  // namespace ac_advisor::passes
