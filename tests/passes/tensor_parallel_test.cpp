// Tensor parallelism of a small llama: shapes, collectives and what gradients are left as.
#include <doctest/doctest.h>

#include <algorithm>

#include "small_model.hpp"

namespace ac_advisor::test {
namespace {

StepConfig config_of(std::int64_t tp, std::int64_t world) {
  StepConfig c = small_config();
  c.layout.tp = tp;
  c.layout.world = world;
  if (world > tp) c.layout.shard = Sharding::fsdp2;
  return c;
}

std::int64_t count(const passes::StepProgram& step, ir::OpKind kind, ir::Phase phase) {
  return std::count_if(step.program.ops.begin(), step.program.ops.end(),
                       [&](const ir::Op& op) { return op.kind == kind && op.phase == phase; });
}

std::int64_t elements(const passes::StepProgram& step) {
  std::int64_t sum = 0;
  for (const passes::Parameter& p : step.parameters)
    sum += step.program.value(p.value).shape.numel();
  return sum;
}

}  // namespace

TEST_CASE("a rank of two has half of each matrix, and all norms") {
  const auto step = passes::build_step(small_model(), config_of(2, 2));
  // embedding 512 x 64; a block: q, o 64 x 64; k, v 32 x 64; gate, up, down 160 x 64; norms of 64
  const std::int64_t matrices = 2 * 64 * 64 + 2 * 32 * 64 + 3 * 160 * 64;
  CHECK(elements(step) == 512 * 64 / 2 + 4 * (matrices / 2 + 2 * 64) + 64);
}

TEST_CASE("a block gathers twice and scatters twice, and backward does the other") {
  const auto step = passes::build_step(small_model(), config_of(2, 2));
  // the head gathers too, the embedding scatters too
  CHECK(count(step, ir::OpKind::tp_all_gather, ir::Phase::forward) == 4 * 2 + 1);
  CHECK(count(step, ir::OpKind::tp_reduce_scatter, ir::Phase::forward) == 4 * 2 + 1);
  CHECK(count(step, ir::OpKind::tp_all_gather, ir::Phase::backward) == 4 * 2 + 1);
  CHECK(count(step, ir::OpKind::tp_reduce_scatter, ir::Phase::backward) == 4 * 2 + 1);
  // the loss: maximum, sum, the targets' entries
  CHECK(count(step, ir::OpKind::tp_all_reduce, ir::Phase::loss) == 3);
  // norms' gradients, in the optimizer's step
  CHECK(count(step, ir::OpKind::tp_all_reduce, ir::Phase::optimizer) == 4 * 2 + 1);
}

TEST_CASE("a rank's one key head is repeated for its own queries, not for all ranks'") {
  model::ModelSpec spec = small_model();  // two key heads
  spec.head_dim = 260;                    // which no fused kernel takes: plain products
  const StepConfig c = config_of(2, 2);
  const auto step = passes::build_step(spec, c);
  std::int64_t products = 0;
  for (const ir::Op& op : step.program.ops) {
    if (op.kind != ir::OpKind::bmm || op.phase != ir::Phase::forward) continue;
    ++products;
    CHECK(step.program.value(step.program.output(op, 0)).shape[1] == spec.heads / 2);
    for (const ir::ValueId v : step.program.inputs(op))
      CHECK(step.program.value(v).shape[1] == spec.heads / 2);
  }
  CHECK(products == 2 * spec.layers);  // of queries and keys, of weights and values
}

TEST_CASE("without loss parallelism the logits are gathered, and nothing is reduced in the loss") {
  StepConfig c = config_of(2, 2);
  c.layout.loss_parallel = false;
  const auto step = passes::build_step(small_model(), c);
  CHECK(count(step, ir::OpKind::tp_all_gather, ir::Phase::forward) == 4 * 2 + 2);
  CHECK(count(step, ir::OpKind::tp_all_reduce, ir::Phase::loss) == 0);
}

TEST_CASE("an untied embedding's gradient is of the whole vocabulary, its parameter of a part") {
  model::ModelSpec model = small_model();
  model.tied_embeddings = false;
  const auto step = passes::build_step(model, config_of(2, 2));
  const passes::Parameter& embedding = step.parameters.front();
  CHECK(step.program.bytes(embedding.value) == 2 * 512 / 2 * 64);
  CHECK(step.program.bytes(embedding.gradient) == 2 * 512 * 64);
  const passes::Parameter& head = step.parameters.back();
  CHECK(step.program.bytes(head.gradient) == 2 * 512 / 2 * 64);
}

TEST_CASE("fsdp2 shards each rank's part over the ranks that see different data") {
  const auto step = passes::build_step(small_model(), config_of(2, 8));
  const passes::Parameter& embedding = step.parameters.front();
  CHECK(step.program.bytes(embedding.stored) == 2 * 512 / 2 * 64 / 4);
  // norms' gradients are reduced when a unit's backward ends
  CHECK(count(step, ir::OpKind::tp_all_reduce, ir::Phase::optimizer) == 0);
  CHECK(count(step, ir::OpKind::tp_all_reduce, ir::Phase::backward) == 4 * 2 + 1);
}

TEST_CASE(
    "without parts of sequences layers' results are summed, and so is each gradient of an input") {
  StepConfig c = config_of(2, 8);
  c.layout.sequence_parallel = c.layout.loss_parallel = false;
  const auto step = passes::build_step(small_model(), c);
  CHECK(count(step, ir::OpKind::tp_reduce_scatter, ir::Phase::forward) == 0);
  CHECK(count(step, ir::OpKind::tp_all_gather, ir::Phase::forward) == 1);  // the logits
  // the embedding; of each block o and down
  CHECK(count(step, ir::OpKind::tp_all_reduce, ir::Phase::forward) == 1 + 4 * 2);
  // q, k, v, gate, up; the head. Norms' gradients are whole.
  CHECK(count(step, ir::OpKind::tp_all_reduce, ir::Phase::backward) == 4 * 5 + 1);
  CHECK(count(step, ir::OpKind::tp_all_reduce, ir::Phase::optimizer) == 0);
}

TEST_CASE(
    "a rank with all tokens has Gemma's norms, masks and scaled embedding as one that shares no "
    "layer") {
  model::ModelSpec gemma = small_model();
  gemma.sandwich_norms = gemma.unit_offset_norm = gemma.scaled_embedding = true;
  StepConfig c = config_of(2, 8);
  c.layout.sequence_parallel = c.layout.loss_parallel = false;
  const auto step = passes::build_step(gemma, c);
  // four norms a block and the last, each with one mean
  CHECK(count(step, ir::OpKind::mean, ir::Phase::forward) == 4 * 4 + 1);
  for (const ir::Op& op : step.program.ops)
    if (op.kind == ir::OpKind::mean)
      CHECK(step.program.value(step.program.output(op, 0)).shape[1] == c.run.seq);
}

TEST_CASE(
    "AutoModel's clipping takes a norm of each kind of gradient, and scales each kind by itself") {
  StepConfig c = config_of(2, 8);
  c.layout.sequence_parallel = c.layout.loss_parallel = false;
  c.optimizer.clip_grad = 1.0;
  const auto step = passes::build_step(small_model(), c);
  // columns, rows and norms are summed over those that see different data, columns and rows also
  // over a layer's ranks
  CHECK(count(step, ir::OpKind::all_reduce, ir::Phase::optimizer) == 3);
  CHECK(count(step, ir::OpKind::tp_all_reduce, ir::Phase::optimizer) == 2);
}

TEST_CASE("selective checkpointing keeps what was reduce-scattered, and gathers again") {
  StepConfig c = config_of(2, 2);
  c.memory.ac = AcMode::selective;
  const auto step = passes::build_step(small_model(), c);
  CHECK(count(step, ir::OpKind::tp_reduce_scatter, ir::Phase::recompute) == 0);
  CHECK(count(step, ir::OpKind::tp_all_gather, ir::Phase::recompute) == 4 * 2);
}

}  // namespace ac_advisor::test
