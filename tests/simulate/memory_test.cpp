#include <doctest/doctest.h>

#include <numeric>

#include "ac_advisor/passes/schedule.hpp"
#include "ac_advisor/simulate/memory.hpp"
#include "ac_advisor/simulate/reserved.hpp"
#include "passes/small_model.hpp"

namespace ac_advisor::test {
namespace {

simulate::MemoryTrace walk(const StepConfig& config, bool workspaces = false,
                           std::int64_t cublas = 0) {
  const passes::StepProgram step = passes::build_step(small_model(), config);
  simulate::MemoryModel model;
  model.workspaces = workspaces;
  model.cublas_workspace = cublas;
  return simulate::walk_memory(step, passes::make_schedule(step), model);
}

}  // namespace

TEST_CASE("sizes are rounded up to 512 bytes on a GPU and kept exact on a CPU") {
  CHECK(simulate::allocated_size(1, true) == 512);
  CHECK(simulate::allocated_size(512, true) == 512);
  CHECK(simulate::allocated_size(513, true) == 1024);
  CHECK(simulate::allocated_size(513, false) == 513);
}

TEST_CASE("what is resident is parameters, two moments, counters, inputs and rotary buffers") {
  StepConfig config = small_config();
  const passes::StepProgram step = passes::build_step(small_model(), config);
  simulate::MemoryModel exact;
  exact.round_to_512 = false;
  exact.workspaces = false;
  // embedding 512 x 64 (tied), a block q 64x64 k 32x64 v 32x64 o 64x64 gate, up 160x64 down 64x160
  // and two norms of 64, a final norm
  const std::int64_t block = 64 * 64 * 2 + 32 * 64 * 2 + 160 * 64 * 3 + 2 * 64;
  const std::int64_t elements = 512 * 64 + 4 * block + 64, tensors = 1 + 4 * 9 + 1;
  const std::int64_t bytes = 3 * elements * 2 + tensors * 4  // bf16 three times, fp32 counters
                             + 2 * (2 * 32 * 8)              // token ids and labels
                             + 2 * (8 * 4);                  // inv_freq and its copy
  CHECK(simulate::walk_memory(step, passes::make_schedule(step), exact).resident == bytes);
}

TEST_CASE("held logits cost their bytes at the peak, and only theirs") {
  StepConfig held = small_config(), dropped = small_config();
  dropped.memory.hold_output = false;
  // bf16 logits of 2 x 32 tokens over 512 words
  CHECK(walk(held).peak - walk(dropped).peak == 2 * 32 * 512 * 2);
}

TEST_CASE("ddp under no_sync has gradients beside the buckets in a later forward") {
  StepConfig config = small_config();
  config.layout.shard = Sharding::ddp;
  config.layout.bucket_views = true;
  config.layout.world = 2;
  config.run.grad_accum = 2;
  const std::int64_t reduced = walk(config).peak_by_phase[0];
  config.layout.no_sync = true;
  const std::int64_t block = 64 * 64 * 2 + 32 * 64 * 2 + 160 * 64 * 3 + 2 * 64;
  // 9 norms of 64 elements have blocks of 512 bytes each, not 128.
  CHECK(walk(config).peak_by_phase[0] - reduced ==
        2 * (512 * 64 + 4 * block + 64) + 9 * (512 - 128));
}

TEST_CASE("ddp's second step has two sets of buckets until the first all-reduce") {
  StepConfig config = small_config();
  config.layout.shard = Sharding::ddp;
  config.layout.bucket_views = true;
  config.layout.world = 2;
  const passes::StepProgram step = passes::build_step(small_model(), config);
  simulate::MemoryModel model;
  model.workspaces = false;
  const passes::Schedule schedule = passes::make_schedule(step);
  const simulate::AllocatorWalk walked = simulate::walk_allocator(step, schedule, model, 2, {});
  const std::int64_t buckets =
      step.program.storage(step.program.storage_of(step.optimized.front().gradient)).bytes;
  CHECK(walked.rebuilding_peak - simulate::walk_memory(step, schedule, model).peak ==
        simulate::allocated_size(buckets, true));
  config.layout.shard = Sharding::none;
  config.layout.world = 1;
  const passes::StepProgram alone = passes::build_step(small_model(), config);
  CHECK(
      simulate::walk_allocator(alone, passes::make_schedule(alone), model, 2, {}).rebuilding_peak ==
      0);
}

TEST_CASE("the output that the loop holds lives through its micro-batch's backward") {
  StepConfig config = small_config();
  config.run.grad_accum = 2;
  const passes::StepProgram step = passes::build_step(small_model(), config);
  const passes::Schedule schedule = passes::make_schedule(step);
  // bf16 logits of 2 x 32 tokens over 512 words: alive at the end of the first backward, and gone
  // before the second forward makes anything.
  const auto logits_at = [&](ir::OpId op) {
    std::int64_t held = 0;
    for (ir::StorageId s : simulate::live_at(step, schedule, op))
      held += step.program.storage(s).bytes == 2 * 32 * 512 * 2 &&
              step.program.storage(s).role == ir::Role::activation;
    return held;
  };
  CHECK(logits_at(step.micro_begin[1] - 1) == 1);
  CHECK(logits_at(step.micro_begin[1] + 1) == 0);
}

TEST_CASE("a loss that never makes logits does not peak in the loss") {
  StepConfig config = small_config();
  config.memory.loss = LossKind::lc_ce;
  CHECK(walk(config).peak < walk(small_config()).peak);
}

TEST_CASE("workspaces add to the peak and vanish from the peak that excludes them") {
  const std::int64_t cublas = 2 * (std::int64_t{32} << 20);
  CHECK(walk(small_config(), true, cublas).peak >= walk(small_config()).peak + cublas);
}

TEST_CASE("reserved memory is at least the allocated peak, and whole segments") {
  const passes::StepProgram step = build(AcMode::full);
  const passes::Schedule schedule = passes::make_schedule(step);
  simulate::MemoryModel model;
  model.workspaces = false;
  const std::int64_t reserved =
      simulate::walk_allocator(step, schedule, model, 2, {}).peak_reserved;
  CHECK(reserved >= simulate::walk_memory(step, schedule, model).peak);
  CHECK(reserved % (2 << 20) == 0);
}

TEST_CASE("what lives at the peak adds up to the peak") {
  const passes::StepProgram step = build(AcMode::selective);
  const passes::Schedule schedule = passes::make_schedule(step);
  simulate::MemoryModel model;
  model.workspaces = false;
  const simulate::MemoryTrace trace = simulate::walk_memory(step, schedule, model);
  std::int64_t sum = 0;
  for (ir::StorageId s : simulate::live_at(step, schedule, trace.peak_op))
    sum += simulate::allocated_size(step.program.storage(s).bytes, true);
  CHECK(sum == trace.peak);
}

TEST_CASE("memory between steps is what it was: nothing leaks and nothing is freed twice") {
  for (AcMode ac : {AcMode::none, AcMode::full, AcMode::selective}) {
    const passes::StepProgram step = build(ac);
    const passes::Schedule schedule = passes::make_schedule(step);
    std::vector<std::int64_t> live;
    simulate::MemoryModel model;
    model.workspaces = false;
    const simulate::MemoryTrace trace = simulate::walk_memory(step, schedule, model, &live);
    std::int64_t survivors = 0;  // gradients, the loss and the held logits, until the next step
    std::vector<bool> counted(step.program.storages.size(), false);
    for (ir::ValueId v : step.surviving) {
      const auto s = static_cast<std::size_t>(step.program.storage_of(v));
      if (!counted[s]) survivors += simulate::allocated_size(step.program.storages[s].bytes, true);
      counted[s] = true;
    }
    CHECK(live.back() == trace.resident + survivors);
  }
}

}  // namespace ac_advisor::test
