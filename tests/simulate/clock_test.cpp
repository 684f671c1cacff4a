#include <doctest/doctest.h>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/simulate/clock.hpp"
#include "passes/small_model.hpp"

namespace ac_advisor::test {
namespace {

/// A device whose every figure is round, so that the arithmetic can be written out.
simulate::Device round_device() {
  simulate::Device d;
  d.bandwidth = 1e12;
  d.bf16_flops = 1e15;
  d.fp32_flops = 1e14;
  d.sm_count = 100;
  d.link_bandwidth = 1e11;
  return d;
}

}  // namespace

TEST_CASE("a pointwise op takes the time of its bytes") {
  ir::Program p;
  const auto x = p.make({1000000}, DType::f32, ir::Role::activation, {});
  const auto y = p.make({1000000}, DType::f32, ir::Role::activation, {});
  const ir::Op& op = p.op(p.emit(ir::OpKind::neg, ir::Phase::forward, {}, {x}, {y}));
  // 4 MB read and 4 MB written at 1 TB/s
  CHECK(simulate::op_seconds(p, op, round_device(), 1) == doctest::Approx(8e-6));
}

TEST_CASE("a matrix product that fills its waves runs at the peak, one that does not below it") {
  const auto seconds = [](std::int64_t rows) {
    ir::Program p;
    const auto x = p.make({rows, 8192}, DType::bf16, ir::Role::activation, {});
    const auto w = p.make({1280, 8192}, DType::bf16, ir::Role::parameter, {});
    const auto y = p.make({rows, 1280}, DType::bf16, ir::Role::activation, {});
    const ir::Op& op =
        p.op(p.emit(ir::OpKind::mm, ir::Phase::forward, {}, {x, w}, {y}, ir::Product{8192}));
    simulate::Device d = round_device();
    d.bandwidth = 1e14;  // far from bound by memory
    return simulate::op_seconds(p, op, d, 1);
  };
  // 128 x 128 tiles: 10 x 10 = one full wave on 100 multiprocessors
  const double full = 2.0 * 1280 * 1280 * 8192 / 1e15;
  CHECK(seconds(1280) == doctest::Approx(full));
  // one more row of tiles: 110 tiles are two waves, the time of 200
  CHECK(seconds(1281) == doctest::Approx(2.0 * 1281 * 1280 * 8192 / 1e15 * 200.0 / 110.0));
}

TEST_CASE("a host that issues slower than the device computes leaves launch gaps") {
  simulate::Device d = round_device();
  const passes::StepProgram step = build(AcMode::none);
  const double quick = simulate::walk_time(step, d, 1, 1).step;
  d.forward_op_seconds = d.backward_op_seconds = 1e-3;  // far above every op of this model
  const simulate::StepTime slow = simulate::walk_time(step, d, 1, 1);
  CHECK(slow.launch_bound > 0.9 * slow.step);
  CHECK(slow.step > quick);
}

TEST_CASE("a captured step is one launch of the host's, segments one for each block and phase") {
  simulate::Device d = round_device();
  d.forward_op_seconds = d.backward_op_seconds = d.fused_op_seconds = 1e-3;
  d.graph_launch_seconds = 1e-4;
  const passes::StepProgram step = build(AcMode::full);
  const simulate::StepTime whole = simulate::walk_time(step, d, 1, 1, CudaGraph::step);
  CHECK(whole.launch_bound == doctest::Approx(1e-4));
  double compute = 0;
  std::int64_t segments = 0;
  const ir::Op* before = nullptr;
  for (const ir::Op& op : step.program.ops) {
    compute += simulate::op_seconds(step.program, op, d, 1);
    const bool same = before != nullptr && before->phase == op.phase &&
                      (op.phase == ir::Phase::optimizer || before->module.block == op.module.block);
    segments += same ? 0 : 1;
    before = &op;
  }
  CHECK(whole.step == doctest::Approx(compute + 1e-4));
  d.graph_launch_seconds = 1.0;  // the host is what all wait for
  const simulate::StepTime parts = simulate::walk_time(step, d, 1, 1, CudaGraph::segments);
  CHECK(parts.step == doctest::Approx(static_cast<double>(segments)).epsilon(0.01));
}

TEST_CASE("recomputation takes time of its own, and none takes none") {
  const simulate::Device d = round_device();
  const auto recompute = static_cast<std::size_t>(ir::Phase::recompute);
  CHECK(simulate::walk_time(build(AcMode::none), d, 1, 1).by_phase[recompute] == 0);
  CHECK(simulate::walk_time(build(AcMode::full), d, 1, 1).by_phase[recompute] > 0);
}

TEST_CASE("accumulation repeats the micro-batch but not the optimizer") {
  const simulate::Device d = round_device();
  StepConfig config = small_config();
  config.run.grad_accum = 2;
  const passes::StepProgram two = passes::build_step(small_model(), config);
  const auto optimizer = static_cast<std::size_t>(ir::Phase::optimizer);
  const simulate::StepTime twice = simulate::walk_time(two, d, 1, 2);
  const simulate::StepTime five = simulate::walk_time(two, d, 1, 5);
  const simulate::StepTime once = simulate::walk_time(build(AcMode::none), d, 1, 1);
  CHECK(five.by_phase[optimizer] == doctest::Approx(twice.by_phase[optimizer]));
  CHECK(five.by_phase[0] == doctest::Approx(5 * once.by_phase[0]));
}

TEST_CASE("every device file reads, and an unknown name lists the known ones") {
  for (const std::string& name : simulate::device_names()) {
    INFO(name);
    const simulate::Device& d = simulate::find_device(name);
    CHECK(d.name == name);
    CHECK(d.bandwidth > 0);
    CHECK(d.usable_bytes <= d.memory_bytes);
  }
  CHECK_THROWS_WITH_AS(static_cast<void>(simulate::find_device("h1000")),
                       doctest::Contains("h100-80gb"), UserError);
}

}  // namespace ac_advisor::test
