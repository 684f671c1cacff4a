// The order of a rank's work, as torch.distributed.pipelining's schedules have it (PyTorch v2.11,
// torch/distributed/pipelining/schedules.py): what is computed, what is sent together, and how long
// Python's locals keep what was sent.
#include <algorithm>

#include "actions.hpp"

namespace ac_advisor::passes {
namespace {

using Kind = PipelineAction::Kind;
using What = Message::What;

/// gpipe: micro-batches that are written out at most; the others are copies of the second.
constexpr std::int64_t most_written = 32;
/// interleaved, zb1: rounds that are written out. A period of one round lies after the first
/// backward of each stage and before the last: warm-up is shorter than V + 1 rounds' forwards of V
/// stages.
constexpr std::int64_t most_rounds = 4;
/// zbv, dualpipev: of the steady state, of whose pairs the third stands for those that follow it:
/// the gradients of micro-batches before it are there, in the reduce dtype, too.
constexpr std::int64_t steady_pairs = 3;

/// Forwards before the first backward: Schedule1F1B._step_microbatches, warmup_chunks.
std::int64_t warm_up(const PipelineRank& r) { return std::min(r.micro_batches, r.ranks - r.rank); }

/// Schedule1F1B._step_microbatches. `output` and `fwd_sends` name the last forward's output until
/// the next one is made, `bwd_sends` the last input gradient until the next backward is done.
std::vector<PipelineAction> one_f_one_b(const PipelineRank& r) {
  Actions to(r);
  const std::int64_t n = r.micro_batches, first = warm_up(r);
  std::int64_t forwards = 0;
  const auto forward = [&] {
    std::vector<Message> replaced;
    if (forwards > 0) replaced.push_back({What::output, 0, forwards - 1});
    to.forward(0, forwards++, replaced);
  };
  for (std::int64_t i = 0; i < first; ++i) {
    to.exchange({{What::input, 0, i}});
    forward();
    if (i + 1 < first) to.exchange({{What::output, 0, i}});
  }
  for (std::int64_t b = 0; b < n; ++b) {
    const bool sends = b == 0 || b + first <= n;  // the forward before it is still to be sent
    std::vector<Message> before{{What::output_gradient, 0, b}};
    if (sends) before.insert(before.begin(), {What::output, 0, forwards - 1});
    to.exchange(before);
    to.backward(0, b);
    if (b > 0) to.let_go({{What::input_gradient, 0, b - 1}});
    if (forwards == n) {
      to.exchange({{What::input_gradient, 0, b}});
      continue;
    }
    to.exchange({{What::input_gradient, 0, b}, {What::input, 0, forwards}});
    forward();
  }
  to.reduce(0);
  to.let_go({{What::output, 0, n - 1}, {What::input_gradient, 0, n - 1}});
  return to.take();
}

/// ScheduleGPipe._step_microbatches. The works of sends that are waited for at the end keep no
/// tensor.
std::vector<PipelineAction> gpipe(const PipelineRank& r) {
  Actions to(r);
  const std::int64_t n = r.micro_batches;
  for (std::int64_t i = 0; i < n; ++i) {
    to.exchange({{What::input, 0, i}});
    to.forward(0, i);
    to.exchange({{What::output, 0, i}});
  }
  for (std::int64_t i = 0; i < n; ++i) {
    to.exchange({{What::output_gradient, 0, i}});
    to.backward(0, i);
    to.exchange({{What::input_gradient, 0, i}});
  }
  to.reduce(0);
  to.let_go({{What::output, 0, n - 1}});
  return to.take();
}

/// _get_1f1b_rank_ops, and what _PipelineScheduleRuntime makes of it: each message is a batch of
/// its own. The actions of the second V * micro_batches pairs are a period of the steady state.
std::vector<PipelineAction> interleaved(const PipelineRank& r, std::int64_t runs) {
  RuntimeActions to(r);
  const Rounds rounds(r, /*multiply_factor=*/2);
  for (std::int64_t op = 0; op < rounds.warm_up; ++op) to.forward(rounds.forward(op));
  for (std::int64_t op = rounds.warm_up; op < rounds.all; ++op) {
    const std::int64_t pair = op - rounds.warm_up;
    if (pair == rounds.pairs()) to.begin_period();
    to.forward(rounds.forward(op));
    to.backward(rounds.backward(pair));
    if (pair + 1 == 2 * rounds.pairs()) to.end_period();
  }
  for (std::int64_t pair = rounds.all - rounds.warm_up; pair < rounds.all; ++pair)
    to.backward(rounds.backward(pair));
  return to.take(runs);
}

/// The steady pair of 1F1B that stands for others: what follows the first backward until the second
/// is done.
void repeat_pair(std::vector<PipelineAction>& actions, std::int64_t runs) {
  std::int64_t backwards = 0;
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const bool after_first = backwards == 1 && actions[i].kind != Kind::let_go;
    const bool in_second = backwards == 2 && actions[i].kind == Kind::let_go;
    if (actions[i].kind == Kind::backward && ++backwards > 2) return;
    if (after_first || in_second) actions[i].runs = runs;
    if (backwards == 2 && !after_first && !in_second) return;
  }
}

using Writer = std::vector<PipelineAction> (*)(const PipelineRank&, std::int64_t);

bool ends_flight(Kind kind) { return kind == Kind::backward || kind == Kind::input_backward; }

bool of_second_micro_batch(const PipelineAction& action) {
  if (action.kind == Kind::exchange) return action.messages.front().micro == 1;
  return action.micro == 1 && action.kind != Kind::reduce;
}

}  // namespace

