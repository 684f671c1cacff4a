// A pipeline of a small llama: its stages, the order of its micro-batches, what is in flight.
#include "ac_advisor/passes/pipeline.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/simulate/pipeline_time.hpp"
#include "small_model.hpp"

namespace ac_advisor::test {
namespace {

using Kind = passes::PipelineAction::Kind;

StepConfig piped(std::int64_t pp, std::int64_t micro_batches,
                 PipelineSchedule schedule = PipelineSchedule::one_f_one_b) {
  StepConfig c = small_config();
  c.layout.pp = c.layout.world = pp;
  c.layout.pp_schedule = schedule;
  c.layout.pp_chunks = schedule == PipelineSchedule::interleaved ? 2 : 1;
  c.layout.pp_rank = 0;
  c.run.grad_accum = micro_batches;
  c.memory.hold_output = false;
  return c;
}

/// Over two ranks a stage.
StepConfig sharded(StepConfig c) {
  c.layout.shard = Sharding::fsdp2;
  c.layout.world = 2 * c.layout.pp;
  return c;
}

/// Of the buffers that a rank receives into.
std::int64_t received_bytes(const passes::StepProgram& step) {
  std::int64_t bytes = 0;
  for (ir::ValueId v : step.inputs)
    if (step.program.storage(step.program.storage_of(v)).role == ir::Role::communication)
      bytes += step.program.bytes(v);
  return bytes;
}

/// How often ops of this kind run in a step.
std::int64_t runs(
    const passes::StepProgram& step, ir::OpKind kind, std::int64_t micro_batches,
    bool (*of)(const ir::Op&) = [](const ir::Op&) { return true; }) {
  const std::vector<passes::Stretch> stretches = passes::stretches_of(step, micro_batches);
  std::int64_t count = 0;
  std::size_t at = 0;
  for (std::size_t i = 0; i < step.program.ops.size(); ++i) {
    while (at + 1 < stretches.size() && stretches[at + 1].begin <= static_cast<ir::OpId>(i)) ++at;
    const ir::Op& op = step.program.ops[i];
    if (op.kind == kind && of(op)) count += stretches[at].runs;
  }
  return count;
}

std::vector<std::int64_t> blocks(const std::vector<passes::StageBlocks>& stages) {
  std::vector<std::int64_t> list;
  for (const passes::StageBlocks& stage : stages) list.push_back(stage.blocks());
  return list;
}

std::int64_t elements(const passes::StepProgram& step) {
  std::int64_t sum = 0;
  for (const passes::Parameter& p : step.parameters)
    sum += step.program.value(p.value).shape.numel();
  return sum;
}

std::int64_t in_flight(PipelineSchedule schedule, std::int64_t ranks, std::int64_t rank,
                       std::int64_t chunks, std::int64_t micro_batches) {
  return passes::most_in_flight({schedule, ranks, rank, chunks, micro_batches});
}

/// "F0 F1 B0": stage and micro-batch where a rank has several, "F0.1".
std::string order(const passes::PipelineRank& rank) {
  std::string text;
  for (const passes::PipelineAction& a : passes::pipeline_actions(rank)) {
    if (a.kind != Kind::forward && a.kind != Kind::backward) continue;
    text += (text.empty() ? "" : " ") + std::string(a.kind == Kind::forward ? "F" : "B");
    if (rank.chunks > 1) text += std::to_string(rank.stage(a.chunk)) + ".";
    text += std::to_string(a.micro);
  }
  return text;
}

}  // namespace

TEST_CASE("what is in flight is what a schedule's forwards are ahead of its backwards") {
  for (const auto schedule : {PipelineSchedule::one_f_one_b, PipelineSchedule::gpipe,
                              PipelineSchedule::interleaved, PipelineSchedule::zero_bubble})
    for (const std::int64_t ranks : {2, 3, 4, 8})
      for (const std::int64_t rounds : {1, 2, 5})
        for (std::int64_t rank = 0; rank < ranks; ++rank) {
          const bool several =
              schedule != PipelineSchedule::one_f_one_b && schedule != PipelineSchedule::gpipe;
          const passes::PipelineRank r{schedule, ranks, rank, several ? 3 : 1, rounds * ranks};
          std::int64_t now = 0, most = 0;
          for (const passes::PipelineAction& a : passes::pipeline_actions(r)) {
            now += a.kind == Kind::forward                                      ? 1
                   : a.kind == Kind::backward || a.kind == Kind::input_backward ? -1
                                                                                : 0;
            most = std::max(most, now);
          }
          CHECK(passes::most_in_flight(r) == most);
        }
}

TEST_CASE("stages count the embedding and the head as a block each, as TorchTitan does") {
  // 6 + 2 over four stages: 2 each; 10 + 2: 3 each; 9 + 2: the first three have one more
  CHECK(blocks(passes::pipeline_stages(untied_model(6), piped(4, 4))) ==
        std::vector<std::int64_t>{1, 2, 2, 1});
  CHECK(blocks(passes::pipeline_stages(untied_model(10), piped(4, 4))) ==
        std::vector<std::int64_t>{2, 3, 3, 2});
  CHECK(blocks(passes::pipeline_stages(untied_model(9), piped(4, 4))) ==
        std::vector<std::int64_t>{2, 3, 3, 1});
  StepConfig by_hand = piped(2, 4);
  by_hand.layout.pp_layers = {3, 1};
  CHECK(blocks(passes::pipeline_stages(untied_model(4), by_hand)) ==
        std::vector<std::int64_t>{3, 1});
  const auto stages = passes::pipeline_stages(untied_model(6), piped(4, 4));
  CHECK(stages[0].embedding);
  CHECK(!stages[0].head);
  CHECK(stages[3].head);
  CHECK(!stages[2].embedding);
}

TEST_CASE("an interleaved rank has each pp-th stage") {
  StepConfig c = piped(2, 4, PipelineSchedule::interleaved);
  c.layout.pp_rank = 1;
  const auto all = passes::pipeline_stages(untied_model(6), c);
  const auto own = passes::stages_of_rank(untied_model(6), c);
  REQUIRE(own.size() == 2);
  CHECK(own[0] == all[1]);
  CHECK(own[1] == all[3]);
}

TEST_CASE("the stages' parameters are the model's") {
  const model::ModelSpec model = untied_model(6);
  for (const auto schedule : {PipelineSchedule::one_f_one_b, PipelineSchedule::interleaved}) {
    StepConfig c = piped(2, 4, schedule);
    std::int64_t sum = 0;
    for (c.layout.pp_rank = 0; c.layout.pp_rank < 2; ++c.layout.pp_rank)
      sum += elements(passes::build_step(model, c));
    CHECK(sum == elements(passes::build_step(model, small_config())));
  }
}

TEST_CASE("1F1B: a rank has as many micro-batches in flight as there are ranks from it on") {
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    CHECK(in_flight(PipelineSchedule::one_f_one_b, 4, rank, 1, 16) == 4 - rank);
    CHECK(in_flight(PipelineSchedule::gpipe, 4, rank, 1, 16) == 16);
  }
  CHECK(order({PipelineSchedule::one_f_one_b, 2, 0, 1, 4}) == "F0 F1 B0 F2 B1 F3 B2 B3");
  CHECK(order({PipelineSchedule::one_f_one_b, 2, 1, 1, 4}) == "F0 B0 F1 B1 F2 B2 F3 B3");
  CHECK(order({PipelineSchedule::gpipe, 2, 1, 1, 3}) == "F0 F1 F2 B0 B1 B2");
}

