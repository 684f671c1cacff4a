// What --offload activations adds to a step.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "ac_advisor/model/adapter_method.hpp"
#include "ac_advisor/passes/passes.hpp"
#include "ac_advisor/passes/schedule.hpp"
#include "small_model.hpp"

namespace ac_advisor::test {
namespace {

using ir::OpKind;

std::int64_t count(const passes::StepProgram& step, OpKind kind) {
  return std::count_if(step.program.ops.begin(), step.program.ops.end(),
                       [&](const ir::Op& op) { return op.kind == kind; });
}

passes::StepProgram offloaded(AcMode ac) {
  StepConfig c = small_config();
  c.memory.ac = ac;
  c.memory.offload = Offload::activations;
  return passes::build_step(small_model(), c);
}

}  // namespace

TEST_CASE("without --offload nothing is copied to the host") {
  const passes::StepProgram step = passes::build_step(small_model(), small_config());
  CHECK(count(step, OpKind::copy_to_host) == 0);
  CHECK(count(step, OpKind::copy_from_host) == 0);
}

TEST_CASE("--offload activations copies a checkpoint's input once a block, and brings each back") {
  const passes::StepProgram step = offloaded(AcMode::full);
  const ir::Program& p = step.program;
  std::int64_t inputs = 0;
  for (const ir::Op& op : p.ops)
    if (op.kind == OpKind::copy_from_host && p.value(p.output(op, 0)).dtype == DType::bf16 &&
        p.value(p.output(op, 0)).shape.rank() == 3 &&
        p.storage(p.storage_of(p.output(op, 0))).role == ir::Role::activation)
      ++inputs;
  CHECK(inputs >= small_model().layers);
  // What is still in the forward stash when backward begins is not copied back.
  CHECK(count(step, OpKind::copy_from_host) <= count(step, OpKind::copy_to_host));
  CHECK(count(offloaded(AcMode::none), OpKind::copy_to_host) > count(step, OpKind::copy_to_host));
}

TEST_CASE("--offload activations launches no kernel more but contiguous copies") {
  const passes::StepProgram plain = [] {
    StepConfig c = small_config();
    c.memory.ac = AcMode::full;
    return passes::build_step(small_model(), c);
  }();
  const passes::StepProgram step = offloaded(AcMode::full);
  CHECK(count(step, OpKind::mm) == count(plain, OpKind::mm));
  CHECK(count(step, OpKind::clone) == count(plain, OpKind::clone));
}

TEST_CASE("the last node of a backward keeps a leaf activation and its gradient until the next's") {
  StepConfig c = small_config();
  c.runtime.framework = "trl";
  c.memory.ac = AcMode::full;
  c.adapters.rank = 8;
  c.adapters.targets = "q_proj";
  const auto kept = [&](const passes::StepProgram& step) {
    std::vector<ir::Shape> shapes;
    for (const ir::Op& op : step.program.ops)
      if (op.kind == OpKind::empty && op.module.leaf == ir::Module::embed)
        shapes.push_back(step.program.value(step.program.output(op, 0)).shape);
    return shapes;
  };
  CHECK(kept(passes::build_step(small_model(), c)).empty());
  c.memory.offload = Offload::activations;
  const passes::StepProgram step = passes::build_step(small_model(), c);
  // The embedding's output, which PEFT makes a leaf (enable_input_require_grads).
  CHECK(kept(step) == std::vector<ir::Shape>(2, ir::Shape{2, 32, 64}));
  const ir::Program& p = step.program;
  const auto first_back = std::find_if(p.ops.begin(), p.ops.end(), [](const ir::Op& op) {
    return op.kind == OpKind::copy_from_host;
  });
  const passes::Schedule schedule = passes::make_schedule(step);
  for (const ir::Op& op : p.ops)
    if (op.kind == OpKind::empty && op.module.leaf == ir::Module::embed) {
      const auto last = schedule.last_use[static_cast<std::size_t>(p.storage_of(p.output(op, 0)))];
      CHECK(p.op(last).phase == ir::Phase::backward);
      CHECK(last < first_back - p.ops.begin());
    }
}

TEST_CASE("beside --offload activations each gradient reaches DDP's buckets in backward") {
  StepConfig c = small_config();
  c.memory.offload = Offload::activations;
  c.layout.world = 2;
  c.layout.shard = Sharding::ddp;
  c.adapters.method = AdapterMethod::ia3;  // its gradients are sums, in another shape
  const passes::StepProgram step = passes::build_step(small_model(), c);
  std::int64_t copies = 0;
  for (const ir::Op& op : step.program.ops)
    copies += op.kind == OpKind::bucket_copy && op.phase == ir::Phase::backward;
  // Into a bucket, and back out of it: gradients are no views of buckets by default.
  CHECK(copies == 2 * static_cast<std::int64_t>(step.optimized.size()));
  CHECK(step.optimized.size() == 3 * static_cast<std::size_t>(small_model().layers));
}

TEST_CASE("--offload parameters copies each shard for each gather, and each gradient once") {
  StepConfig c = small_config();
  c.layout.world = 4;
  c.layout.shard = Sharding::fsdp2;
  c.memory.offload = Offload::parameters;
  const passes::StepProgram step = passes::build_step(small_model(), c);
  std::int64_t of_blocks = 0;
  for (const passes::Parameter& parameter : step.parameters)
    of_blocks += parameter.module.block >= 0 ? 1 : 0;
  const auto all = static_cast<std::int64_t>(step.parameters.size());
  // The root's are gathered in forward alone, the blocks' in backward, too.
  CHECK(count(step, OpKind::copy_from_host) == all + of_blocks);
  CHECK(count(step, OpKind::copy_to_host) == all);
  CHECK(count(step, OpKind::adamw_fused) == 0);
  // What is there between steps: inputs and buffers.
  for (const ir::ValueId v : step.resident) {
    const ir::Role role = step.program.storage(step.program.storage_of(v)).role;
    CHECK((role == ir::Role::input || role == ir::Role::buffer));
  }
}

StepConfig flat_on_host() {
  StepConfig c = small_config();
  c.layout.world = 4;
  c.layout.shard = Sharding::fsdp1;
  c.memory.offload = Offload::parameters;
  return c;
}

TEST_CASE("--shard fsdp1 --offload parameters copies each flat shard for each gather") {
  const passes::StepProgram step = passes::build_step(small_model(), flat_on_host());
  const auto blocks = static_cast<std::int64_t>(step.blocks);
  CHECK(count(step, OpKind::all_gather) == 2 * blocks + 1);
  // Once more for the root, of which the whole is kept: in backward for nothing.
  CHECK(count(step, OpKind::copy_from_host) == 2 * blocks + 2);
  CHECK(count(step, OpKind::copy_to_host) == blocks + 1);
  CHECK(count(step, OpKind::adamw_fused) == 0);
}

TEST_CASE("--shard fsdp1 --offload parameters keeps reduced gradients until backward ends") {
  const passes::StepProgram step = passes::build_step(small_model(), flat_on_host());
  const passes::Schedule schedule = passes::make_schedule(step);
  std::set<ir::OpId> freed_after;
  for (const ir::Op& op : step.program.ops)
    if (op.kind == OpKind::copy_to_host)
      freed_after.insert(schedule.last_use[static_cast<std::size_t>(
          step.program.storage_of(step.program.input(op, 0)))]);
  REQUIRE(freed_after.size() == 1);  // all by one op, the last of backward
  const auto last = static_cast<std::size_t>(*freed_after.begin());
  CHECK(step.program.ops[last].phase == ir::Phase::backward);
  CHECK(step.program.ops[last + 1].phase == ir::Phase::optimizer);
}

}  // namespace ac_advisor::test
