#include "ac_advisor/passes/pass.hpp"

#include <doctest/doctest.h>

#include <set>
#include <stdexcept>
#include <string>

#include "ac_advisor/ir/op_table.hpp"
#include "ac_advisor/passes/passes.hpp"
#include "small_model.hpp"

namespace ac_advisor::test {
namespace {

using ir::OpKind;

StepConfig everything() {
  StepConfig c = small_config();
  c.memory.ac = AcMode::selective;
  c.memory.kernels = Kernels::fused;
  c.layout.shard = Sharding::fsdp2;
  c.layout.world = 2;
  c.run.grad_accum = 3;
  return c;
}

std::vector<passes::PassChange> changes_of(const StepConfig& config) {
  std::vector<passes::PassChange> changes;
  static_cast<void>(passes::build_step_logged(small_model(), config, changes));
  return changes;
}

passes::PassChange named(const std::vector<passes::PassChange>& changes, const std::string& name) {
  for (const passes::PassChange& c : changes)
    if (c.pass->name == name) return c;
  FAIL("no pass is named " << name);
  return changes.front();
}

std::int64_t count(const passes::StepProgram& step, OpKind kind) {
  std::int64_t n = 0;
  for (const ir::Op& op : step.program.ops) n += op.kind == kind ? 1 : 0;
  return n;
}

}  // namespace

TEST_CASE("passes have names of their own, and stand in the order of their stages") {
  std::set<std::string> names;
  passes::Stage last = passes::Stage::before;
  for (const passes::Pass* pass : passes::passes()) {
    CHECK(names.insert(pass->name).second);
    CHECK(std::string(pass->does).size() > 10);
    CHECK((pass->applies != nullptr));
    CHECK((pass->run != nullptr));
    CHECK(pass->stage >= last);
    last = pass->stage;
  }
}

TEST_CASE("a pass runs where it applies: once, or once a micro-batch that is written out") {
  for (const passes::PassChange& c : changes_of(everything())) {
    INFO(c.pass->name);
    const bool applies = c.pass->runs(small_model(), everything());
    CHECK(c.runs == (!applies ? 0 : c.pass->stage == passes::Stage::micro_batch ? 2 : 1));
  }
}

TEST_CASE("what the passes added and took away is the whole step") {
  std::vector<passes::PassChange> changes;
  const passes::StepProgram step = passes::build_step_logged(small_model(), everything(), changes);
  const passes::ProgramSize size = passes::size_of(step);
  passes::ProgramSize sum;
  for (const passes::PassChange& c : changes) {
    sum.ops += c.ops_added - c.ops_removed;
    sum.storages += c.storages;
    sum.bytes += c.storage_bytes;
  }
  CHECK(sum == size);
  CHECK(step.program.ops.size() ==
        passes::build_step(small_model(), everything()).program.ops.size());
}

TEST_CASE("fuse takes out the 9 norms' ops and puts one op in for each") {
  StepConfig c = small_config();
  c.memory.kernels = Kernels::fused;
  const passes::PassChange fuse = named(changes_of(c), "fuse");
  // 4 blocks: two norms, rope on q and k, swiglu; the final norm. The four norms after a residual
  // addition in the same block take it in; a norm is 6 ops in bf16 + 2 casts.
  const std::int64_t norms = 9, ropes = 4, swiglus = 4, residuals = 4;
  CHECK(fuse.ops_added == norms + ropes + swiglus);
  CHECK(fuse.ops_removed >= norms * 8 + ropes * 14 + swiglus * 2 + residuals);
}

TEST_CASE("an op has the attributes that the op table names for its kind") {
  for (AcMode ac : {AcMode::none, AcMode::full, AcMode::selective})
    for (Kernels kernels : {Kernels::eager, Kernels::fused})
      for (Optimizer optimizer : {Optimizer::adamw, Optimizer::adamw_foreach, Optimizer::sgd})
        for (Sharding shard : {Sharding::none, Sharding::ddp, Sharding::zero1, Sharding::zero2,
                               Sharding::fsdp1, Sharding::fsdp2})
          for (LossKind loss : {LossKind::ce, LossKind::lc_ce, LossKind::chunked}) {
            StepConfig c = small_config();
            c.memory.ac = ac;
            c.memory.kernels = kernels;
            c.memory.loss = loss;
            c.memory.chunk_tokens = 16;
            c.optimizer.kind = optimizer;
            c.layout.shard = shard;
            c.layout.world = shard == Sharding::none ? 1 : 2;
            c.runtime.force = true;
            for (const ir::Op& op : passes::build_step(small_model(), c).program.ops) {
              INFO(ir::row(op.kind).name);
              CHECK(op.attributes.index() == ir::row(op.kind).attributes.index());
            }
          }
}

TEST_CASE("attributes of another kind are a fault of the program") {
  const passes::StepProgram step = build(AcMode::none);
  for (const ir::Op& op : step.program.ops)
    if (op.kind == OpKind::mm) {
      CHECK(ir::attributes<ir::Product>(op).inner > 0);
      CHECK_THROWS_AS(static_cast<void>(ir::attributes<ir::Sdpa>(op)), std::logic_error);
      return;
    }
  FAIL("no matrix product");
}

TEST_CASE("RoPE is written in place but in blocks whose region keeps q and k as they were") {
  StepConfig c = small_config();
  c.memory.kernels = Kernels::fused;
  c.memory.ac = AcMode::budget;
  c.memory.ac_arg = 1;
  c.memory.block_modes = {AcMode::none, AcMode::selective, AcMode::full, AcMode::attention};
  const passes::StepProgram step = passes::build_step(small_model(), c);
  const ir::Program& p = step.program;
  for (const ir::Op& op : p.ops) {
    if (op.kind != OpKind::rope || op.phase != ir::Phase::forward) continue;
    INFO("block ", op.module.block);
    const bool in_place = p.storage_of(p.output(op, 0)) == p.storage_of(p.input(op, 0));
    CHECK(in_place == (op.module.block != 1));
  }
}

TEST_CASE("a norm that is a region of its own keeps its residual addition apart") {
  StepConfig c = small_config();
  c.memory.kernels = Kernels::fused;
  c.memory.ac = AcMode::full;
  CHECK(count(passes::build_step(small_model(), c), OpKind::add_rms_norm) == 2 * 4);
  c.memory.scope = AcScope::submodule;
  CHECK(count(passes::build_step(small_model(), c), OpKind::add_rms_norm) == 0);
}

// MiniCPM divides the hidden state before its LM head, whatever the loss makes of the logits.
TEST_CASE("what the LM head reads is divided once for whole logits and for chunks of them") {
  model::ModelSpec spec = small_model();
  spec.hidden_divisor = 9.0;
  StepConfig c = small_config();
  for (const LossKind loss : {LossKind::ce, LossKind::chunked_logits}) {
    c.memory.loss = loss;
    c.memory.chunk_tokens = loss == LossKind::ce ? 0 : 2;
    const passes::StepProgram step = passes::build_step(spec, c);
    std::int64_t divisions = 0;
    for (const ir::Op& op : step.program.ops)
      divisions += op.kind == OpKind::div && op.phase == ir::Phase::forward &&
                   op.module.leaf == ir::Module::lm_head;
    CHECK(divisions == 1);
  }
}

}  // namespace ac_advisor::test
