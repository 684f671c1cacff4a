// What torch.compile makes of attention whose scores are computed op by op. tests/oracle has real
// steps.
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "small_model.hpp"

namespace ac_advisor::test {
namespace {

StepConfig eager_attention(std::int64_t seq) {
  StepConfig c = small_config();
  c.run.seq = seq;
  c.run.attention = Attention::eager;
  c.memory.kernels = Kernels::compiled;
  return c;
}

std::ptrdiff_t products_of_heads(const StepConfig& config) {
  const passes::StepProgram step = passes::build_step(small_model(), config);
  return std::count_if(step.program.ops.begin(), step.program.ops.end(), [](const ir::Op& op) {
    return op.kind == ir::OpKind::bmm && op.module.block == 1;
  });
}

/// Tensors in fp32 of the scores' size that a block's kernels make.
std::ptrdiff_t wide_scores(const StepConfig& config) {
  const passes::StepProgram step = passes::build_step(small_model(), config);
  const ir::Program& p = step.program;
  const std::int64_t scores =
      config.run.batch * small_model().heads * config.run.seq * config.run.seq;
  std::ptrdiff_t count = 0;
  for (const ir::Op& op : p.ops)
    if (op.kind == ir::OpKind::generated && op.module.block == 1)
      for (const ir::ValueId v : p.outputs(op))
        count += p.value(v).dtype == DType::f32 && p.value(v).shape.numel() == scores ? 1 : 0;
  return count;
}

}  // namespace

TEST_CASE("a compiled block has two products of heads, their four gradients, and recomputes both") {
  StepConfig c = eager_attention(32);
  CHECK(products_of_heads(c) == 2 + 4);
  c.memory.ac = AcMode::full;
  CHECK(products_of_heads(c) == 2 + 2 + 4);
}

TEST_CASE("scores are in fp32 where a row is walked over twice, above 1024 tokens") {
  CHECK(wide_scores(eager_attention(1024)) == 0);
  CHECK(wide_scores(eager_attention(1088)) == 1);
  // A head's 777 x 777 scores are no multiple of 128 bytes: they are padded, and lie apart.
  CHECK(wide_scores(eager_attention(777)) == 1);
}

}  // namespace ac_advisor::test
