// Programs of blocks with a gated delta net, against arithmetic written out here.
#include <doctest/doctest.h>

#include <algorithm>

#include "ac_advisor/ir/op_table.hpp"
#include "small_model.hpp"

namespace ac_advisor::test {
namespace {

constexpr std::int64_t heads = 4, key_dim = 16, value_dim = 32, blocks = 4, batch = 2;

passes::StepProgram with_delta_nets(std::int64_t seq) {
  model::ModelSpec m = small_model();
  m.delta = model::DeltaNet{2, heads, key_dim, value_dim, 4};
  m.delta_block.assign(blocks, true);
  StepConfig c = small_config();
  c.run.seq = seq;
  return passes::build_step(m, c);
}

std::int64_t count(const passes::StepProgram& step, ir::OpKind kind, ir::Phase phase) {
  return std::count_if(step.program.ops.begin(), step.program.ops.end(), [&](const ir::Op& op) {
    return op.kind == kind && op.phase == phase && op.module.leaf == ir::Module::delta_rule;
  });
}

}  // namespace

TEST_CASE("a gated delta net goes through its sequence in chunks of 64 tokens") {
  for (const auto& [bound_seq, chunks] :
       {std::pair<std::int64_t, std::int64_t>{64, 1}, {128, 2}, {129, 3}}) {
    const auto& seq = bound_seq;
    CAPTURE(seq);
    const passes::StepProgram step = with_delta_nets(seq);
    // each chunk's output is written into the whole one; backward, its part is cleared in a copy,
    // but for the first one's, before which there is nothing
    CHECK(count(step, ir::OpKind::copy_part, ir::Phase::forward) == blocks * chunks);
    CHECK(count(step, ir::OpKind::copy, ir::Phase::backward) == blocks * (chunks - 1));
    // two products within all chunks; four of each chunk: known, read, own and added
    CHECK(count(step, ir::OpKind::bmm, ir::Phase::forward) == blocks * (2 + 4 * chunks));
    CHECK(count(step, ir::OpKind::solve_triangular, ir::Phase::forward) == 2 * blocks);
    CHECK(count(step, ir::OpKind::solve_triangular, ir::Phase::backward) == 2 * blocks);
    // Both operands' gradients of each, but for the first state's, which is zeros, of two products,
    // and for the last one added, as nothing reads the last state; one of each solution's system.
    const std::int64_t products = 2 * (2 + 4 * chunks) - 2 - 2 + 2;
    CHECK(count(step, ir::OpKind::bmm, ir::Phase::backward) == blocks * products);
  }
}

TEST_CASE("a chunk that is read gets a gradient of the whole tensor's size, in fp32") {
  const passes::StepProgram step = with_delta_nets(128);
  const ir::Program& p = step.program;
  std::int64_t bytes = 0, parts = 0;
  for (const ir::Op& op : p.ops)
    if (op.kind == ir::OpKind::slice_backward && op.module.block == 0 &&
        ir::attributes<ir::Slice>(op).dim == 2) {
      bytes += p.bytes(p.output(op, 0));
      ++parts;
    }
  // Of two chunks: solved values, solved keys, queries and pairs each, and of the first alone keys
  // and its decay, which make the state that the second reads.
  const std::int64_t tokens = batch * heads * 128, pairs = batch * heads * 2 * 64 * 64;
  CHECK(parts == 2 * 4 + 2);
  CHECK(bytes == 4 * (2 * (tokens * value_dim + 2 * tokens * key_dim + pairs) + tokens * key_dim +
                      batch * heads * 2));
}

}  // namespace ac_advisor::test
