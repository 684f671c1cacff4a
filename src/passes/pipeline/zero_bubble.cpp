// Schedules whose backwards are in two parts (PyTorch v2.11, torch/distributed/pipelining/
// schedules.py): the weights' parts fill what a rank would wait otherwise.
#include <algorithm>
#include <deque>
#include <vector>

#include "actions.hpp"

namespace ac_advisor::passes {
namespace {

/// Of a V the third of the steady state's pairs is a period.
void begin_pair(RuntimeActions& to, std::int64_t pair) {
  if (pair == 2) to.begin_period();
  if (pair == 3) to.end_period();
}

}  // namespace

/// _get_1f1b_rank_ops with enable_zero_bubble: rank R begins with the weights R backwards late.
std::vector<PipelineAction> zero_bubble(const PipelineRank& r, std::int64_t runs) {
  RuntimeActions to(r);
  const Rounds rounds(r, /*multiply_factor=*/1);
  std::int64_t weights_begun = 0;
  const auto weight = [&] { to.weight_backward(rounds.backward(weights_begun++)); };
  for (std::int64_t op = 0; op < rounds.all + rounds.warm_up; ++op) {
    const std::int64_t pair = op - rounds.warm_up;
    if (pair == rounds.pairs()) to.begin_period();
    if (op < rounds.all) to.forward(rounds.forward(op));
    if (pair < 0) continue;
    to.input_backward(rounds.backward(pair));
    if (pair >= r.rank) weight();
    if (pair + 1 == 2 * rounds.pairs()) to.end_period();
  }
  while (weights_begun < rounds.all) weight();
  return to.take(runs);
}

/// ScheduleZBVZeroBubble._calculate_single_rank_operations. It is that of 2 N - 1 micro-batches or
/// more, of which those that there are not are left out.
std::vector<PipelineAction> zero_bubble_v(const PipelineRank& r, std::int64_t runs) {
  RuntimeActions to(r);
  const std::int64_t micro_batches = std::max(2 * r.ranks - 1, r.micro_batches);
  const auto both_parts = [&](std::int64_t chunk) {
    to.input_backward(chunk);
    to.weight_backward(chunk);
  };
  for (std::int64_t i = 0; i < 2 * (r.ranks - r.rank) - 1; ++i) to.forward(0);
  for (std::int64_t i = 0; i < r.rank; ++i) {
    to.forward(1);
    to.forward(0);
  }
  for (std::int64_t i = 0; i < r.ranks - r.rank; ++i) {
    to.forward(1);
    both_parts(1);
  }
  for (std::int64_t pair = 0; to.forwards(1) < to.forwards(0) || to.forwards(0) < micro_batches;
       ++pair) {
    begin_pair(to, pair);
    if (to.forwards(0) < micro_batches) to.forward(0);
    both_parts(0);
    to.forward(1);
    both_parts(1);
  }
  for (std::int64_t i = 0; i < r.rank; ++i) {
    to.input_backward(0);
    to.input_backward(1);
  }
  for (std::int64_t i = 0; i < r.ranks - r.rank; ++i) both_parts(0);
  for (std::int64_t chunk : {1, 0})
    while (to.weights(chunk) < to.inputs(chunk)) to.weight_backward(chunk);
  return to.take(runs);
}

/// ScheduleDualPipeV._calculate_single_rank_operations. What it calls overlapped, a forward and a
/// backward, _PipelineScheduleRuntime runs one after the other.
std::vector<PipelineAction> dual_pipe_v(const PipelineRank& r, std::int64_t runs) {
  RuntimeActions to(r);
  std::deque<std::int64_t> waiting;  // weights, by stage
  const auto input = [&](std::int64_t chunk) {
    to.input_backward(chunk);
    waiting.push_back(chunk);
  };
  const auto weight = [&] {
    if (waiting.empty()) return;
    to.weight_backward(waiting.front());
    waiting.pop_front();
  };
  const std::int64_t after = r.ranks - 1 - r.rank;  // ranks
  for (std::int64_t i = 0; i < 2 * after; ++i) to.forward(0);
  for (std::int64_t i = 0; i <= r.rank; ++i) {
    to.forward(0);
    to.forward(1);
  }
  for (std::int64_t i = 0; i < after; ++i) {
    input(1);
    weight();
    to.forward(1);
  }
  for (std::int64_t i = 0; i < r.micro_batches - 2 * r.ranks + r.rank + 1; ++i) {
    begin_pair(to, i);
    to.forward(0);
    to.backward(1);
    to.forward(1);
    to.backward(0);
  }
  for (std::int64_t i = 0; i < after; ++i) {
    to.backward(1);
    to.forward(1);
    to.backward(0);
  }
  bool in_parts = false;
  const std::int64_t last = r.rank + 1, half = last / 2;
  for (std::int64_t i = 0; i < last; ++i) {
    if (i == half && r.rank % 2 == 1) in_parts = true;
    in_parts ? input(1) : to.backward(1);
    if (i == half && r.rank % 2 == 0) in_parts = true;
    in_parts ? input(0) : to.backward(0);
  }
  for (std::int64_t i = 0; i < after; ++i) {
    weight();
    in_parts ? input(0) : to.backward(0);
  }
  for (std::int64_t i = 0; i < last; ++i) weight();
  return to.take(runs);
}

}  // namespace ac_advisor::passes
