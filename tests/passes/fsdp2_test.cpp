#include <doctest/doctest.h>

#include <map>
#include <vector>

#include "ac_advisor/ir/op_table.hpp"
#include "ac_advisor/passes/schedule.hpp"
#include "small_model.hpp"

namespace ac_advisor::test {
namespace {

using ir::OpKind;

StepConfig sharded(std::int64_t world) {
  StepConfig c = small_config();
  c.layout.shard = Sharding::fsdp2;
  c.layout.world = world;
  return c;
}

std::map<int, int> count_by_block(const passes::StepProgram& step, OpKind kind) {
  std::map<int, int> count;
  for (const ir::Op& op : step.program.ops)
    if (op.kind == kind) ++count[op.module.block];
  return count;
}

std::int64_t shard_bytes(const passes::StepProgram& step) {
  std::int64_t bytes = 0;
  for (ir::ValueId v : step.resident)
    if (step.program.storage(step.program.storage_of(v)).role == ir::Role::parameter)
      bytes += step.program.bytes(v);
  return bytes;
}

}  // namespace

TEST_CASE("every block is gathered in forward and again in backward, the root once") {
  const passes::StepProgram step = passes::build_step(small_model(), sharded(2));
  const std::map<int, int> gathers = count_by_block(step, OpKind::all_gather);
  CHECK(gathers == std::map<int, int>{{-1, 1}, {0, 2}, {1, 2}, {2, 2}, {3, 2}});
  const std::map<int, int> scatters = count_by_block(step, OpKind::reduce_scatter);
  CHECK(scatters == std::map<int, int>{{-1, 1}, {0, 1}, {1, 1}, {2, 1}, {3, 1}});
}

TEST_CASE("--keep-last-block leaves the last block gathered between forward and backward") {
  StepConfig c = sharded(2);
  c.layout.keep_last_block = true;
  CHECK(count_by_block(passes::build_step(small_model(), c), OpKind::all_gather)[3] == 1);
}

TEST_CASE("experts that ranks share are a unit within their block's") {
  model::ModelSpec m = small_model();
  m.family = "mixtral";
  with_mixture(m, 8, 32);
  StepConfig c = sharded(8);
  c.layout.ep = 2;
  const passes::StepProgram step = passes::build_step(m, c);
  const std::map<int, int> gathers = count_by_block(step, OpKind::all_gather);
  CHECK(gathers == std::map<int, int>{{-1, 1}, {0, 4}, {1, 4}, {2, 4}, {3, 4}});
  // tokens, and what was made of them: forward and backward; their numbers: forward
  CHECK(count_by_block(step, OpKind::all_to_all)[0] == 5);
  std::int64_t experts = 0;
  for (const ir::Op& op : step.program.ops)
    if (op.kind == OpKind::all_gather && ir::attributes<ir::ExpertShards>(op).ranks > 0) {
      // of 8 / 2 experts, gate and up 64 x 64, down 64 x 32, over 8 / 2 ranks
      CHECK(ir::attributes<ir::ExpertShards>(op).ranks == 4);
      CHECK(step.program.value(step.program.input(op, 0)).shape.numel() == 4 * 64 * (64 + 32));
      ++experts;
    }
  CHECK(experts == 8);
  // No other rank has the same: they are copied, and nothing is gathered or reduced.
  c.layout.ep = 8;
  const passes::StepProgram alone = passes::build_step(m, c);
  CHECK(count_by_block(alone, OpKind::all_gather)[0] == 2);
  CHECK(count_by_block(alone, OpKind::reduce_scatter)[0] == 1);
}

TEST_CASE("TorchTitan's blocks gather the next one and its experts ahead") {
  model::ModelSpec m = untied_model(4);
  m.family = "qwen3_moe";
  m.qk_norm = true;
  with_mixture(m, 8, 32);
  StepConfig c = sharded(8);
  c.layout.ep = 2;
  c.layout.fsdp_unit = FsdpUnit::torchtitan;
  c.run.transformer_impl = TransformerImpl::torchtitan;
  const passes::StepProgram step = passes::build_step(m, c);
  std::vector<int> gathered;
  for (const ir::Op& op : step.program.ops)
    if (op.kind == OpKind::all_gather) gathered.push_back(op.module.block);
  gathered.resize(8);
  // the embedding, which tells block 0; the next block, its experts, its own experts; and so on
  CHECK(gathered == std::vector<int>{-1, 0, 1, 1, 0, 2, 2, 3});
  CHECK(count_by_block(step, OpKind::all_to_all)[0] == 5);
  // 8 / 4 experts over 16 / 4 ranks: along their second dimension, three weights of 32 x 64
  c.layout.world = 16;
  c.layout.ep = 4;
  std::int64_t experts = 0;
  const passes::StepProgram cut = passes::build_step(m, c);
  for (const ir::Op& op : cut.program.ops)
    if (op.kind == OpKind::all_gather && ir::attributes<ir::ExpertShards>(op).ranks == 4) {
      CHECK(cut.program.value(cut.program.input(op, 0)).shape.numel() == 4 * 2 * 3 * 32 * 64 / 4);
      ++experts;
    }
  CHECK(experts == 8);
  c.layout.fsdp_unit = FsdpUnit::block;  // no units at the ends to tell, or to be told of
  CHECK_NOTHROW(static_cast<void>(passes::build_step(m, c)));
}

TEST_CASE("shards are padded in their first dimension") {
  // embedding 512 x 64; a block: q and o 64 x 64, k and v 32 x 64, gate and up 160 x 64, down 64 x
  // 160, two norms of 64; the final norm 64. World 3 gives ceil(rows / 3) rows of each.
  const auto rows = [](std::int64_t n) { return (n + 2) / 3; };
  const std::int64_t block =
      2 * rows(64) * 64 + 2 * rows(32) * 64 + 2 * rows(160) * 64 + rows(64) * 160 + 2 * rows(64);
  const std::int64_t elements = rows(512) * 64 + 4 * block + rows(64);
  CHECK(shard_bytes(passes::build_step(small_model(), sharded(3))) == 2 * elements);
}

TEST_CASE("fp32 parameters are gathered in bf16, and their gradients come back in fp32") {
  StepConfig c = sharded(2);
  c.precision.param_dtype = DType::f32;
  const passes::StepProgram step = passes::build_step(small_model(), c);
  std::int64_t gathered_bf16 = 0, gradients_fp32 = 0;
  for (const ir::Op& op : step.program.ops) {
    if (op.kind == OpKind::all_gather)
      gathered_bf16 += step.program.value(step.program.input(op, 0)).dtype == DType::bf16;
    if (op.kind == OpKind::cast && op.module.leaf == ir::Module::fsdp)
      gradients_fp32 += step.program.value(step.program.output(op, 0)).dtype == DType::f32;
  }
  CHECK(gathered_bf16 == 4 * 2 + 1);
  CHECK(gradients_fp32 == 5);
}

TEST_CASE("hsdp reduces across replicas after it scatters among shards") {
  StepConfig c = sharded(4);
  c.layout.shard = Sharding::hsdp;
  c.layout.hsdp_shards = 2;
  const passes::StepProgram step = passes::build_step(small_model(), c);
  CHECK(count_by_block(step, OpKind::all_reduce) == count_by_block(step, OpKind::reduce_scatter));
}

TEST_CASE("a checkpoint over two FSDP units gathers both of them again, and no unit thrice") {
  StepConfig c = sharded(2);
  c.memory.ac = AcMode::grouped;
  c.memory.ac_arg = 2;
  // In forward, and once for recomputation and backward together: as often as without a checkpoint.
  CHECK(count_by_block(passes::build_step(small_model(), c), OpKind::all_gather) ==
        std::map<int, int>{{-1, 1}, {0, 2}, {1, 2}, {2, 2}, {3, 2}});
}

TEST_CASE("ddp copies each gradient into its bucket and reduces each bucket once") {
  StepConfig c = small_config();
  c.layout.shard = Sharding::ddp;
  c.layout.world = 2;
  const passes::StepProgram step = passes::build_step(small_model(), c);
  std::int64_t copies = 0, reductions = 0;
  for (const ir::Op& op : step.program.ops) {
    copies += op.kind == OpKind::bucket_copy;
    reductions += op.kind == OpKind::all_reduce;
  }
  // And back, where gradients are not views of their buckets, which is PyTorch's default.
  CHECK(copies == 2 * static_cast<std::int64_t>(step.parameters.size()));
  c.layout.bucket_views = true;
  copies = 0;
  for (const ir::Op& op : passes::build_step(small_model(), c).program.ops)
    copies += op.kind == OpKind::bucket_copy;
  CHECK(copies == static_cast<std::int64_t>(step.parameters.size()));
  CHECK(reductions == 1);  // all gradients together are under the first bucket's 1 MiB
}

}  // namespace ac_advisor::test
