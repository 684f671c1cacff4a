#include <doctest/doctest.h>

#include "ac_advisor/ir/op_table.hpp"
#include "ac_advisor/model/options.hpp"
#include "small_model.hpp"

namespace ac_advisor::test {
namespace {

StepConfig adapted(Quantization how = Quantization::none) {
  StepConfig c = small_config();
  c.adapters.rank = 8;
  c.adapters.targets = "all-linear";
  c.adapters.quantize = how;
  return c;
}

double matmul_flops(const StepConfig& config) {
  const passes::StepProgram step = passes::build_step(small_model(), config);
  double total = 0;
  for (const ir::Op& op : step.program.ops)
    if (ir::row(op.kind).cost == ir::CostClass::matmul) total += ir::flops(step.program, op);
  return total;
}

}  // namespace

TEST_CASE("adapters over a frozen base: they alone have gradients and optimizer states") {
  const passes::StepProgram step = passes::build_step(small_model(), adapted());
  std::int64_t trained = 0, frozen = 0;
  for (const passes::Parameter& parameter : step.parameters) {
    (parameter.trained ? trained : frozen) += step.program.value(parameter.value).shape.numel();
    CHECK((parameter.gradient != ir::no_id) == parameter.trained);
  }
  // q, o: 64 to 64; k, v: 64 to 32; gate, up: 64 to 160; down: 160 to 64; rank 8, four blocks
  CHECK(trained == 4 * 8 * (2 * (64 + 64) + 2 * (64 + 32) + 3 * (64 + 160)));
  CHECK(frozen == model::parameter_count(small_model()));
  CHECK(step.optimized.size() == 4 * 7 * 2);
  CHECK(step.optimizer_states.size() == 3 * step.optimized.size());
}

TEST_CASE("quantized layers multiply as much as others do") {
  const double plain = matmul_flops(adapted());
  CHECK(matmul_flops(adapted(Quantization::nf4)) == plain);
  CHECK(matmul_flops(adapted(Quantization::nf4_double)) == plain);
  CHECK(matmul_flops(adapted(Quantization::int8)) == plain);
}

TEST_CASE("a frozen LM head gets no gradient in a chunked loss, ours or Liger's") {
  const model::ModelSpec model = small_model();
  for (const Kernels kernels : {Kernels::eager, Kernels::fused}) {
    StepConfig config = adapted();
    config.memory.loss = LossKind::chunked;
    config.memory.chunk_tokens = 16;
    config.memory.kernels = kernels;
    const passes::StepProgram step = passes::build_step(model, config);
    for (const ir::Value& value : step.program.values) {
      const ir::Shape& s = value.shape;
      const bool of_head = s.rank() == 2 && s[0] == model.vocab && s[1] == model.hidden;
      if (of_head) CHECK(step.program.storage(value.storage).role == ir::Role::parameter);
    }
  }
}

TEST_CASE("a fused rotation has both gradients where only the queries have adapters") {
  // Windows that need a mask: keys are repeated for it, and must need a gradient like the queries.
  const model::ModelSpec model = model::load_model("gemma-3-1b");
  const StepConfig config = resolve_options(
      {{"--lora", "8"}, {"--kernels", "fused"}, {"--seq", "512"}, {"--gpu", "rtx-4090"}});
  const passes::StepProgram step = passes::build_step(model, config);
  int rotations = 0;
  for (const ir::Op& op : step.program.ops)
    if (op.kind == ir::OpKind::rope_backward) {
      ++rotations;
      for (const ir::ValueId v : step.program.inputs(op)) CHECK(v != ir::no_id);
    }
  CHECK(rotations == model.layers);
}

}  // namespace ac_advisor::test
