// Optimizers that are one kernel a parameter (passes/optimizer/bitsandbytes.cpp, torchao.cpp); the
// stages of all else are LibTorch's.
#include "trainer/kernels/adamw_8bit.hpp"

#include "passes/optimizer/ops.hpp"
#include "trainer/kernels/aten/aten.hpp"
#include "trainer/kernels/cpu/cpu.hpp"

namespace ac_advisor::trainer::cpu {
namespace {

const adamw_8bit::Operands* operands_of(const Call& c) {
  if (c.op().phase != ir::Phase::optimizer || c.inputs() == 0 ||
      c.attributes<ir::Foreach>().stage >= passes::clip_stages)
    return nullptr;
  return adamw_8bit::operands_of(c.executor().config().optimizer.kind);
}

}  // namespace

void foreach (const Call& c) {
  const adamw_8bit::Operands* operands = operands_of(c);
  if (operands == nullptr) return aten::foreach (c);
  const OptimizerSettings& settings = c.executor().optimizer();
  const std::int64_t step = c.executor().step_number() + 1;  // with this one
  const at::Tensor parameter = c.in(0).view({-1}), gradient = c.in(1).view({-1});
  if (c.inputs() != adamw_8bit::operands_of_bytes) {
    adamw_8bit::update(parameter, gradient, c.in(2), c.in(3), step, settings);
    return;
  }
  const auto bytes = [&](const adamw_8bit::Places& at) {
    return adamw_8bit::Bytes{c.in(at.codes), c.in(at.scales), c.in(at.map)};
  };
  adamw_8bit::update(parameter, gradient, bytes(operands->average), bytes(operands->squares), step,
                     settings, operands->ties);
}

}  // namespace ac_advisor::trainer::cpu
