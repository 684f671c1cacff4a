// Steps of pairs: what a reference has and leaves, against arithmetic that is written out.
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <set>

#include "ac_advisor/ir/op_table.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/passes.hpp"
#include "ac_advisor/passes/schedule.hpp"
#include "ac_advisor/passes/step_program.hpp"
#include "small_model.hpp"

namespace ac_advisor::test {
namespace {

constexpr std::int64_t pairs = 2, seq = 32;

StepConfig of_task(Task task, Reference reference = Reference::none) {
  StepConfig c = small_config();
  c.runtime.framework = "trl";
  c.task.kind = task;
  c.task.reference = reference;
  c.memory.loss = c.task.compares() ? LossKind::tiled : LossKind::ce;
  c.memory.hold_output = false;
  return c;
}

StepConfig dpo(Reference reference, AcMode ac = AcMode::none, std::int64_t lora = 0) {
  StepConfig c = of_task(Task::dpo, reference);
  c.memory.ac = ac;
  c.adapters.rank = lora;
  return c;
}

std::int64_t parameter_bytes(const passes::StepProgram& step, ir::Owner owner) {
  std::int64_t bytes = 0;
  std::set<ir::StorageId> seen;
  for (ir::ValueId v : step.resident) {
    const ir::StorageId s = step.program.storage_of(v);
    const ir::Storage& storage = step.program.storage(s);
    if (storage.role == ir::Role::parameter && storage.module.owner == owner &&
        seen.insert(s).second)
      bytes += storage.bytes;
  }
  return bytes;
}

std::int64_t ops_of(const passes::StepProgram& step, ir::Owner owner, ir::OpKind kind) {
  std::int64_t n = 0;
  for (const ir::Op& op : step.program.ops)
    n += op.module.owner == owner && op.kind == kind && op.phase < ir::Phase::backward ? 1 : 0;
  return n;
}

const ir::Op& first(const ir::Program& p, ir::OpKind kind, ir::Owner owner) {
  for (const ir::Op& op : p.ops)
    if (op.kind == kind && op.module.owner == owner) return op;
  FAIL("no such op");
  return p.ops.front();
}

}  // namespace

TEST_CASE("a second model has the parameters of the first, which nothing trains") {
  const passes::StepProgram step = passes::build_step(small_model(), dpo(Reference::model));
  // Four blocks of two norms, q and o (64 x 64), k and v (64 x 32), three of 64 x 160; a tied
  // embedding and a norm. Two bytes each.
  const std::int64_t block = 2 * 64 + 2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 160;
  const std::int64_t all = 2 * (4 * block + 512 * 64 + 64);
  CHECK(parameter_bytes(step, ir::Owner::policy) == all);
  CHECK(parameter_bytes(step, ir::Owner::reference) == all);
  CHECK(step.optimized.size() == 4 * 9 + 2);
  for (const passes::Parameter& p : step.parameters)
    if (p.module.owner == ir::Owner::reference) CHECK(p.gradient == ir::no_id);
}

TEST_CASE("the reference's forward runs once a micro-batch and leaves nothing to backward") {
  for (const Reference reference : {Reference::model, Reference::adapter})
    for (const AcMode ac : {AcMode::none, AcMode::full}) {
      const passes::StepProgram step = passes::build_step(
          small_model(), dpo(reference, ac, reference == Reference::adapter ? 4 : 0));
      const ir::Program& p = step.program;
      CHECK(ops_of(step, ir::Owner::reference, ir::OpKind::sdpa) == 4);
      const passes::Schedule schedule = passes::make_schedule(step);
      ir::OpId backward = 0;
      while (p.op(backward).phase != ir::Phase::backward) ++backward;
      for (ir::OpId id = 0; id < static_cast<ir::OpId>(p.ops.size()); ++id) {
        const ir::Op& op = p.op(id);
        if (op.forward != ir::no_id && op.phase >= ir::Phase::backward)
          CHECK(p.op(op.forward).module.owner == ir::Owner::policy);
        if (op.module.owner != ir::Owner::reference) continue;
        CHECK(op.phase == ir::Phase::loss);
        CHECK(op.region == ir::no_id);
        for (ir::ValueId v : p.outputs(op)) {
          CHECK_FALSE(p.value(v).requires_grad);
          CHECK(schedule.last_use[static_cast<std::size_t>(p.storage_of(v))] < backward);
        }
      }
    }
}

TEST_CASE("adapters that are off cost the reference no parameter and no product") {
  StepConfig sft = dpo(Reference::adapter, AcMode::none, 4);
  sft.task = {};
  const passes::StepProgram plain = passes::build_step(small_model(), sft),
                            step = passes::build_step(small_model(),
                                                      dpo(Reference::adapter, AcMode::none, 4));
  CHECK(parameter_bytes(step, ir::Owner::reference) == 0);
  CHECK(parameter_bytes(step, ir::Owner::policy) == parameter_bytes(plain, ir::Owner::policy));
  // Seven linear layers a block in each forward, adapters on q and v (PEFT's default of llama) of
  // two products each in the model's alone; its head's tiles are one.
  CHECK(ops_of(step, ir::Owner::reference, ir::OpKind::mm) == 4 * 7 + 1);
  CHECK(ops_of(step, ir::Owner::policy, ir::OpKind::mm) == 4 * (7 + 2 * 2) + 1);
}

TEST_CASE(
    "DPO of TRL until 1.14 makes whole logits, and copies those of the answers for its metrics") {
  StepConfig c = dpo(Reference::model);
  c.memory.loss = LossKind::ce;
  c.task.prompt = 8;
  const passes::StepProgram step = passes::build_step(small_model(), c);
  CHECK(ops_of(step, ir::Owner::policy, ir::OpKind::tiled_log_probs) == 0);
  for (const ir::Owner owner : {ir::Owner::policy, ir::Owner::reference}) {
    const ir::Op& scored = first(step.program, ir::OpKind::generated, owner);
    const ir::Value& logits = step.program.value(step.program.input(scored, 0));
    CHECK(logits.shape == ir::Shape{2 * pairs, seq - 1, 512});
  }
  std::int64_t copies = 0;
  for (const ir::Op& op : step.program.ops)
    if (op.kind == ir::OpKind::index && op.phase == ir::Phase::loss)
      copies += step.program.value(step.program.outputs(op)[0]).shape ==
                ir::Shape{pairs * (seq - 8), 512};
  CHECK(copies == 2);  // the chosen ones' and the rejected ones'
}

TEST_CASE("under ZeRO 3 a second model is shared out, and an engine of its own gathers it") {
  StepConfig c = dpo(Reference::model);
  c.layout.world = 2;
  c.layout.shard = Sharding::zero3;
  const passes::StepProgram step = passes::build_step(small_model(), c);
  // As above; each parameter has an even number of elements: halves of two bytes each
  const std::int64_t block = 2 * 64 + 2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 160;
  CHECK(parameter_bytes(step, ir::Owner::reference) == 4 * block + 512 * 64 + 64);
  CHECK(parameter_bytes(step, ir::Owner::policy) == 4 * block + 512 * 64 + 64);
  for (const ir::Op& op : step.program.ops)
    if (op.module.owner == ir::Owner::reference) CHECK(op.phase == ir::Phase::loss);
}

/// All-gathers of `bytes` each.
std::int64_t gathers_of(const passes::StepProgram& step, std::int64_t bytes) {
  std::int64_t n = 0;
  for (const ir::Op& op : step.program.ops)
    if (op.kind == ir::OpKind::all_gather)
      for (ir::ValueId v : step.program.inputs(op))
        n += step.program.storage(step.program.storage_of(v)).bytes == bytes ? 1 : 0;
  return n;
}

StepConfig on_fsdp2(StepConfig c) {
  c.layout.world = 2;
  c.layout.shard = Sharding::fsdp2;
  c.layout.fsdp_unit = FsdpUnit::accelerate;
  return c;
}

TEST_CASE("under FSDP2 a second model is one unit, gathered whole for each of its forwards") {
  const passes::StepProgram step =
      passes::build_step(small_model(), on_fsdp2(dpo(Reference::model)));
  const std::int64_t block = 2 * 64 + 2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 160;
  const std::int64_t all = 4 * block + 512 * 64 + 64;
  CHECK(parameter_bytes(step, ir::Owner::reference) == all);  // half of two bytes each
  CHECK(gathers_of(step, 2 * all) == 1);
  const StepConfig kto = on_fsdp2(of_task(Task::kto, Reference::model));
  CHECK(gathers_of(passes::build_step(small_model(), kto), 2 * all) == 2);
  // completions are scored by it alone: no unit of the policy's is gathered
  StepConfig scoring = on_fsdp2(of_task(Task::rloo, Reference::model));
  scoring.task.prompt = 8;
  scoring.task.rollout = Rollout::served;
  scoring.task.scorer = Scorer::reference;
  const passes::StepProgram scored = passes::build_step(small_model(), scoring);
  CHECK(gathers_of(scored, 2 * all) == 1);
  CHECK(gathers_of(scored, 2 * block) == 0);
  scoring.task.scorer = Scorer::policy;
  CHECK(gathers_of(passes::build_step(small_model(), scoring), 2 * all) == 0);
}

TEST_CASE("KTO's policy runs once without gradients, and its reference twice") {
  for (const Sharding shard : {Sharding::none, Sharding::fsdp2}) {
    StepConfig c = of_task(Task::kto, Reference::model);
    if (shard == Sharding::fsdp2) c = on_fsdp2(c);
    const passes::StepProgram step = passes::build_step(small_model(), c);
    CHECK(ops_of(step, ir::Owner::no_grad, ir::OpKind::sdpa) == 4);
    CHECK(ops_of(step, ir::Owner::policy, ir::OpKind::sdpa) == 4);
    CHECK(ops_of(step, ir::Owner::reference, ir::OpKind::sdpa) == 8);
    for (const ir::Op& op : step.program.ops)
      if (op.module.owner != ir::Owner::policy) CHECK(op.phase < ir::Phase::backward);
  }
}

TEST_CASE("under ZeRO 3 what KTO's policy records without gradients ends before backward") {
  StepConfig c = of_task(Task::kto, Reference::precomputed);
  c.layout.world = 2;
  c.layout.shard = Sharding::zero3;
  model::ModelSpec large = small_model();
  large.hidden = 1024;
  large.intermediate = 2048;
  // What a trace says is used again soon stays whole, and several are gathered together.
  const auto gathers_in_backward = [&](const StepConfig& config) {
    const passes::StepProgram step = passes::build_step(large, config);
    return std::count_if(step.program.ops.begin(), step.program.ops.end(), [](const ir::Op& op) {
      return op.kind == ir::OpKind::all_gather && op.phase >= ir::Phase::backward;
    });
  };
  const auto untraced = gathers_in_backward(c);
  CHECK(untraced >= 4 * 7);  // each block's linear layers
  c.task.kind = Task::dpo;
  CHECK(gathers_in_backward(c) < untraced);
}

TEST_CASE("under ZeRO 3 a reference that is the policy without adapters ends gathering ahead") {
  StepConfig c = dpo(Reference::adapter, AcMode::full, 4);
  c.layout.world = 2;
  c.layout.shard = Sharding::zero3;
  c.memory.reentrant = true;
  model::ModelSpec large = small_model();
  large.hidden = 1024;  // so that a block's weights are not whole between steps
  large.intermediate = 2048;
  const auto gathered_together = [&] {
    std::int64_t n = 0;
    const passes::StepProgram step = passes::build_step(large, c);
    for (const ir::Op& op : step.program.ops)
      if (op.kind == ir::OpKind::cat && op.module.leaf == ir::Module::fsdp)
        for (ir::ValueId v : step.program.inputs(op))
          n += step.program.value(v).shape.numel() > 500'000 ? 1 : 0;  // a weight of the MLP
    return n;
  };
  const std::int64_t broken = gathered_together();
  c.task.reference = Reference::precomputed;
  CHECK(broken < gathered_together());
}

TEST_CASE("log-probabilities that come with the batch are two fp32 numbers a pair") {
  const passes::StepProgram step = passes::build_step(small_model(), dpo(Reference::precomputed));
  CHECK(ops_of(step, ir::Owner::reference, ir::OpKind::sdpa) == 0);
  for (ir::ValueId v : step.precomputed) CHECK(step.program.bytes(v) == 4 * pairs);
}

TEST_CASE("a batch of pairs is two rows each, and a prompt's tokens are not scored") {
  StepConfig c = dpo(Reference::model);
  c.task.prompt = 24;
  const passes::StepProgram step = passes::build_step(small_model(), c);
  const ir::Program& p = step.program;
  CHECK(p.value(step.model.ids).shape == ir::Shape{2 * pairs, seq});
  for (const ir::Owner owner : {ir::Owner::policy, ir::Owner::reference}) {
    const ir::Op& head = first(p, ir::OpKind::tiled_log_probs, owner);
    CHECK(p.value(p.input(head, 0)).shape == ir::Shape{2 * pairs * (seq - 24), 64});
  }
}

TEST_CASE("a reward model has a head of one number and nothing as wide as the vocabulary") {
  const passes::StepProgram step = passes::build_step(small_model(), of_task(Task::reward));
  const ir::Program& p = step.program;
  CHECK(p.value(step.model.lm_head).shape == ir::Shape{1, 64});
  for (const ir::Op& op : p.ops)
    if (op.phase < ir::Phase::backward)
      for (ir::ValueId v : p.outputs(op))
        CHECK((p.value(v).shape.rank() == 0 || p.value(v).shape.back() != 512));
}

TEST_CASE("GRPO's rows are single, its completions alone are scored, and a reference only stays") {
  for (const Reference reference : {Reference::none, Reference::model}) {
    StepConfig c = of_task(Task::grpo, reference);
    c.task.prompt = 24;
    const passes::StepProgram step = passes::build_step(small_model(), c);
    const ir::Program& p = step.program;
    CHECK(p.value(step.model.ids).shape == ir::Shape{pairs, seq});
    const ir::Op& head = first(p, ir::OpKind::tiled_log_probs, ir::Owner::policy);
    CHECK(p.value(p.input(head, 0)).shape == ir::Shape{pairs * (seq - 24), 64});
    const std::int64_t policy = parameter_bytes(step, ir::Owner::policy);
    CHECK(parameter_bytes(step, ir::Owner::reference) ==
          (reference == Reference::model ? policy : 0));
    for (const ir::Op& op : p.ops) CHECK(op.module.owner == ir::Owner::policy);
  }
}

TEST_CASE("RLOO's loss is of sequences: a number a row, over what the policy said before") {
  StepConfig c = of_task(Task::rloo, Reference::model);
  c.task.prompt = 24;
  const passes::StepProgram step = passes::build_step(small_model(), c);
  const ir::Program& p = step.program;
  CHECK(p.value(step.model.ids).shape == ir::Shape{pairs, seq});
  const ir::Op& head = first(p, ir::OpKind::tiled_log_probs, ir::Owner::policy);
  CHECK(p.value(p.input(head, 0)).shape == ir::Shape{pairs * (seq - 24), 64});
  CHECK(p.value(step.precomputed[0]).shape == ir::Shape{pairs});
  CHECK(parameter_bytes(step, ir::Owner::reference) == parameter_bytes(step, ir::Owner::policy));
  const ir::Op& ratio = first(p, ir::OpKind::minimum, ir::Owner::policy);
  CHECK(p.value(p.input(ratio, 0)).shape == ir::Shape{pairs});
  for (const ir::Op& op : p.ops) CHECK(op.module.owner == ir::Owner::policy);
}

TEST_CASE("a teacher of other sizes runs without gradients, and both heads are read in tiles") {
  model::ModelSpec teacher = small_model();
  teacher.hidden = 96;
  teacher.layers = 3;
  StepConfig c = of_task(Task::distillation);
  c.task.prompt = 24;
  c.task.teacher = {"teacher", std::make_shared<const model::ModelSpec>(teacher)};
  const passes::StepProgram step = passes::build_step(small_model(), c);
  const ir::Program& p = step.program;
  CHECK(parameter_bytes(step, ir::Owner::reference) == 2 * model::parameter_count(teacher));
  const ir::Op& head = first(p, ir::OpKind::tiled_divergence, ir::Owner::policy);
  const std::int64_t tokens = pairs * (seq - 24);
  CHECK(p.value(p.input(head, 0)).shape == ir::Shape{tokens, 64});
  CHECK(p.value(p.input(head, 2)).shape == ir::Shape{tokens, 96});
  CHECK(p.value(p.output(head, 0)).shape == ir::Shape{tokens});
  // An embedding, 3 blocks of four norms' and products' ops: none of the teacher's has a backward.
  for (const ir::Op& op : p.ops)
    if (op.module.owner == ir::Owner::reference) CHECK(op.phase == ir::Phase::loss);
  // Two tiles of (tokens, 32768) in fp32 forward, and two once more backward.
  std::int64_t tiles = 0;
  for (const ir::Storage& s : p.storages) tiles += s.bytes == tokens * 32768 * 4 ? 1 : 0;
  CHECK(tiles == 4);
}

TEST_CASE("what writing completions takes is of all rows of a step") {
  StepConfig c = of_task(Task::grpo);
  c.task.prompt = 8;
  c.run.grad_accum = 3;
  // Two bytes each: keys and values of four blocks of two heads of 16, one of them once more, of
  // 3 x 2 rows of 32 tokens; 512 logits a row in bf16, in fp32 and as probabilities.
  CHECK(passes::build_step(small_model(), c).generation_bytes ==
        6 * 32 * 2 * 16 * 2 * 9 + 6 * 512 * (2 + 4 + 4));
  c.task.prompt = 31;  // a block of the prompt is wider: three of 160, four of 64
  CHECK(passes::build_step(small_model(), c).generation_bytes ==
        6 * 31 * (2 * 4 * 2 * 16 * 2 + (3 * 160 + 4 * 64) * 2));
  c.precision.autocast = true;
  c.precision.param_dtype = DType::f32;  // and grouped heads: three tables of four heads' scores
  CHECK(passes::build_step(small_model(), c).generation_bytes ==
        6 * 31 * 4 * (2 * 4 * 2 * 16 + 4 * 64 + std::max(3 * 160, 3 * 31 * 4)));
  c.task.rollout = Rollout::served;
  CHECK(passes::build_step(small_model(), c).generation_bytes == 0);
}

TEST_CASE("ORPO and SimPO save the whole logits in fp32 and make a gradient as large") {
  for (const Task task : {Task::orpo, Task::simpo}) {
    StepConfig c = of_task(task);
    c.precision.autocast = true;
    c.precision.param_dtype = DType::f32;
    const passes::StepProgram step = passes::build_step(small_model(), c);
    const ir::Program& p = step.program;
    const ir::Op& node = first(p, ir::OpKind::autograd_function, ir::Owner::policy);
    CHECK(p.value(p.input(node, 0)).shape == ir::Shape{2 * pairs, seq - 1, 512});
    CHECK(p.value(p.input(node, 0)).dtype == DType::f32);
    CHECK(p.storage(p.storage_of(p.input(node, 0))).bytes == 4 * 2 * pairs * seq * 512);
  }
}

namespace {

model::ModelSpec mixture() {
  model::ModelSpec m = small_model();
  m.family = "mixtral";
  with_mixture(m, 8);
  return m;
}

std::int64_t softmaxes_in_loss(const passes::StepProgram& step) {
  return std::count_if(step.program.ops.begin(), step.program.ops.end(), [](const ir::Op& op) {
    return op.kind == ir::OpKind::softmax && op.module.leaf == ir::Module::loss &&
           op.phase < ir::Phase::backward;
  });
}

}  // namespace

TEST_CASE("TRL adds the routers' auxiliary loss of each block, but of a coefficient of 0") {
  model::ModelSpec m = mixture();
  for (const Task task : {Task::sft, Task::dpo, Task::kto, Task::grpo, Task::rloo}) {
    StepConfig c = of_task(
        task, task == Task::dpo || task == Task::kto ? Reference::precomputed : Reference::none);
    c.memory.loss = LossKind::tiled;
    if (c.task.online()) c.task.prompt = 8;
    INFO(std::string(to_option(task)));
    // one a block, of the policy alone
    const passes::StepProgram with = passes::build_step(m, c);
    CHECK(softmaxes_in_loss(with) == m.layers);
    m.moe->unbalanced = true;
    CHECK(softmaxes_in_loss(passes::build_step(m, c)) == 0);
    c.task.router_loss = RouterLoss::on;
    CHECK(softmaxes_in_loss(passes::build_step(m, c)) == m.layers);
    m.moe->unbalanced = false;
    c.task.router_loss = RouterLoss::off;
    CHECK(softmaxes_in_loss(passes::build_step(m, c)) == 0);
  }
  CHECK(softmaxes_in_loss(passes::build_step(m, of_task(Task::orpo))) == 0);
}

TEST_CASE("a configuration with output_router_logits: the model's output has each router's") {
  model::ModelSpec m = mixture();
  StepConfig c = small_config();
  c.runtime.framework = "hf";
  c.memory.loss = LossKind::ce;
  const passes::StepProgram without = passes::build_step(m, c);
  m.moe->returns_logits = true;
  const passes::StepProgram with = passes::build_step(m, c);
  CHECK(softmaxes_in_loss(without) == 0);
  CHECK(softmaxes_in_loss(with) == m.layers);
  CHECK(with.outputs.size() == without.outputs.size() + static_cast<std::size_t>(m.layers));
  c.task.router_loss = RouterLoss::off;
  CHECK(softmaxes_in_loss(passes::build_step(m, c)) == 0);
  m.moe->returns_logits = false;
  c.task.router_loss = RouterLoss::on;
  CHECK(softmaxes_in_loss(passes::build_step(m, c)) == m.layers);
}

}  // namespace ac_advisor::test
