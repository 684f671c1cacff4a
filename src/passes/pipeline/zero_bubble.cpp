// Schedules whose backwards are in two parts (PyTorch v2.11, torch/distributed/pipelining/
// schedules.py): the weights' parts fill what a rank would wait otherwise.
#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "actions.hpp"

namespace ac_advisor::passes {
namespace {

/// Micro-batches of a V's two stages, counted as they come.
class OfV {
 public:
  explicit OfV(const PipelineRank& rank) : r_(rank), to_(rank) {}

  void forward(std::int64_t chunk) {
    if (const std::int64_t micro = next(forwards_, chunk); is_run(micro)) to_.forward(chunk, micro);
  }
  void backward(std::int64_t chunk) {
    const std::int64_t micro = next(inputs_, chunk);
    next(weights_, chunk);
    if (is_run(micro)) to_.backward(chunk, micro);
  }
  void input_backward(std::int64_t chunk) {
    if (const std::int64_t micro = next(inputs_, chunk); is_run(micro))
      to_.input_backward(chunk, micro);
  }
  void weight_backward(std::int64_t chunk) {
    if (const std::int64_t micro = next(weights_, chunk); is_run(micro))
      to_.weight_backward(chunk, micro);
  }
  [[nodiscard]] std::int64_t forwards(std::int64_t chunk) const { return forwards_[at(chunk)]; }
  [[nodiscard]] std::int64_t inputs(std::int64_t chunk) const { return inputs_[at(chunk)]; }
  [[nodiscard]] std::int64_t weights(std::int64_t chunk) const { return weights_[at(chunk)]; }

  /// The third of the steady state's pairs is a period.
  void begin_pair(std::int64_t pair) {
    if (pair == 2) to_.begin_period();
    if (pair == 3) to_.end_period();
  }
  std::vector<PipelineAction> take(std::int64_t runs) { return to_.take(runs); }

 private:
  static std::size_t at(std::int64_t chunk) { return static_cast<std::size_t>(chunk); }
  static std::int64_t next(std::int64_t (&counted)[2], std::int64_t chunk) {
    return counted[at(chunk)]++;
  }
  [[nodiscard]] bool is_run(std::int64_t micro) const { return micro < r_.micro_batches; }

  const PipelineRank& r_;
  RuntimeActions to_;
  std::int64_t forwards_[2] = {}, inputs_[2] = {}, weights_[2] = {};
};

}  // namespace

/// _get_1f1b_rank_ops with enable_zero_bubble: rank R begins with the weights R backwards late.
std::vector<PipelineAction> zero_bubble(const PipelineRank& r, std::int64_t runs) {
  RuntimeActions to(r);
  const std::int64_t of_round = r.micro_batches / r.rounds(), all = r.chunks * r.micro_batches,
                     round = r.chunks * of_round;
  // _get_warmup_ops, multiply_factor 1
  const std::int64_t warm_up = std::min((r.chunks - 1) * of_round + r.ranks - 1 - r.rank, all);
  const auto chunk_of = [&](std::int64_t op) { return op / of_round % r.chunks; };
  std::vector<std::int64_t> forwards(static_cast<std::size_t>(r.chunks), 0), inputs(forwards),
      weights(forwards);
  const auto next = [](std::vector<std::int64_t>& counted, std::int64_t chunk) {
    return counted[static_cast<std::size_t>(chunk)]++;
  };
  std::int64_t weights_begun = 0;
  const auto weight = [&] {
    const std::int64_t chunk = r.chunks - 1 - chunk_of(weights_begun++);
    to.weight_backward(chunk, next(weights, chunk));
  };
  for (std::int64_t op = 0; op < all + warm_up; ++op) {
    if (op == warm_up + round) to.begin_period();
    if (op < all) to.forward(chunk_of(op), next(forwards, chunk_of(op)));
    if (op < warm_up) continue;
    const std::int64_t chunk = r.chunks - 1 - chunk_of(op - warm_up);
    to.input_backward(chunk, next(inputs, chunk));
    if (op - warm_up >= r.rank) weight();
    if (op + 1 == warm_up + 2 * round) to.end_period();
  }
  while (weights_begun < all) weight();
  return to.take(runs);
}

/// ScheduleZBVZeroBubble._calculate_single_rank_operations. It is that of 2 N - 1 micro-batches or
/// more, of which those that there are not are left out.
std::vector<PipelineAction> zero_bubble_v(const PipelineRank& r, std::int64_t runs) {
  OfV to(r);
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
    to.begin_pair(pair);
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
  OfV to(r);
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
    to.begin_pair(i);
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