TEST_CASE("interleaved: (V - 1) pp + 2 (pp - 1 - rank) forwards, then pairs") {
  CHECK(order({PipelineSchedule::interleaved, 2, 1, 2, 2}) ==
        "F1.0 F1.1 F3.0 B3.0 F3.1 B3.1 B1.0 B1.1");
  CHECK(order({PipelineSchedule::interleaved, 2, 0, 2, 2}) ==
        "F0.0 F0.1 F2.0 F2.1 B2.0 B2.1 B0.0 B0.1");
  for (std::int64_t rank = 0; rank < 4; ++rank)  // and the forward of the first pair
    CHECK(in_flight(PipelineSchedule::interleaved, 4, rank, 2, 16) == 4 + 2 * (3 - rank) + 1);
}

TEST_CASE("what is written of a schedule stands for all of it") {
  for (const auto schedule :
       {PipelineSchedule::one_f_one_b, PipelineSchedule::gpipe, PipelineSchedule::interleaved})
    for (std::int64_t rank = 0; rank < 4; ++rank)
      for (const std::int64_t n : {4, 8, 20, 64, 4096}) {
        const std::int64_t chunks = schedule == PipelineSchedule::interleaved ? 2 : 1;
        const auto written = passes::written_schedule({schedule, 4, rank, chunks, n});
        std::int64_t forwards = 0, backwards = 0, first = 0, last = 0;
        for (const passes::PipelineAction& a : written.actions) {
          if (a.kind == Kind::forward) forwards += a.runs;
          if (a.kind != Kind::backward) continue;
          backwards += a.runs;
          if (a.micro == 0) first += a.runs;
          if (a.micro + 1 == written.micro_batches) last += a.runs;
        }
        CHECK(forwards == n * chunks);
        CHECK(backwards == n * chunks);
        CHECK(first == chunks);  // which has no gradients to add to
        CHECK(last == chunks);   // after which they are whole
        CHECK(written.micro_batches <= 32);
      }
}

