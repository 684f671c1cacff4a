// Optimizers that are one kernel a parameter (passes/optimizer/bitsandbytes.cpp, torchao.cpp); the
// stages of all else are LibTorch's.
#include "trainer/kernels/adamw_8bit.hpp"

#include "passes/optimizer/ops.hpp"
#include "trainer/kernels/aten/aten.hpp"
#include "trainer/kernels/cpu/cpu.hpp"

namespace ac_advisor::trainer::cpu {
namespace {

/// Where an op has a moment's codes, scales and map, after the parameter and its gradient.
struct Places {
  std::size_t codes, scales, map;
};
struct Layout {
  Optimizer kind;
  Places average, squares;
  dynamic_map::Ties ties;
};
constexpr Layout layouts[] = {
    {Optimizer::adamw_8bit, {2, 4, 6}, {3, 5, 7}, dynamic_map::Ties::down},
    {Optimizer::adamw_8bit_torchao, {2, 3, 4}, {5, 6, 7}, dynamic_map::Ties::up},
};

const Layout* layout_of(const Call& c) {
  if (c.op().phase != ir::Phase::optimizer || c.inputs() == 0 ||
      c.attributes<ir::Foreach>().stage >= passes::clip_stages)
    return nullptr;
  for (const Layout& layout : layouts)
    if (layout.kind == c.executor().config().optimizer.kind) return &layout;
  return nullptr;
}

}  // namespace

void foreach (const Call& c) {
  const Layout* layout = layout_of(c);
  if (layout == nullptr) return aten::foreach (c);
  const OptimizerSettings& settings = c.executor().optimizer();
  const std::int64_t step = c.executor().step_number() + 1;  // with this one
  const at::Tensor parameter = c.in(0).view({-1}), gradient = c.in(1).view({-1});
  if (c.inputs() == 4) {
    adamw_8bit::update(parameter, gradient, c.in(2), c.in(3), step, settings);
    return;
  }
  const auto bytes = [&](const Places& at) {
    return adamw_8bit::Bytes{c.in(at.codes), c.in(at.scales), c.in(at.map)};
  };
  adamw_8bit::update(parameter, gradient, bytes(layout->average), bytes(layout->squares), step,
                     settings, layout->ties);
}

}  // namespace ac_advisor::trainer::cpu
