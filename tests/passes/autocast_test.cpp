// What autocast and the training loop's options add to a step, counted by hand.
#include <doctest/doctest.h>

#include <algorithm>

#include "ac_advisor/ir/op_table.hpp"
#include "ac_advisor/passes/passes.hpp"
#include "ac_advisor/passes/schedule.hpp"
#include "small_model.hpp"

namespace ac_advisor::test {
namespace {

using ir::OpKind;
using ir::Phase;

StepConfig autocast_config() {
  StepConfig c = small_config();
  c.precision.autocast = true;
  c.precision.param_dtype = DType::f32;
  return c;
}

bool is_parameter(const ir::Program& p, ir::ValueId v) {
  return p.storage(p.storage_of(v)).role == ir::Role::parameter;
}

/// Casts of parameters in one phase.
std::vector<ir::OpId> weight_casts(const passes::StepProgram& step, Phase phase) {
  std::vector<ir::OpId> casts;
  const ir::Program& p = step.program;
  for (std::size_t i = 0; i < p.ops.size(); ++i)
    if (p.ops[i].kind == OpKind::cast && p.ops[i].phase == phase &&
        is_parameter(p, p.input(p.ops[i], 0)))
      casts.push_back(static_cast<ir::OpId>(i));
  return casts;
}

constexpr std::size_t blocks = 4, products_of_block = 7;  // q, k, v, o, gate, up, down

std::int64_t state_bytes(Optimizer optimizer, bool wide_embedding = false) {
  StepConfig c = small_config();
  c.optimizer.kind = optimizer;
  c.optimizer.wide_embedding_states = wide_embedding;
  const passes::StepProgram step = passes::build_step(small_model(), c);
  std::int64_t bytes = 0;
  for (ir::ValueId v : step.optimizer_states)
    bytes += step.program.storage(step.program.storage_of(v)).bytes;
  return bytes;
}

/// `of(elements)` over all parameters.
template <typename Of>
std::int64_t over_parameters(Of of) {
  const passes::StepProgram step = passes::build_step(small_model(), small_config());
  std::int64_t sum = 0;
  for (const passes::Parameter& parameter : step.parameters)
    sum += of(step.program.value(parameter.value).shape.numel());
  return sum;
}

}  // namespace

TEST_CASE("autocast casts each product's weight once a forward, and again where it is recomputed") {
  const passes::StepProgram none = passes::build_step(small_model(), autocast_config());
  CHECK(weight_casts(none, Phase::forward).size() == blocks * products_of_block + 1);  // LM head
  StepConfig c = autocast_config();
  c.memory.ac = AcMode::full;
  const passes::StepProgram full = passes::build_step(small_model(), c);
  CHECK(weight_casts(full, Phase::forward).size() == blocks * products_of_block + 1);
  CHECK(weight_casts(full, Phase::recompute).size() == blocks * products_of_block);
}

TEST_CASE("autocast's cache keeps every weight's cast to the loss's end, checkpointed or not") {
  for (AcMode ac : {AcMode::none, AcMode::full}) {
    StepConfig c = autocast_config();
    c.memory.ac = ac;
    const passes::StepProgram step = passes::build_step(small_model(), c);
    const passes::Schedule schedule = passes::make_schedule(step);
    const auto& ops = step.program.ops;
    const auto first_backward =
        std::find_if(ops.begin(), ops.end(),
                     [](const ir::Op& op) { return op.phase == Phase::backward; }) -
        ops.begin();
    for (ir::OpId cast : weight_casts(step, Phase::forward)) {
      const ir::StorageId made =
          step.program.storage_of(step.program.output(step.program.op(cast), 0));
      const ir::OpId last = schedule.last_use[static_cast<std::size_t>(made)];
      CHECK(ops[static_cast<std::size_t>(last)].phase >= Phase::loss);
      // Of a checkpointed block it ends with autocast.
      if (ac == AcMode::full && step.program.op(cast).module.block >= 0)
        CHECK(last < first_backward);
    }
  }
}

TEST_CASE("under autocast the residual and all gradients are fp32, and products are bf16") {
  const passes::StepProgram step = passes::build_step(small_model(), autocast_config());
  const ir::Program& p = step.program;
  for (const ir::Op& op : p.ops) {
    if (op.kind == OpKind::mm || op.kind == OpKind::sdpa)
      for (ir::ValueId v : p.inputs(op)) CHECK(p.value(v).dtype == DType::bf16);
    if (op.kind == OpKind::add && op.phase == Phase::forward && op.module.leaf == ir::Module::block)
      CHECK(p.value(p.output(op, 0)).dtype == DType::f32);
  }
  for (const passes::Parameter& parameter : step.parameters)
    CHECK(p.value(parameter.gradient).dtype == DType::f32);
}

TEST_CASE("bitsandbytes' 8-bit AdamW has two bytes and two maxima a 256, below 4096 elements 8") {
  const auto narrow = [](std::int64_t n) {
    return n < 4096 ? 8 * n : 2 * n + 2 * 4 * ((n + 255) / 256);
  };
  const std::int64_t tables = 2 * 256 * 4;
  CHECK(state_bytes(Optimizer::adamw_8bit) == tables + over_parameters(narrow));
  // Nothing here reaches 100,000 elements, so nothing is paged.
  CHECK(state_bytes(Optimizer::paged_adamw) ==
        over_parameters([](std::int64_t n) { return 8 * n; }));
  CHECK(state_bytes(Optimizer::lion) == over_parameters([](std::int64_t n) { return 4 * n; }));
  const std::int64_t embedding = small_model().vocab * small_model().hidden;
  CHECK(state_bytes(Optimizer::adamw_8bit, true) - state_bytes(Optimizer::adamw_8bit) ==
        8 * embedding - narrow(embedding));
}

TEST_CASE("SGD with momentum has one buffer in the parameters' dtype") {
  CHECK(state_bytes(Optimizer::sgd_momentum) ==
        over_parameters([](std::int64_t n) { return 2 * n; }));
}

TEST_CASE("Muon has one buffer and fifteen products a matrix of a block") {
  StepConfig c = small_config();
  c.optimizer.kind = Optimizer::muon;
  const passes::StepProgram step = passes::build_step(small_model(), c);
  const ir::Program& p = step.program;
  std::int64_t states = 0, matrices = 0;
  double flops = 0;
  for (const passes::Parameter& parameter : step.parameters) {
    const ir::Shape shape = p.value(parameter.value).shape;
    if (shape.rank() != 2 || parameter.module.block < 0) {
      states += 2 * 2 * shape.numel() + 4;  // two moments in bf16, a counter
      continue;
    }
    ++matrices;
    states += 2 * shape.numel();
    const auto m = static_cast<double>(std::min(shape[0], shape[1])),
               n = static_cast<double>(std::max(shape[0], shape[1]));
    flops += 5 * 2 * (m * m * n + m * m * m + m * m * n);
  }
  std::int64_t held = 0, products = 0;
  for (ir::ValueId v : step.optimizer_states) held += p.bytes(v);
  CHECK(held == states);
  for (const ir::Op& op : p.ops)
    if (op.phase == Phase::optimizer && op.kind == OpKind::mm) {
      ++products;
      flops -= ir::flops(p, op);
    }
  CHECK(products == 15 * matrices);
  CHECK(flops == 0);
}

TEST_CASE("an optimizer in backward leaves no gradients, an average one more copy") {
  StepConfig c = small_config();
  c.optimizer.in_backward = true;
  const passes::StepProgram step = passes::build_step(small_model(), c);
  for (ir::ValueId v : step.surviving)
    CHECK(step.program.storage(step.program.storage_of(v)).role != ir::Role::gradient);
  const auto& ops = step.program.ops;
  CHECK(static_cast<std::size_t>(std::count_if(ops.begin(), ops.end(), [](const ir::Op& op) {
          return op.kind == OpKind::adamw_fused;
        })) == step.parameters.size());
  StepConfig averaged = small_config();
  averaged.optimizer.ema = true;
  const passes::StepProgram with = passes::build_step(small_model(), averaged);
  const passes::StepProgram without = passes::build_step(small_model(), small_config());
  CHECK(with.optimizer_states.size() - without.optimizer_states.size() == with.parameters.size());
}

}  // namespace ac_advisor::test
