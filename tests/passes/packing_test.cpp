// Documents in one row: what a step of them has, against arithmetic that is written out.
#include <doctest/doctest.h>

#include <string>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/ir/op_table.hpp"
#include "ac_advisor/passes/passes.hpp"
#include "ac_advisor/passes/step_program.hpp"
#include "advise/variants.hpp"
#include "small_model.hpp"

namespace ac_advisor::test {
namespace {

/// Two times 32 tokens, of so many documents.
StepConfig packed(std::int64_t documents, Attention attention = Attention::flash) {
  StepConfig c = small_config();
  c.run.packing = documents;
  c.run.attention = attention;
  return c;
}

const ir::Op& first(const ir::Program& p, ir::OpKind kind) {
  for (const ir::Op& op : p.ops)
    if (op.kind == kind) return op;
  FAIL("no such op");
  return p.ops.front();
}

std::int64_t count(const ir::Program& p, ir::OpKind kind) {
  std::int64_t n = 0;
  for (const ir::Op& op : p.ops) n += op.kind == kind ? 1 : 0;
  return n;
}

constexpr ir::WorkspaceTarget h100{.cuda = true, .sm_count = 132, .compute_capability = 90};

}  // namespace

TEST_CASE("a packed batch is one row with its positions and where its documents begin") {
  const passes::StepProgram step = passes::build_step(small_model(), packed(5));
  const ir::Program& p = step.program;
  CHECK(p.value(step.model.ids).shape == ir::Shape{1, 64});
  CHECK(p.value(step.model.position_ids).shape == ir::Shape{64});
  CHECK(p.bytes(step.model.position_ids) == 64 * 8);
  CHECK(p.bytes(step.model.cu_seqlens_q) == (5 + 1) * 4);
  CHECK(step.inputs.size() == 5);
}

TEST_CASE("the kernel for variable lengths keeps one log-sum-exp a head and token") {
  const passes::StepProgram step = passes::build_step(small_model(), packed(4));
  const ir::Program& p = step.program;
  const ir::Op& sdpa = first(p, ir::OpKind::sdpa);
  CHECK(p.value(p.output(sdpa, 0)).shape == ir::Shape{1, 4, 64, 16});
  CHECK(p.bytes(p.output(sdpa, 1)) == 4 * 64 * 4);
  CHECK(ir::workspace_bytes(p, sdpa, h100) == 0);
  CHECK(count(p, ir::OpKind::masked_fill) == 0);  // and needs no mask
  // softmax_d and dq in fp32 for 128 tokens more of each document, heads of 32; keys' and values'
  // gradients for each of the four heads of queries.
  const ir::Op& backward = first(p, ir::OpKind::sdpa_backward);
  const std::int64_t rows = 4 * (64 + 128 * 4);
  CHECK(ir::workspace_bytes(p, backward, h100) == rows * 4 + rows * 32 * 4 + 2 * (4 * 64 * 16 * 2));
}

TEST_CASE("attention's work is that of each document's pairs") {
  const auto pairs = [](std::int64_t documents) {
    const passes::StepProgram step = passes::build_step(small_model(), packed(documents));
    const ir::Program& p = step.program;
    // Two products of 2 operations, 16 elements and 4 heads a pair.
    return ir::flops(p, first(p, ir::OpKind::sdpa)) / (2 * 2 * 16 * 4);
  };
  CHECK(pairs(1) == doctest::Approx(64 * 65 / 2));
  CHECK(pairs(4) == doctest::Approx(4 * 16 * 17 / 2));
  CHECK(pairs(5) == doctest::Approx(4 * 13 * 14 / 2 + 12 * 13 / 2));  // 64 = 4 x 13 + 12
  CHECK(pairs(64) == doctest::Approx(64));
}

TEST_CASE("without flash a mask of documents is made once and widened in each block") {
  const passes::StepProgram step =
      passes::build_step(small_model(), packed(4, Attention::automatic));
  const ir::Program& p = step.program;
  CHECK(count(p, ir::OpKind::index) == 4);        // documents and positions of queries and keys
  CHECK(count(p, ir::OpKind::masked_fill) == 4);  // a block
  CHECK(p.bytes(p.output(first(p, ir::OpKind::masked_fill), 0)) == 64 * 64 * 2);
  const passes::StepProgram one =
      passes::build_step(small_model(), packed(1, Attention::automatic));
  CHECK(count(one.program, ir::OpKind::masked_fill) == 0);
}

TEST_CASE("the mask that SDPA widens under autocast is of the queries' dtype") {
  StepConfig c = packed(4, Attention::automatic);
  c.precision.autocast = true;
  c.precision.param_dtype = DType::f32;
  const passes::StepProgram step = passes::build_step(small_model(), c);
  const ir::Program& p = step.program;
  CHECK(p.bytes(p.output(first(p, ir::OpKind::masked_fill), 0)) == 64 * 64 * 2);
}

TEST_CASE("variants with other batches and sequences keep the length of documents") {
  const model::ModelSpec m = small_model();
  const StepConfig base = packed(4);  // of 16 tokens
  const advise::Variants variants(m, base, std::nullopt);
  const auto wider = variants.with({{"--batch", "6"}});
  REQUIRE(wider);
  CHECK(wider->run.packing == 6 * 32 / 16);
  StepConfig shorter = base;
  shorter.run.seq = 8;
  CHECK(variants.settled(shorter).run.packing == 1);
  CHECK(variants.settled(base) == base);
}

TEST_CASE("a document is compared with the model's positions, not its row") {
  model::ModelSpec m = small_model();
  m.max_positions = 40;
  CHECK(advise::model_warnings(m, packed(2)).empty());
  const auto warnings = advise::model_warnings(m, packed(1));
  REQUIRE(warnings.size() == 1);
  CHECK(warnings.front().find("a document of 64 tokens is beyond") != std::string::npos);
}

}  // namespace ac_advisor::test
