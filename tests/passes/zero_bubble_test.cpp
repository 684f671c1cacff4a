// Schedules whose backwards are in two parts: their order, what each part computes, how long it
// takes.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "ac_advisor/passes/pipeline.hpp"
#include "ac_advisor/simulate/pipeline_time.hpp"
#include "small_model.hpp"
#include "test_paths.hpp"

namespace ac_advisor::test {
namespace {

using Kind = passes::PipelineAction::Kind;

StepConfig piped(PipelineSchedule schedule, std::int64_t pp, std::int64_t rank,
                 std::int64_t micro_batches) {
  StepConfig c = small_config();
  c.layout.pp = c.layout.world = pp;
  c.layout.pp_schedule = schedule;
  c.layout.pp_chunks = is_v_shaped(schedule) ? 2 : 1;
  c.layout.pp_rank = rank;
  c.run.grad_accum = micro_batches;
  c.memory.hold_output = false;
  return c;
}

/// "0F1": stage, what, micro-batch; as pipeline_orders.py writes it.
std::string order(const passes::PipelineRank& rank) {
  constexpr std::string_view words = "FBIW";
  std::string text;
  for (const passes::PipelineAction& a : passes::pipeline_actions(rank)) {
    if (a.kind > Kind::weight_backward) continue;
    text += (text.empty() ? "" : " ") + std::to_string(rank.stage(a.chunk)) +
            words[static_cast<std::size_t>(a.kind)] + std::to_string(a.micro);
  }
  return text;
}

PipelineSchedule schedule_of(const std::string& name) {
  return name == "zb1"   ? PipelineSchedule::zero_bubble
         : name == "zbv" ? PipelineSchedule::zbv
                         : PipelineSchedule::dual_pipe_v;
}

std::ptrdiff_t count(const passes::StepProgram& step, ir::OpKind kind) {
  return std::count_if(step.program.ops.begin(), step.program.ops.end(),
                       [&](const ir::Op& op) { return op.kind == kind; });
}

}  // namespace

TEST_CASE("zero-bubble schedules have each rank compute in PyTorch's order") {
  std::ifstream stream(std::string(source_dir) + "/tests/oracle/pipeline_orders.json");
  REQUIRE(stream);
  for (const nlohmann::json& shape : nlohmann::json::parse(stream)) {
    passes::PipelineRank rank{schedule_of(shape.at("schedule")), shape.at("ranks"), 0,
                              shape.at("chunks"), shape.at("micro_batches")};
    for (rank.rank = 0; rank.rank < rank.ranks; ++rank.rank) {
      CAPTURE(shape.dump());
      CAPTURE(rank.rank);
      CHECK(order(rank) ==
            shape.at("orders").at(static_cast<std::size_t>(rank.rank)).get<std::string>());
    }
  }
}

TEST_CASE("a V's ranks have a stage from either end, and the last rank hands on to itself") {
  passes::PipelineRank rank{PipelineSchedule::zbv, 4, 1, 2, 8};
  CHECK(rank.stage(0) == 1);
  CHECK(rank.stage(1) == 6);
  CHECK(rank.rank_of(6) == 1);
  CHECK(rank.rank_of(4) == 3);
  CHECK(!rank.after_is_own(0));
  rank.rank = 3;
  CHECK(rank.after_is_own(0));
  CHECK(rank.before_is_own(1));
}

TEST_CASE("both parts together compute what a whole backward does") {
  const auto whole =
      passes::build_step(untied_model(4), piped(PipelineSchedule::one_f_one_b, 2, 1, 2));
  const auto parts =
      passes::build_step(untied_model(4), piped(PipelineSchedule::zero_bubble, 2, 1, 2));
  for (const ir::OpKind kind :
       {ir::OpKind::mm, ir::OpKind::sdpa_backward, ir::OpKind::silu_backward, ir::OpKind::mul,
        ir::OpKind::sum, ir::OpKind::log_softmax_backward})
    CHECK(count(parts, kind) == count(whole, kind));
  // The gradients that reach the nodes of weights are added to 0: seven linear layers and two norms
  // of two blocks, the last norm and the head, in two micro-batches.
  CHECK(count(parts, ir::OpKind::add_scalar) - count(whole, ir::OpKind::add_scalar) ==
        2 * (2 * 9 + 2));
  // Where a gradient is kept for the weights, another is added to it out of place: in each block
  // those of both residuals.
  CHECK(count(parts, ir::OpKind::accumulate) - count(whole, ir::OpKind::accumulate) == 2 * 2 * 2);
}

TEST_CASE("the first stage has nothing to do for its input, and its weights' part is all") {
  const auto whole =
      passes::build_step(untied_model(4), piped(PipelineSchedule::one_f_one_b, 2, 0, 2));
  const auto parts =
      passes::build_step(untied_model(4), piped(PipelineSchedule::zero_bubble, 2, 0, 2));
  for (const ir::OpKind kind : {ir::OpKind::mm, ir::OpKind::add_scalar, ir::OpKind::accumulate})
    CHECK(count(parts, kind) == count(whole, kind));
}

TEST_CASE("gradients of a stage's inputs live until the next step") {
  const auto step =
      passes::build_step(untied_model(4), piped(PipelineSchedule::zero_bubble, 2, 1, 4));
  std::set<ir::ValueId> kept(step.surviving.begin(), step.surviving.end());
  for (const passes::StageEnds& ends : step.ends) CHECK(kept.contains(ends.input_gradient));
}

TEST_CASE("a zero-bubble rank's weights fill what 1F1B waits") {
  // Forward, inputs and weights of one second: ZB-H1's ranks wait (pp - 1) (F + I - W) over all, a
  // third of 1F1B's (Qi et al., arXiv:2401.10241, table 2).
  const std::vector<double> messages(4, 0.0);
  const std::vector<simulate::RankSeconds> parts(4, {{{1.0, 0.0, 1.0, 1.0}}, 0.0});
  const auto time =
      simulate::pipeline_time({PipelineSchedule::zero_bubble, 4, 0, 1, 16}, parts, messages);
  CHECK(time.step == doctest::Approx(3.0 * 16 + 3.0));
  // ZB-V's wait for the first forwards' way down alone, of half a second each.
  const std::vector<simulate::RankSeconds> halves(
      4, {{{0.5, 0.0, 0.5, 0.5}, {0.5, 0.0, 0.5, 0.5}}, 0.0});
  const auto v = simulate::pipeline_time({PipelineSchedule::zbv, 4, 0, 2, 16}, halves, messages);
  CHECK(v.step == doctest::Approx(3.0 * 16 + 3 * 0.5));
}

}  // namespace ac_advisor::test