std::vector<PipelineAction> pipeline_actions(const PipelineRank& rank) {
  switch (rank.schedule) {
    case PipelineSchedule::one_f_one_b:
      return one_f_one_b(rank);
    case PipelineSchedule::gpipe:
      return gpipe(rank);
    case PipelineSchedule::interleaved:
      return interleaved(rank, 1);
    case PipelineSchedule::zero_bubble:
      return zero_bubble(rank, 1);
    case PipelineSchedule::zbv:
      return zero_bubble_v(rank, 1);
    case PipelineSchedule::dual_pipe_v:
      return dual_pipe_v(rank, 1);
  }
  return {};
}

WrittenSchedule written_schedule(const PipelineRank& rank) {
  WrittenSchedule written;
  if (rank.written_whole) {
    written.actions = pipeline_actions(rank);
    written.micro_batches = rank.micro_batches;
    return written;
  }
  PipelineRank fewer = rank;
  switch (rank.schedule) {
    case PipelineSchedule::one_f_one_b:
      fewer.micro_batches = std::min(rank.micro_batches, warm_up(rank) + 2);
      written.actions = one_f_one_b(fewer);
      repeat_pair(written.actions, rank.micro_batches - fewer.micro_batches + 1);
      break;
    case PipelineSchedule::gpipe:
      fewer.micro_batches = std::min(rank.micro_batches, most_written);
      written.copies = rank.micro_batches - fewer.micro_batches;
      written.actions = gpipe(fewer);
      for (PipelineAction& action : written.actions)
        if (of_second_micro_batch(action)) action.runs = written.copies + 1;
      break;
    case PipelineSchedule::interleaved:
    case PipelineSchedule::zero_bubble: {
      const std::int64_t rounds = rank.rounds();
      const std::int64_t few = std::min(rounds, most_rounds);
      fewer.micro_batches = few * (rank.micro_batches / rounds);
      const Writer actions =
          rank.schedule == PipelineSchedule::interleaved ? interleaved : zero_bubble;
      written.actions = actions(fewer, rounds - few + 1);
      break;
    }
    case PipelineSchedule::zbv:
    case PipelineSchedule::dual_pipe_v: {
      fewer.micro_batches = std::min(rank.micro_batches, 2 * rank.ranks + steady_pairs);
      const Writer actions = rank.schedule == PipelineSchedule::zbv ? zero_bubble_v : dual_pipe_v;
      written.actions = actions(fewer, rank.micro_batches - fewer.micro_batches + 1);
      break;
    }
  }
  written.micro_batches = fewer.micro_batches;
  return written;
}

bool WrittenSchedule::splits(std::int64_t chunk, std::int64_t micro) const {
  return std::any_of(actions.begin(), actions.end(), [&](const PipelineAction& action) {
    return action.kind == Kind::weight_backward && action.chunk == chunk && action.micro == micro;
  });
}

std::optional<std::int64_t> WrittenSchedule::input_backward_after(std::int64_t chunk,
                                                                  std::int64_t micro) const {
  bool after = false;
  for (const PipelineAction& action : actions) {
    if (action.chunk != chunk) continue;
    if (after && action.kind == Kind::input_backward) return action.micro;
    const bool gives = action.kind == Kind::weight_backward || action.kind == Kind::backward;
    if (after && gives) break;
    after = after || (gives && action.micro == micro);
  }
  return std::nullopt;
}

std::int64_t most_in_flight(const PipelineRank& rank) {
  switch (rank.schedule) {
    case PipelineSchedule::one_f_one_b:
      return warm_up(rank);
    case PipelineSchedule::gpipe:
      return rank.micro_batches;
    case PipelineSchedule::interleaved: {
      const Rounds rounds(rank, 2);
      return std::min(rounds.warm_up + 1, rounds.all);
    }
    default:
      break;
  }
  std::int64_t now = 0, most = 0;
  for (const PipelineAction& action : written_schedule(rank).actions) {
    now += action.kind == Kind::forward ? 1 : ends_flight(action.kind) ? -1 : 0;
    most = std::max(most, now);
  }
  return most;
}

}  // namespace ac_advisor::passes
