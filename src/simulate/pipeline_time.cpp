#include "ac_advisor/simulate/pipeline_time.hpp"

#include <algorithm>
#include <optional>
#include <tuple>

#include "collective_time.hpp"

namespace ac_advisor::simulate {
namespace {

using passes::PipelineAction;
using passes::PipelineRank;
using profile::PipelinePart;
using Kind = PipelineAction::Kind;

constexpr PipelinePart parts[] = {PipelinePart::forward, PipelinePart::backward,
                                  PipelinePart::input_backward, PipelinePart::weight_backward};

/// Times that a schedule is periodic after so many times its ranks' number of micro-batches (or
/// rounds of interleaved schedules): the slowest stage has set the pace by then.
constexpr std::int64_t settled = 4;

/// What of an action is computed; none: it is no computation.
std::optional<PipelinePart> part_of(Kind kind) {
  switch (kind) {
    case Kind::forward:
      return PipelinePart::forward;
    case Kind::backward:
      return PipelinePart::backward;
    case Kind::input_backward:
      return PipelinePart::input_backward;
    case Kind::weight_backward:
      return PipelinePart::weight_backward;
    case Kind::exchange:
    case Kind::let_go:
    case Kind::reduce:
      break;
  }
  return std::nullopt;
}

double RankSeconds::Stage::*seconds_of(PipelinePart part) {
  constexpr double RankSeconds::Stage::*fields[] = {
      &RankSeconds::Stage::forward, &RankSeconds::Stage::backward, &RankSeconds::Stage::input,
      &RankSeconds::Stage::weights};
  return fields[static_cast<std::size_t>(part)];
}

/// The schedule of all ranks, run.
class Timeline {
 public:
  Timeline(const PipelineRank& shape, std::span<const RankSeconds> ranks,
           std::span<const double> messages)
      : shape_(shape), ranks_(ranks), messages_(messages) {
    const auto stages = static_cast<std::size_t>(shape.stages());
    const auto micro_batches = static_cast<std::size_t>(shape.micro_batches);
    made_.assign(stages, std::vector<double>(micro_batches, -1.0));
    returned_ = made_;
    free_.assign(ranks.size(), 0.0);
  }

  void run() {
    std::vector<std::vector<PipelineAction>> todo;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      PipelineRank rank = shape_;
      rank.rank = static_cast<std::int64_t>(r);
      todo.push_back(passes::pipeline_actions(rank));
    }
    std::vector<std::size_t> next(ranks_.size(), 0);
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < ranks_.size(); ++r)
        while (next[r] < todo[r].size() && ran(r, todo[r][next[r]])) ++next[r], moved = true;
    }
  }

  /// When the last rank is done.
  [[nodiscard]] double end() const { return *std::max_element(free_.begin(), free_.end()); }
  /// Seconds that ranks compute, all together.
  [[nodiscard]] double busy() const { return busy_; }
  /// What they did, by rank and in its order.
  [[nodiscard]] std::vector<profile::PipelineSlot> slots() const {
    std::vector<profile::PipelineSlot> all = slots_;
    std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
      return std::tie(a.rank, a.begin) < std::tie(b.rank, b.begin);
    });
    return all;
  }

 private:
  /// Seconds from the rank that has `stage` to the one that has the next, which may be the same.
  [[nodiscard]] double wire(std::int64_t stage) const {
    const std::int64_t from = shape_.rank_of(stage), to = shape_.rank_of(stage + 1);
    if (from == to) return 0;
    return messages_[static_cast<std::size_t>(to == from - 1 ? to : from)];
  }

  /// False: what it reads is not there yet.
  bool ran(std::size_t r, const PipelineAction& action) {
    const std::optional<PipelinePart> part = part_of(action.kind);
    if (!part) return true;
    PipelineRank rank = shape_;
    rank.rank = static_cast<std::int64_t>(r);
    const std::int64_t stage = rank.stage(action.chunk);
    const auto at = static_cast<std::size_t>(stage), micro = static_cast<std::size_t>(action.micro);
    const bool forward = *part == PipelinePart::forward;
    double begin = free_[r];
    if (forward && stage > 0) {
      const double before = made_[at - 1][micro];
      if (before < 0) return false;
      begin = std::max(begin, before + wire(stage - 1));
    }
    if (!forward && *part != PipelinePart::weight_backward && at + 1 < made_.size()) {
      const double after = returned_[at + 1][micro];
      if (after < 0) return false;
      begin = std::max(begin, after + wire(stage));
    }
    const double seconds =
        ranks_[r].stages[static_cast<std::size_t>(action.chunk)].*seconds_of(*part);
    free_[r] = begin + seconds;
    busy_ += seconds;
    if (forward) made_[at][micro] = free_[r];
    if (!forward && *part != PipelinePart::weight_backward) returned_[at][micro] = free_[r];
    if (seconds > 0)  // the first stage has no gradient to send
      slots_.push_back({rank.rank, stage, action.micro, *part, begin, free_[r]});
    return true;
  }

  PipelineRank shape_;
  std::span<const RankSeconds> ranks_;
  std::span<const double> messages_;
  std::vector<std::vector<double>> made_, returned_;  ///< by stage and micro-batch; -1: not yet
  std::vector<double> free_;                          ///< by rank: when it has nothing to do
  std::vector<profile::PipelineSlot> slots_;
  double busy_ = 0;
};

}  // namespace