TEST_CASE("a plan's cost does not grow with --grad-accum") {
  for (const auto schedule :
       {PipelineSchedule::one_f_one_b, PipelineSchedule::gpipe, PipelineSchedule::interleaved}) {
    const auto few = passes::build_step(untied_model(6), piped(2, 1024, schedule));
    const auto many = passes::build_step(untied_model(6), piped(2, 1 << 20, schedule));
    CHECK(few.program.ops.size() == many.program.ops.size());
    CHECK(few.program.storages.size() == many.program.storages.size());
  }
}

TEST_CASE("a stage receives each micro-batch into a buffer of its own") {
  StepConfig c = piped(3, 100);
  c.layout.pp_rank = 1;
  const auto step = passes::build_step(untied_model(4), c);
  CHECK(received_bytes(step) == 2 * 100 * (2 * 32 * 64 * 2));  // activations and gradients, bf16
}

TEST_CASE("a sharded stage gathers and reduces each unit once a step, however many micro-batches") {
  for (const auto schedule :
       {PipelineSchedule::one_f_one_b, PipelineSchedule::gpipe, PipelineSchedule::interleaved})
    for (const std::int64_t n : {4, 64})
      for (const DType reduce : {DType::bf16, DType::f32}) {
        StepConfig c = sharded(piped(2, n, schedule));
        c.precision.reduce_dtype = reduce;
        const auto step = passes::build_step(untied_model(6), c);
        // Of the first rank's blocks and the embedding: a unit each. Only what runs once is counted
        // once: none of them lies where the schedule repeats itself.
        const std::int64_t units = 1 + (step.stages.front().end - step.stages.front().first) +
                                   (step.stages.size() > 1 ? step.stages.back().blocks() : 0);
        CHECK(runs(step, ir::OpKind::all_gather, n) == units);
        CHECK(runs(step, ir::OpKind::reduce_scatter, n) == units);
      }
}

TEST_CASE("gradients that wait in fp32 are cast once and added to by each other micro-batch") {
  StepConfig c = sharded(piped(2, 8));
  c.precision.reduce_dtype = DType::f32;
  const auto wide = passes::build_step(untied_model(6), c);
  const auto widened = [&](ir::OpKind kind) {
    return runs(wide, kind, 8, [](const ir::Op& op) {
      return op.phase == ir::Phase::backward && op.module.leaf == ir::Module::fsdp;
    });
  };
  const auto parameters = static_cast<std::int64_t>(wide.parameters.size());
  CHECK(widened(ir::OpKind::accumulate_inplace) == 7 * parameters);
  // Each parameter's once, and each unit's reduced shards back to bf16.
  const std::int64_t units = 1 + wide.stages.front().blocks();
  CHECK(widened(ir::OpKind::cast) == parameters + units);
}

TEST_CASE("layers in parts: a stage sends its part of each sequence") {
  StepConfig c = piped(2, 4);
  c.layout.tp = 2;
  c.layout.world = 4;
  const auto step = passes::build_step(untied_model(4), c);
  CHECK(received_bytes(step) == 4 * (2 * (32 / 2) * 64 * 2));  // the first stage's gradients, bf16
}

