#include <doctest/doctest.h>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/simulate/clock.hpp"
#include "passes/small_model.hpp"
#include "simulate/host_time.hpp"
#include "simulate/matmul_time.hpp"

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
  simulate::Device d = round_device();
  d.matmul_half_tile = 0.1;  // no smaller tile would do
  const auto seconds = [&](double rows) {
    return simulate::matmul_seconds({rows, 1280, 8192}, d, 1e15, 100);
  };
  // 128 x 128 tiles: 10 x 10 = one full wave on 100 multiprocessors
  const double full = 2.0 * 1280 * 1280 * 8192 / 1e15;
  CHECK(seconds(1280) == doctest::Approx(full));
  // one more row of tiles: 110 tiles are two waves, as long as 200
  CHECK(seconds(1281) == doctest::Approx(2.0 * full));
  // tiles of 64 x 64 at 0.9 x 0.9 of the speed: 21 x 20 in five waves of a quarter of the work
  d.matmul_half_tile = 0.9;
  CHECK(seconds(1281) == doctest::Approx(full * 5.0 / 4.0 / 0.81));

  ir::Program p;
  const auto x = p.make({1280, 8192}, DType::bf16, ir::Role::activation, {});
  const auto y = p.make({1280, 1280}, DType::bf16, ir::Role::activation, {});
  const ir::Op& op =
      p.op(p.emit(ir::OpKind::mm, ir::Phase::forward, {}, {x, x}, {y}, ir::Product{8192}));
  d.bandwidth = 1e14;  // far from bound by memory
  CHECK(simulate::op_seconds(p, op, d, 1) == doctest::Approx(full));
}

TEST_CASE("a product in FP8 reaches its own share of the asymptote") {
  simulate::Device d = round_device();
  d.matmul_half_tile = 0.1;
  d.bandwidth = 1e14;
  d.fp8_flops = 2e15;
  d.matmul_fp8_share = 0.8;
  ir::Program p;
  const auto x = p.make({1280, 8192}, DType::f8, ir::Role::activation, {});
  const auto y = p.make({1280, 1280}, DType::bf16, ir::Role::activation, {});
  const ir::Op& op =
      p.op(p.emit(ir::OpKind::fp8_product, ir::Phase::forward, {}, {x, x}, {y}, ir::Product{8192}));
  CHECK(simulate::op_seconds(p, op, d, 1) ==
        doctest::Approx(2.0 * 1280 * 1280 * 8192 / (2e15 * 0.8)));
}

TEST_CASE("a narrow gradient cuts K over idle multiprocessors, and pays for adding the parts") {
  simulate::Device d = round_device();
  d.matmul_half_tile = 0.1;
  d.bandwidth = 1e13;
  // 256 x 256 = 4 tiles on 100 multiprocessors, K = 65536: sixteen parts make 64 tiles of one wave,
  // whose sums of 4 bytes are written and read
  const double part = 2.0 * 128 * 128 * (65536.0 / 16) * 100 / 1e15;
  const double adding = 8.0 * 16 * 256 * 256 / 1e13;
  CHECK(simulate::matmul_seconds({256, 256, 65536}, d, 1e15, 100) ==
        doctest::Approx(part + adding));
  // 1280 x 1280 is one full wave: nothing is cut
  CHECK(simulate::matmul_seconds({1280, 1280, 65536}, d, 1e15, 100) ==
        doctest::Approx(2.0 * 1280 * 1280 * 65536 / 1e15));
}

TEST_CASE("a product beside a collective has its multiprocessors less") {
  simulate::Device d = round_device();
  d.matmul_half_tile = 0.1;  // no smaller tile would do
  // 100 tiles on 75 multiprocessors are two waves: half the speed, as measured on an H100
  CHECK(simulate::matmul_seconds({1280, 1280, 512}, d, 1e15, 75) ==
        doctest::Approx(2.0 * simulate::matmul_seconds({1280, 1280, 512}, d, 1e15, 100)));
}

TEST_CASE("a pointwise op whose operands are broadcast goes element by element") {
  simulate::Device d = round_device();
  d.strided_elements = 1e11;
  ir::Program p;
  const auto x = p.make({1000, 1000}, DType::bf16, ir::Role::activation, {});
  const auto w = p.make({1000}, DType::bf16, ir::Role::parameter, {});
  const auto y = p.make({1000, 1000}, DType::bf16, ir::Role::activation, {});
  const ir::Op same = p.op(p.emit(ir::OpKind::mul, ir::Phase::forward, {}, {x, x}, {y}));
  const ir::Op broadcast = p.op(p.emit(ir::OpKind::mul, ir::Phase::forward, {}, {x, w}, {y}));
  CHECK(simulate::op_seconds(p, same, d, 1) == doctest::Approx(6e-6));       // 6 MB at 1 TB/s
  CHECK(simulate::op_seconds(p, broadcast, d, 1) == doctest::Approx(1e-5));  // 1e6 at 1e11 a second
}

TEST_CASE("a kind that was measured has a bandwidth of its own") {
  simulate::Device d = round_device();
  d.reduction_bandwidth = 0.8;
  d.kind_bandwidth[static_cast<std::size_t>(ir::OpKind::log_softmax)] = 0.4;
  ir::Program p;
  const auto x = p.make({1000000}, DType::f32, ir::Role::activation, {});
  const auto y = p.make({1000000}, DType::f32, ir::Role::activation, {});
  const ir::Op softmax = p.op(p.emit(ir::OpKind::softmax, ir::Phase::forward, {}, {x}, {y}));
  const ir::Op log = p.op(p.emit(ir::OpKind::log_softmax, ir::Phase::loss, {}, {x}, {y}));
  CHECK(simulate::op_seconds(p, softmax, d, 1) == doctest::Approx(1e-5));  // 8 MB at 0.8 TB/s
  CHECK(simulate::op_seconds(p, log, d, 1) == doctest::Approx(2e-5));
}

