#include <doctest/doctest.h>

#include <map>
#include <set>

#include "ac_advisor/ir/op_table.hpp"
#include "ac_advisor/model/error.hpp"
#include "ac_advisor/passes/passes.hpp"
#include "ac_advisor/passes/schedule.hpp"
#include "ac_advisor/simulate/memory.hpp"
#include "small_model.hpp"

namespace ac_advisor::test {
namespace {

using ir::OpKind;
using ir::Phase;

std::map<ir::OpId, int> recomputations(const passes::StepProgram& step) {
  std::map<ir::OpId, int> count;
  for (const ir::Op& op : step.program.ops)
    if (op.phase == Phase::recompute && op.kind != OpKind::hold) ++count[op.forward];
  return count;
}

std::int64_t dispatched(const passes::StepProgram& step, Phase phase) {
  std::int64_t total = 0;
  for (const ir::Op& op : step.program.ops)
    if (op.phase == phase) total += ir::dispatches(op);
  return total;
}

/// Peak of the loss phase, when everything that is kept for backward is alive.
std::int64_t kept(const passes::StepProgram& step) {
  simulate::MemoryModel model;
  model.workspaces = false;
  return simulate::walk_memory(step, passes::make_schedule(step), model)
      .peak_by_phase[static_cast<std::size_t>(Phase::loss)];
}

}  // namespace

TEST_CASE("none recomputes nothing") { CHECK(recomputations(build(AcMode::none)).empty()); }

TEST_CASE("full recomputes each block once, up to the last value that backward needs") {
  const passes::StepProgram step = build(AcMode::full);
  for (const auto& [op, times] : recomputations(step)) CHECK(times == 1);
  // A bf16 llama block dispatches 38 ops: 8 a norm, 3 projections, 5 a rotation of q and of k,
  // attention, the output projection, two additions, and 5 in the MLP. The last two (down_proj and
  // the addition) give nothing that backward reads.
  CHECK(dispatched(step, Phase::recompute) == small_model().layers * (38 - 2));
}

TEST_CASE("grouped:2 recomputes each block once, and stops early once a group") {
  const passes::StepProgram step = build(AcMode::grouped, 2);
  for (const auto& [op, times] : recomputations(step)) CHECK(times == 1);
  CHECK(dispatched(step, Phase::recompute) == small_model().layers / 2 * (2 * 38 - 2));
}

TEST_CASE("every:2 recomputes blocks 0, 2, … and no other") {
  const passes::StepProgram step = build(AcMode::every, 2);
  std::set<int> blocks;
  for (const ir::Op& op : step.program.ops)
    if (op.phase == Phase::recompute) blocks.insert(op.module.block);
  CHECK(blocks == std::set<int>{0, 2});
}

TEST_CASE("sqrt makes ceil(sqrt(N)) balanced segments and recomputes the last one too") {
  model::ModelSpec model = small_model();
  model.layers = 7;  // ceil(sqrt(7)) = 3 segments: 3 + 2 + 2
  model.window.assign(7, 0);
  StepConfig config = small_config();
  config.memory.ac = AcMode::sqrt;
  const passes::StepProgram step = passes::build_step(model, config);
  std::map<int, std::set<int>> segments;
  for (const ir::Op& op : step.program.ops)
    if (op.phase == Phase::recompute) segments[op.region].insert(op.module.block);
  REQUIRE(segments.size() == 3);
  CHECK(segments[0] == std::set<int>{0, 1, 2});
  CHECK(segments[1] == std::set<int>{3, 4});
  CHECK(segments[2] == std::set<int>{5, 6});
}

TEST_CASE("selective keeps attention and every odd matrix product of a block") {
  const passes::StepProgram step = build(AcMode::selective);
  std::map<int, int> products, attention;
  for (const ir::Op& op : step.program.ops) {
    if (op.phase != Phase::recompute) continue;
    products[op.module.block] += op.kind == OpKind::mm;
    attention[op.module.block] += op.kind == OpKind::sdpa;
  }
  // q 1, k 2, v 3, o 4, gate 5, up 6, down 7: 2, 4 and 6 run again; 7 is after the last saved value
  for (const auto& [block, n] : products) CHECK(n == 3);
  for (const auto& [block, n] : attention) CHECK(n == 0);
}

TEST_CASE("attention as the only region recomputes nothing but the core") {
  const passes::StepProgram step = build(AcMode::attention);
  for (const ir::Op& op : step.program.ops)
    if (op.phase == Phase::recompute) CHECK(op.module.leaf == ir::Module::attention_core);
}

TEST_CASE("what is kept: full below selective below none, full below sub-module scope below none") {
  const std::int64_t none = kept(build(AcMode::none)), full = kept(build(AcMode::full)),
                     selective = kept(build(AcMode::selective));
  StepConfig config = small_config();
  config.memory.ac = AcMode::full;
  config.memory.scope = AcScope::submodule;
  const std::int64_t submodule = kept(passes::build_step(small_model(), config));
  CHECK(full < selective);
  CHECK(selective < none);
  CHECK(full < submodule);
  CHECK(submodule < none);
}

TEST_CASE(
    "a second micro-batch adds its gradients to the first's and raises no phase but its own") {
  StepConfig config = small_config();
  config.run.grad_accum = 3;
  const passes::StepProgram step = passes::build_step(small_model(), config);
  REQUIRE(step.micro_begin.size() == 2);  // the third is like the second
  std::int64_t added = 0;
  for (std::size_t i = static_cast<std::size_t>(step.micro_begin[1]); i < step.program.ops.size();
       ++i)
    added +=
        step.program.ops[i].kind == OpKind::accumulate_inplace &&
        step.program.storage(step.program.storage_of(step.program.input(step.program.ops[i], 0)))
                .role == ir::Role::gradient;
  CHECK(added == static_cast<std::int64_t>(step.parameters.size()));
}

TEST_CASE("no op reads a version of a storage that an in-place op has replaced") {
  for (Kernels kernels : {Kernels::eager, Kernels::fused})
    for (AcMode ac : {AcMode::none, AcMode::full, AcMode::selective, AcMode::grouped}) {
      StepConfig config = small_config();
      config.memory.kernels = kernels;
      config.memory.ac = ac;
      config.memory.ac_arg = 2;
      const passes::StepProgram step = passes::build_step(small_model(), config);
      std::map<ir::StorageId, int> version;
      for (const ir::Op& op : step.program.ops) {
        if (op.kind == OpKind::hold) continue;  // keeps memory alive, reads nothing
        for (ir::ValueId v : step.program.inputs(op)) {
          const ir::ValueId root = step.program.root(v);
          const auto it = version.find(step.program.storage_of(v));
          INFO(ir::row(op.kind).name, " in ", to_string(op.module));
          CHECK((it == version.end() || it->second == step.program.value(root).version));
        }
        for (ir::ValueId v : step.program.outputs(op))
          version[step.program.storage_of(v)] = step.program.value(step.program.root(v)).version;
      }
    }
}

TEST_CASE("what cannot be combined is refused with the reason") {
  const auto refused = [](auto change) -> std::string {
    StepConfig config = small_config();
    change(config);
    try {
      static_cast<void>(passes::build_step(small_model(), config));
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  const auto contains = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  CHECK(contains(refused([](StepConfig& c) {
                   c.memory.ac = AcMode::grouped;
                   c.memory.ac_arg = 0;
                 }),
                 "grouped:0"));
  CHECK(contains(refused([](StepConfig& c) {
                   c.memory.ac = AcMode::every;
                   c.memory.ac_arg = 9;
                 }),
                 "4 blocks"));
  CHECK(contains(refused([](StepConfig& c) { c.layout.world = 8; }), "--shard none"));
  CHECK(contains(refused([](StepConfig& c) { c.layout.shard = Sharding::fsdp2; }), "--world 2"));
  CHECK(contains(refused([](StepConfig& c) {
                   c.layout.shard = Sharding::hsdp;
                   c.layout.world = 8;
                   c.layout.hsdp_shards = 3;
                 }),
                 "must be divisible"));
  CHECK(contains(refused([](StepConfig& c) {
                   c.runtime.framework = "automodel";
                   c.memory.ac = AcMode::selective;
                   c.layout.shard = Sharding::ddp;
                   c.layout.world = 2;
                 }),
                 "use --shard fsdp2"));
  CHECK(contains(refused([](StepConfig& c) {
                   c.memory.ac = AcMode::grouped;
                   c.memory.ac_arg = 2;
                   c.memory.scope = AcScope::submodule;
                 }),
                 "--ac-scope submodule"));
  CHECK(contains(refused([](StepConfig& c) { c.run.batch = 0; }), "--batch 0"));
  CHECK(contains(refused([](StepConfig& c) { c.run.seq = std::int64_t{1} << 40; }), "--seq"));
  CHECK(contains(refused([](StepConfig& c) { c.run.batch = c.run.seq = 1 << 20; }), "2^31 tokens"));
}

}  // namespace ac_advisor::test
