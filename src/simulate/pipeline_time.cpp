#include "ac_advisor/simulate/pipeline_time.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "collective_time.hpp"

namespace ac_advisor::simulate {
namespace {

using passes::PipelineAction;
using passes::PipelineRank;
using Kind = PipelineAction::Kind;

/// Times that a schedule is periodic after so many times its ranks' number of micro-batches (or
/// rounds of interleaved schedules): the slowest stage has set the pace by then.
constexpr std::int64_t settled = 4;

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

  /// When the last rank is done.
  double run() {
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
    return *std::max_element(free_.begin(), free_.end());
  }

  /// What they did, by rank and in its order.
  [[nodiscard]] std::vector<profile::PipelineSlot> slots() const {
    std::vector<profile::PipelineSlot> all;
    for (std::int64_t stage = 0; stage < shape_.stages(); ++stage) {
      const std::int64_t rank = stage % shape_.ranks;
      const RankSeconds::Stage& seconds = ranks_[at(rank)].stages[at(stage / shape_.ranks)];
      for (std::int64_t micro = 0; micro < shape_.micro_batches; ++micro) {
        const double made = made_[at(stage)][at(micro)], returned = returned_[at(stage)][at(micro)];
        all.push_back({rank, stage, micro, false, made - seconds.forward, made});
        all.push_back({rank, stage, micro, true, returned - seconds.backward, returned});
      }
    }
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
      return std::tie(a.rank, a.begin) < std::tie(b.rank, b.begin);
    });
    return all;
  }

 private:
  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
  /// Seconds from the rank that has `stage` to the one that has the next.
  [[nodiscard]] double wire(std::size_t stage) const {
    return messages_[stage % static_cast<std::size_t>(shape_.ranks)];
  }

  /// False: what it reads is not there yet.
  bool ran(std::size_t r, const PipelineAction& action) {
    const bool forward = action.kind == Kind::forward;
    if (!forward && action.kind != Kind::backward) return true;
    const auto chunk = static_cast<std::size_t>(action.chunk),
               micro = static_cast<std::size_t>(action.micro);
    const std::size_t stage = chunk * static_cast<std::size_t>(shape_.ranks) + r;
    double begin = free_[r];
    if (forward && stage > 0) {
      const double before = made_[stage - 1][micro];
      if (before < 0) return false;
      begin = std::max(begin, before + wire(stage - 1));
    }
    if (!forward && stage + 1 < made_.size()) {
      const double after = returned_[stage + 1][micro];
      if (after < 0) return false;
      begin = std::max(begin, after + wire(stage));
    }
    const RankSeconds::Stage& seconds = ranks_[r].stages[chunk];
    free_[r] = begin + (forward ? seconds.forward : seconds.backward);
    (forward ? made_ : returned_)[stage][micro] = free_[r];
    return true;
  }

  PipelineRank shape_;
  std::span<const RankSeconds> ranks_;
  std::span<const double> messages_;
  std::vector<std::vector<double>> made_, returned_;  ///< by stage and micro-batch; -1: not yet
  std::vector<double> free_;                          ///< by rank: when it has nothing to do
};

}  // namespace

RankSeconds rank_seconds(const PipelineRank& rank, const StepTime& time) {
  RankSeconds seconds;
  seconds.stages.resize(static_cast<std::size_t>(rank.chunks));
  const passes::WrittenSchedule written = passes::written_schedule(rank);
  double busy = 0;
  for (std::size_t i = 0; i < written.actions.size(); ++i) {
    const PipelineAction& action = written.actions[i];
    RankSeconds::Stage& stage = seconds.stages[static_cast<std::size_t>(action.chunk)];
    const double each = time.by_stretch[i] / static_cast<double>(rank.micro_batches);
    if (action.kind == Kind::forward) stage.forward += each;
    if (action.kind == Kind::backward) stage.backward += each;
    if (action.kind == Kind::forward || action.kind == Kind::backward) busy += time.by_stretch[i];
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
  const bool rounds = shape.schedule == PipelineSchedule::interleaved;
  const std::int64_t period = rounds ? n / shape.rounds() : 1;
  const auto end_of = [&](std::int64_t micro_batches) {
    PipelineRank shorter = shape;
    shorter.micro_batches = micro_batches;
    return Timeline(shorter, ranks, messages).run();
  };
  const std::int64_t few = settled * (rounds ? 1 : shape.ranks) * period;
  double end = 0;
  if (n <= few + period) {
    end = end_of(n);
  } else {
    const double short_end = end_of(few), pace = end_of(few + period) - short_end;
    end = short_end + pace * static_cast<double>((n - few) / period);
  }
  double busy = 0, after = 0;
  for (const RankSeconds& rank : ranks) {
    for (const RankSeconds::Stage& stage : rank.stages)
      busy += static_cast<double>(n) * (stage.forward + stage.backward);
    after = std::max(after, rank.after);
  }
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