TEST_CASE("attention's speed is its backend's, less for short sequences and narrow heads") {
  simulate::Device d = round_device();
  d.flash = {0.4, 0.2, 1024, 0.5};
  d.cudnn = {0.8, 0.4, 0, 1};
  d.flash1 = {0.2, 0.1, 1024, 1};
  const auto seconds = [&](std::int64_t dim, Attention backend) {
    ir::Program p;
    const auto q = p.make({1, 8, 1024, dim}, DType::bf16, ir::Role::activation, {});
    const auto y = p.make({1, 8, 1024, dim}, DType::bf16, ir::Role::activation, {});
    const ir::Op& op =
        p.op(p.emit(ir::OpKind::sdpa, ir::Phase::forward, {}, {q, q, q}, {y}, ir::Sdpa{}));
    simulate::Run run;
    run.attention = backend;
    return simulate::op_seconds(p, op, d, run);
  };
  const double flops = 4.0 * 8 * 1024 * 128 * 512.5;  // a query sees 1 to 1024 keys
  CHECK(seconds(128, Attention::flash) == doctest::Approx(flops / (1e15 * 0.4 * 0.5)));
  CHECK(seconds(128, Attention::cudnn) == doctest::Approx(flops / (1e15 * 0.8)));
  CHECK(seconds(128, Attention::flash1) == doctest::Approx(flops / (1e15 * 0.2 * 0.5)));
  // half the FLOPs at half the speed
  CHECK(seconds(64, Attention::flash) == doctest::Approx(seconds(128, Attention::flash)));
}

TEST_CASE("the host begins a checkpointed region in forward, and once more at its recomputation") {
  simulate::Device d = round_device();
  d.region_seconds = 4e-4;
  StepConfig config = small_config();
  config.memory.ac = AcMode::full;
  const passes::StepProgram step = passes::build_step(small_model(), config);
  const auto regions = static_cast<double>(step.regions);
  REQUIRE(regions > 1);
  simulate::IssueTimes issue(step.program, d);
  double sum = 0;
  for (const ir::Op& op : step.program.ops) sum += issue(op);
  CHECK(sum == doctest::Approx(4e-4 * regions));
}

TEST_CASE("the host takes its time before each unit that FSDP2 gathers") {
  simulate::Device d = round_device();
  d.gather_seconds = 1e-3;
  StepConfig config = small_config();
  config.layout.world = 8;
  config.layout.shard = Sharding::fsdp2;
  const passes::StepProgram step = passes::build_step(small_model(), config);
  simulate::IssueTimes issue(step.program, d);
  double sum = 0, gathers = 0;
  for (const ir::Op& op : step.program.ops) {
    sum += issue(op);
    gathers += op.kind == ir::OpKind::all_gather ? 1 : 0;
  }
  REQUIRE(gathers > 2);
  CHECK(sum == doctest::Approx(1e-3 * gathers));
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

/// A kernel takes 8 us, a copy 400 us: 4 MB at 1 TB/s twice, and at 10 GB/s.
TEST_CASE("copies to and from the host run beside kernels until somebody waits for them") {
  simulate::Device d = round_device();
  d.host_bandwidth = 2e10;
  d.host_copy_bandwidth = 0.5;
  passes::StepProgram step;
  ir::Program& p = step.program;
  step.micro_begin = {0};
  const auto make = [&] { return p.make({1000000}, DType::f32, ir::Role::activation, {}); };
  const auto kernel = [&](ir::Phase phase, ir::ValueId x) {
    const ir::ValueId y = make();
    p.emit(ir::OpKind::neg, phase, {}, {x}, {y});
    return y;
  };
  const auto hold = [&](ir::Phase phase, ir::ValueId x) {
    p.emit(ir::OpKind::hold, phase, {}, {x}, {});
  };
  const auto fetched = [&] {
    const ir::ValueId x = make();
    p.emit(ir::OpKind::copy_from_host, ir::Phase::backward, {}, {}, {x});
    return x;
  };
  const ir::ValueId a = kernel(ir::Phase::forward, make());           // until 8
  p.emit(ir::OpKind::copy_to_host, ir::Phase::forward, {}, {a}, {});  // 8 to 408
  const ir::ValueId b = kernel(ir::Phase::forward, a);                // 8 to 16: beside it
  hold(ir::Phase::forward, a);                                        // waits until 408
  kernel(ir::Phase::forward, b);                                      // 408 to 416
  const ir::ValueId again = fetched();                                // 408 to 808
  kernel(ir::Phase::backward, again);                                 // 808 to 816
  const ir::ValueId other = fetched();                                // 808 to 1208: ahead
  kernel(ir::Phase::backward, other);                                 // 1208 to 1216
  hold(ir::Phase::backward, other);                                   // no copy until 1216
  kernel(ir::Phase::backward, fetched());                             // 1616 to 1624
  const simulate::StepTime time = simulate::walk_time(step, d, 1, 1);
  CHECK(time.step == doctest::Approx(1624e-6));
  CHECK(time.communication_exposed == doctest::Approx(1624e-6 - 5 * 8e-6 - 8e-6));
  d.host_bandwidth = 1e18;
  CHECK(simulate::walk_time(step, d, 1, 1).step == doctest::Approx(6 * 8e-6));
}

}  // namespace ac_advisor::test