RankSeconds rank_seconds(const PipelineRank& rank, const StepTime& time) {
  RankSeconds seconds;
  seconds.stages.resize(static_cast<std::size_t>(rank.chunks));
  const passes::WrittenSchedule written = passes::written_schedule(rank);
  RankSeconds times = seconds;  // that each part runs
  double busy = 0;
  for (std::size_t i = 0; i < written.actions.size(); ++i) {
    const PipelineAction& action = written.actions[i];
    const std::optional<PipelinePart> part = part_of(action.kind);
    if (!part) continue;
    const auto chunk = static_cast<std::size_t>(action.chunk);
    seconds.stages[chunk].*seconds_of(*part) += time.by_stretch[i];
    times.stages[chunk].*seconds_of(*part) += static_cast<double>(action.runs);
    busy += time.by_stretch[i];
  }
  for (std::size_t chunk = 0; chunk < seconds.stages.size(); ++chunk)
    for (const PipelinePart part : parts) {
      const double runs = times.stages[chunk].*seconds_of(part);
      if (runs > 0) seconds.stages[chunk].*seconds_of(part) /= runs;
    }
  seconds.after = std::max(0.0, time.step - busy);
  return seconds;
}

std::vector<double> message_seconds(std::int64_t bytes, const StepConfig& config,
                                    const Device& device) {
  const Run run = run_of(config);
  const std::int64_t node = device.ranks_of_node(run.node_size), ranks = config.layout.pp,
                     apart = config.layout.world / ranks;
  std::vector<double> seconds;
  for (std::int64_t r = 0; r < ranks; ++r) {
    const bool leaves = r * apart / node != (r + 1) % ranks * apart / node;
    seconds.push_back(send_seconds(static_cast<double>(bytes), leaves, device, run));
  }
  return seconds;
}

PipelineTime pipeline_time(const PipelineRank& shape, std::span<const RankSeconds> ranks,
                           std::span<const double> messages) {
  const std::int64_t n = shape.micro_batches;
  const bool rounds = shape.schedule == PipelineSchedule::interleaved ||
                      shape.schedule == PipelineSchedule::zero_bubble;
  const std::int64_t period = rounds ? n / shape.rounds() : 1;
  const auto run = [&](std::int64_t micro_batches) {
    PipelineRank shorter = shape;
    shorter.micro_batches = micro_batches;
    Timeline timeline(shorter, ranks, messages);
    timeline.run();
    return timeline;
  };
  const std::int64_t few = settled * (rounds ? 1 : shape.ranks) * period;
  const bool whole = n <= few + period;
  const Timeline first = run(whole ? n : few);
  double end = first.end(), busy = first.busy(), after = 0;
  if (!whole) {
    const Timeline longer = run(few + period);
    const auto more = static_cast<double>((n - few) / period);
    end += more * (longer.end() - first.end());
    busy += more * (longer.busy() - first.busy());
  }
  for (const RankSeconds& rank : ranks) after = std::max(after, rank.after);
  PipelineTime time;
  time.step = end + after;
  if (end > 0) time.bubble = 1.0 - busy / (end * static_cast<double>(ranks.size()));
  return time;
}

std::vector<profile::PipelineSlot> pipeline_slots(const PipelineRank& shape,
                                                  std::span<const RankSeconds> ranks,
                                                  std::span<const double> messages) {
  Timeline timeline(shape, ranks, messages);
  timeline.run();
  return timeline.slots();
}

}  // namespace ac_advisor::simulate
