#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "ac_advisor/passes/pipeline.hpp"

namespace ac_advisor::passes {

/// The actions of a rank, one after another.
class Actions {
  using Kind = PipelineAction::Kind;
  using What = Message::What;

 public:
  explicit Actions(const PipelineRank& rank) : r_(rank) {}

  /// `replaced` goes when the output is made, before the loss of it is.
  void forward(std::int64_t chunk, std::int64_t micro, std::vector<Message> replaced = {}) {
    add(Kind::forward, chunk, micro, std::move(replaced));
  }
  void backward(std::int64_t chunk, std::int64_t micro) { add(Kind::backward, chunk, micro); }
  void input_backward(std::int64_t chunk, std::int64_t micro) {
    add(Kind::input_backward, chunk, micro);
  }
  void weight_backward(std::int64_t chunk, std::int64_t micro) {
    add(Kind::weight_backward, chunk, micro);
  }
  void exchange(std::vector<Message> messages) {
    std::erase_if(messages, [&](const Message& m) { return !crosses(m); });
    if (!messages.empty()) add(Kind::exchange, 0, 0, std::move(messages));
  }
  void let_go(std::vector<Message> messages) { add(Kind::let_go, 0, 0, std::move(messages)); }
  void reduce(std::int64_t chunk) { add(Kind::reduce, chunk, 0); }

  std::size_t count() const { return all_.size(); }
  std::vector<PipelineAction> take() { return std::move(all_); }

 private:
  /// The first stage receives token ids and the last one sends nothing; what a rank's stages hand
  /// to each other stays where it is.
  [[nodiscard]] bool crosses(const Message& m) const {
    const bool before = m.what == What::input || m.what == What::input_gradient;
    const std::int64_t stage = r_.stage(m.chunk);
    return before ? stage > 0 && !r_.before_is_own(m.chunk)
                  : stage + 1 < r_.stages() && !r_.after_is_own(m.chunk);
  }
  void add(Kind kind, std::int64_t chunk, std::int64_t micro, std::vector<Message> messages = {}) {
    all_.push_back({kind, chunk, micro, std::move(messages), 1});
  }

  const PipelineRank& r_;
  std::vector<PipelineAction> all_;
};

/// The actions of _PipelineScheduleRuntime, which sends and receives each message by itself
/// (PyTorch v2.11, schedules.py). A stage of the rank takes its micro-batches in turn; those that
/// there are not are left out.
class RuntimeActions {
 public:
  explicit RuntimeActions(const PipelineRank& rank)
      : r_(rank), to_(rank), counts_(static_cast<std::size_t>(rank.chunks)) {}

  void forward(std::int64_t chunk);
  void backward(std::int64_t chunk);
  void input_backward(std::int64_t chunk);
  /// The last one of a stage is followed by the reduction (_add_reduce_grad), as a whole one is.
  void weight_backward(std::int64_t chunk);

  /// How many there have been of a stage.
  [[nodiscard]] std::int64_t forwards(std::int64_t chunk) const { return of(chunk).forwards; }
  [[nodiscard]] std::int64_t inputs(std::int64_t chunk) const { return of(chunk).inputs; }
  [[nodiscard]] std::int64_t weights(std::int64_t chunk) const { return of(chunk).weights; }

  /// Where a period begins that stands for others, and where it ends.
  void begin_period() { period_[0] = to_.count(); }
  void end_period() { period_[1] = to_.count(); }
  /// All of them; the period's run so often.
  std::vector<PipelineAction> take(std::int64_t runs);

 private:
  struct Counts {
    std::int64_t forwards = 0, inputs = 0, weights = 0;
  };
  [[nodiscard]] const Counts& of(std::int64_t chunk) const {
    return counts_[static_cast<std::size_t>(chunk)];
  }
  Counts& of(std::int64_t chunk) { return counts_[static_cast<std::size_t>(chunk)]; }
  [[nodiscard]] bool is_run(std::int64_t micro) const { return micro < r_.micro_batches; }
  void reduce_after(std::int64_t chunk, std::int64_t micro);

  const PipelineRank& r_;
  Actions to_;
  std::size_t period_[2] = {};
  std::vector<Counts> counts_;
};

/// What _get_warmup_ops and _get_1f1b_rank_ops derive of the number of micro-batches.
struct Rounds {
  Rounds(const PipelineRank& r, std::int64_t multiply_factor)
      : micro_batches(r.micro_batches / r.rounds()),
        all(r.chunks * r.micro_batches),
        warm_up(std::min((r.chunks - 1) * micro_batches + multiply_factor * (r.ranks - 1 - r.rank),
                         all)),
        chunks(r.chunks) {}
  std::int64_t micro_batches;  ///< of a round
  std::int64_t all;            ///< forwards of the rank
  std::int64_t warm_up;        ///< of these, before the first backward
  std::int64_t chunks;

  [[nodiscard]] std::int64_t pairs() const { return chunks * micro_batches; }  ///< of a round
  /// The stage of the rank's so-manieth forward, and backward.
  [[nodiscard]] std::int64_t forward(std::int64_t op) const { return op / micro_batches % chunks; }
  [[nodiscard]] std::int64_t backward(std::int64_t op) const { return chunks - 1 - forward(op); }
};

/// ScheduleInterleavedZeroBubble, ScheduleZBVZeroBubble, ScheduleDualPipeV. A period of the steady
/// state (of rounds: the second one's) is said to run so often.
[[nodiscard]] std::vector<PipelineAction> zero_bubble(const PipelineRank& rank, std::int64_t runs);
[[nodiscard]] std::vector<PipelineAction> zero_bubble_v(const PipelineRank& rank,
                                                        std::int64_t runs);
[[nodiscard]] std::vector<PipelineAction> dual_pipe_v(const PipelineRank& rank, std::int64_t runs);

}  // namespace ac_advisor::passes
