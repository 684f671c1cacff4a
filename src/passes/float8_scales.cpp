// torchao 0.18, float8/fsdp_utils.py: precompute_float8_dynamic_scale_for_fsdp, after the
// optimizer's step: the largest magnitudes of all shards that are gathered in fp8, one all-reduce
// of them, and what the next step's casts multiply by.
#include <algorithm>

#include "ac_advisor/passes/pass.hpp"
#include "passes/optimizer/ops.hpp"

namespace ac_advisor::passes {
namespace {

bool applies(const StepConfig& config) { return config.precision.fp8_all_gather; }

void run(StepProgram& step, const model::ModelSpec&, const StepConfig& config) {
  constexpr std::int64_t chunk_elements = 65536;  // ForeachReduceOp.cu: a partial norm each
  OptimizerOps ops(step);
  OptimizerOps::Values weights, norms;
  std::int64_t chunks = 1;
  const DType dtype = config.precision.param_dtype;
  for (const Parameter& parameter : step.parameters) {
    if (step.program.value(parameter.value).dtype != DType::f8) continue;
    weights.push_back(parameter.stored);
    norms.push_back(ops.temporary({}, dtype));
    chunks = std::max(chunks, (ops.numel(parameter.stored) + chunk_elements - 1) / chunk_elements);
  }
  if (weights.empty()) return;
  const auto count = static_cast<std::int64_t>(weights.size());
  // foreach_tensor_norm_cuda: zeros for partial norms, those, and a norm of each tensor's
  const OptimizerOps::Values partial{ops.temporary({count * chunks}, DType::f32)};
  ops.kernel({}, partial);
  ops.stage({&weights, &partial}, {}, 1);
  ops.op({&partial}, norms, 1);
  const OptimizerOps::V stacked = ops.temporary({count}, dtype),
                        reduced = ops.temporary({count}, dtype);
  ops.op({&norms}, {stacked}, 1);
  ops.hold(norms);
  ops.op({}, {reduced}, 2);  // a functional all-reduce, of a copy
  if (config.layout.tp > 1)  // and over the ranks of a layer
    ops.op({}, {ops.temporary({count}, dtype)}, 2);
  OptimizerOps::V last = reduced;
  // a clamp, to fp64, its reciprocal, times 448, to fp32
  for (const DType type : {dtype, DType::i64, DType::i64, DType::i64, DType::f32}) {
    const OptimizerOps::V next = ops.temporary({count}, type);
    ops.kernel({last}, {next});
    last = next;
  }
}

}  // namespace

extern const Pass float8_scales_pass;
const Pass float8_scales_pass{
    "float8-scales", Stage::step, "the scales by which the next step gathers weights in fp8",
    applies,         run,         {}};

}  // namespace ac_advisor::passes