TEST_CASE("equal stages wait (pp - 1) of n + pp - 1 micro-batches' time") {
  for (const std::int64_t n : {4, 8, 64, 1 << 16}) {
    const std::vector<simulate::RankSeconds> ranks(4, {{{1.0, 2.0}}, 0.0});
    const std::vector<double> messages(4, 0.0);
    const auto time =
        simulate::pipeline_time({PipelineSchedule::one_f_one_b, 4, 0, 1, n}, ranks, messages);
    const auto micro_batches = static_cast<double>(n);
    CHECK(time.step == doctest::Approx(3.0 * (micro_batches + 3)));
    CHECK(time.bubble == doctest::Approx(3.0 / (micro_batches + 3)));
  }
}

TEST_CASE("two stages a rank halve the bubble") {
  // Of each stage half the time: (pp - 1) (F + B) / V of bubble.
  const std::vector<simulate::RankSeconds> ranks(4, {{{0.5, 1.0}, {0.5, 1.0}}, 0.0});
  const std::vector<double> messages(4, 0.0);
  const auto time =
      simulate::pipeline_time({PipelineSchedule::interleaved, 4, 0, 2, 16}, ranks, messages);
  CHECK(time.step == doctest::Approx(3.0 * 16 + 3 * 3.0 / 2));
}

TEST_CASE("a plan tells what each rank holds, and shows the highest") {
  StepConfig c = piped(2, 4);
  c.layout.pp_rank = Layout::highest_rank;
  const profile::Profile plan = advise::plan(untied_model(4), c);
  REQUIRE(plan.memory.ranks.size() == 2);
  const auto& ranks = plan.memory.ranks;
  CHECK(plan.memory.peak_allocated == std::max(ranks[0].peak_allocated, ranks[1].peak_allocated));
  CHECK(ranks[1].stages == std::vector<std::int64_t>{1});
  CHECK(ranks[1].peak_reserved.value_or(0) >= ranks[1].peak_allocated);
  REQUIRE(plan.time.bubble_share);
  CHECK(*plan.time.bubble_share > 0);
  c.layout.pp_rank = 1;
  CHECK(advise::plan(untied_model(4), c).memory.peak_allocated == ranks[1].peak_allocated);
  const profile::Profile read = profile::from_json(profile::to_json(plan), "plan");
  CHECK(profile::to_json(read) == profile::to_json(plan));
  CHECK(read.time.pipeline.size() == plan.time.pipeline.size());
}

/// Two ranks, three micro-batches, forwards of 1 s, backwards of 2 s, nothing on the wire.
TEST_CASE("a schedule's forwards and backwards are told, rank by rank") {
  const std::vector<simulate::RankSeconds> ranks(2, {{{1.0, 2.0}}, 0.0});
  const std::vector<double> messages(2, 0.0);
  const passes::PipelineRank shape{PipelineSchedule::one_f_one_b, 2, 0, 1, 3};
  const auto slots = simulate::pipeline_slots(shape, ranks, messages);
  struct Wanted {
    std::int64_t rank, micro;
    bool backward;
    double begin, end;
  };
  // Rank 1 takes each micro-batch forward and back as it comes; rank 0 waits for what comes back.
  const std::vector<Wanted> wanted{{0, 0, false, 0, 1}, {0, 1, false, 1, 2}, {0, 0, true, 4, 6},
                                   {0, 2, false, 6, 7}, {0, 1, true, 7, 9},  {0, 2, true, 10, 12},
                                   {1, 0, false, 1, 2}, {1, 0, true, 2, 4},  {1, 1, false, 4, 5},
                                   {1, 1, true, 5, 7},  {1, 2, false, 7, 8}, {1, 2, true, 8, 10}};
  REQUIRE(slots.size() == wanted.size());
  double busy = 0;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    CAPTURE(i);
    CHECK(slots[i].rank == wanted[i].rank);
    CHECK(slots[i].stage == wanted[i].rank);
    CHECK(slots[i].micro == wanted[i].micro);
    CHECK((slots[i].part == profile::PipelinePart::backward) == wanted[i].backward);
    CHECK(slots[i].begin == wanted[i].begin);
    CHECK(slots[i].end == wanted[i].end);
    busy += slots[i].end - slots[i].begin;
  }
  const auto time = simulate::pipeline_time(shape, ranks, messages);
  CHECK(time.step == 12.0);
  CHECK(time.bubble == doctest::Approx(1 - busy / 24));
}

}  // namespace ac_advisor::test
