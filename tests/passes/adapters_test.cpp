#include <doctest/doctest.h>

#include "ac_advisor/ir/op_table.hpp"
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

}  // namespace ac_advisor::test
