#include "simulate/collective_time.hpp"

#include <doctest/doctest.h>

#include "ac_advisor/passes/passes.hpp"
#include "passes/small_model.hpp"
#include "simulate/kernel_time.hpp"

namespace ac_advisor::test {
namespace {

using doctest::Approx;

/// Nodes of 8 with links of 100 GB/s and a network of 10 GB/s a GPU.
simulate::Device noded_device() {
  simulate::Device d;
  d.bandwidth = 1e12;
  d.bf16_flops = d.fp32_flops = 1e15;
  d.sm_count = 100;
  d.link_bandwidth = 1e11;
  d.network_bandwidth = 1e10;
  d.network_gather = 0.5;
  return d;
}

double seconds(ir::OpKind kind, const simulate::Device& d, const simulate::Run& run) {
  ir::Program p;
  const auto buffer = p.make({512000000}, DType::bf16, ir::Role::communication, {});  // 1.024 GB
  const ir::Op op = p.op(p.emit(kind, ir::Phase::backward, {}, {buffer}, {}));
  return simulate::collective_seconds(p, op, d, run);
}

}  // namespace

TEST_CASE("inside a node an all-gather moves (W - 1) / W of the buffer, an all-reduce twice that") {
  const simulate::Device d = noded_device();
  CHECK(seconds(ir::OpKind::all_gather, d, 8) == Approx(1.024e9 * 7 / 8 / 1e11));
  CHECK(seconds(ir::OpKind::all_reduce, d, 8) == Approx(2 * 1.024e9 * 7 / 8 / 1e11));
}

TEST_CASE("beyond a node a collective crosses the network, which its GPUs share") {
  const simulate::Device d = noded_device();
  // 16 ranks in two nodes: 8 x 10 GB/s x 0.5; eight steps more on links than a node's seven less
  // the one over the network (14 inside), and that one.
  const double latency = 3.4e-6 * 7 + 14e-6;
  CHECK(seconds(ir::OpKind::all_gather, d, 16) == Approx(latency + 1.024e9 * 15 / 16 / 4e10));
}

TEST_CASE("of an all-to-all what other nodes get leaves by each GPU's own adapter") {
  const simulate::Device d = noded_device();
  const double latency = 3.4e-6 * 7 + 14e-6;  // of 16 ranks in two nodes, as above
  simulate::Run run;
  run.world = run.expert_ranks = 16;
  // Half of what 16 ranks exchange stays in a node; 7 / 16 of it goes over links.
  CHECK(seconds(ir::OpKind::all_to_all, d, run) == Approx(latency + 1.024e9 / 2 / 5e9));
  run.world = run.expert_ranks = 8;
  CHECK(seconds(ir::OpKind::all_to_all, d, run) == Approx(1.024e9 * 7 / 8 / 1e11));
}

TEST_CASE("--node-size and --network take the place of the device file's") {
  const simulate::Device d = noded_device();
  simulate::Run run = 16;
  run.node_size = 16;
  CHECK(seconds(ir::OpKind::all_gather, d, run) ==
        Approx(3.4e-6 * 8 + 1.024e9 * 15 / 16 / 1e11));  // one node of 16
  run.node_size = 8;
  run.network = 2e10;
  CHECK(seconds(ir::OpKind::all_gather, d, run) ==
        Approx(3.4e-6 * 7 + 14e-6 + 1.024e9 * 15 / 16 / 8e10));
  StepConfig config;
  config.layout.world = 16;
  config.layout.node_size = 4;
  config.layout.network_gbps = 160;  // 20 GB/s
  CHECK(simulate::run_of(config).node_size == 4);
  CHECK(simulate::run_of(config).network == Approx(2e10));
}

TEST_CASE("hsdp gathers inside a node and reduces its replicas across") {
  const simulate::Device d = noded_device();
  simulate::Run run = 32;
  run.shards = 8;
  CHECK(seconds(ir::OpKind::all_gather, d, run) == Approx(1.024e9 * 7 / 8 / 1e11));
  // four replicas, one a node: each has its own GPU's network
  CHECK(seconds(ir::OpKind::all_reduce, d, run) ==
        Approx(2 * (14e-6 * 3 + 1.024e9 * 3 / 4 / 1e10)));
}

TEST_CASE("ranks that share layers are neighbours, those that share data are on other nodes") {
  const simulate::Device d = noded_device();
  simulate::Run run = 64;
  run.tp = 8;
  CHECK(seconds(ir::OpKind::tp_all_gather, d, run) == Approx(1.024e9 * 7 / 8 / 1e11));
  CHECK(seconds(ir::OpKind::tp_all_reduce, d, run) == Approx(2 * 1.024e9 * 7 / 8 / 1e11));
  // eight ranks of the same part of each layer, one a node: 10 GB/s x 0.5
  CHECK(seconds(ir::OpKind::all_gather, d, run) == Approx(14e-6 * 7 + 1.024e9 * 7 / 8 / 5e9));
  run.tp = 16;  // more than a node has: as an all-gather of 16 ranks
  CHECK(seconds(ir::OpKind::tp_all_gather, d, run) ==
        Approx(3.4e-6 * 7 + 14e-6 + 1.024e9 * 15 / 16 / 4e10));
  StepConfig config;
  config.layout.tp = 4;
  CHECK(simulate::run_of(config).tp == 4);
}

TEST_CASE("nothing hides tensor parallelism's collectives") {
  const simulate::Device d = noded_device();
  StepConfig config = small_config();
  config.layout.world = config.layout.tp = 2;
  const passes::StepProgram step = passes::build_step(small_model(), config);
  double collectives = 0;
  for (const ir::Op& op : step.program.ops)
    if (simulate::is_collective(op))
      collectives += simulate::collective_seconds(step.program, op, d, simulate::run_of(config));
  CHECK(collectives > 0);
  const simulate::StepTime time = simulate::walk_time(step, d, simulate::run_of(config), 1);
  CHECK(time.communication_exposed == Approx(collectives));
}

TEST_CASE("a block's all-gather runs beside the block before it, and slows it") {
  simulate::Device d = noded_device();
  d.collective_sms = 50;
  StepConfig config = small_config();
  config.layout.world = 8;
  config.layout.shard = Sharding::fsdp2;
  const passes::StepProgram step = passes::build_step(small_model(), config);
  const simulate::StepTime time = simulate::walk_time(step, d, simulate::run_of(config), 1);
  CHECK(time.contention > 0);
  // the less there is to hide behind, the more of it is exposed
  simulate::Device quick = d;
  quick.bandwidth = 1e15;
  CHECK(simulate::walk_time(step, quick, simulate::run_of(config), 1).communication_exposed >
        time.communication_exposed);
}

TEST_CASE("ranks that wait for each other run at the speed of the slowest") {
  simulate::Device d = noded_device();
  d.bandwidth = 1e14;  // far from bound by memory
  d.spread = 0.01;
  ir::Program p;
  const auto x = p.make({1280, 8192}, DType::bf16, ir::Role::activation, {});
  const auto y = p.make({1280, 1280}, DType::bf16, ir::Role::activation, {});
  const ir::Op& op =
      p.op(p.emit(ir::OpKind::mm, ir::Phase::forward, {}, {x, x}, {y}, ir::Product{8192}));
  const double one = simulate::op_seconds(p, op, d, 1);
  // of eight normal values the largest is 1.42 deviations off on average (1.52 by its limit), of
  // 512 3.04
  CHECK(simulate::op_seconds(p, op, d, 8) / one == Approx(1.0142).epsilon(0.002));
  CHECK(simulate::op_seconds(p, op, d, 512) / one == Approx(1.0304).epsilon(0.002));
}

}  // namespace ac_advisor::test
