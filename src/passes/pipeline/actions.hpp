#pragma once

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
/// (PyTorch v2.11, schedules.py).
class RuntimeActions {
 public:
  explicit RuntimeActions(const PipelineRank& rank)
      : r_(rank), to_(rank), backwards_(static_cast<std::size_t>(rank.chunks), 0) {}

  void forward(std::int64_t chunk, std::int64_t micro);
  void backward(std::int64_t chunk, std::int64_t micro);
  void input_backward(std::int64_t chunk, std::int64_t micro);
  /// The last one of a stage is followed by the reduction (_add_reduce_grad), as a whole one is.
  void weight_backward(std::int64_t chunk, std::int64_t micro);

  /// Where a period begins that stands for others, and where it ends.
  void begin_period() { period_[0] = to_.count(); }
  void end_period() { period_[1] = to_.count(); }
  /// All of them; the period's run so often.
  std::vector<PipelineAction> take(std::int64_t runs);

 private:
  void reduce_after(std::int64_t chunk);

  const PipelineRank& r_;
  Actions to_;
  std::size_t period_[2] = {};
  std::vector<std::int64_t> backwards_;  ///< by stage of the rank, that have given their weights'
};

/// ScheduleInterleavedZeroBubble, ScheduleZBVZeroBubble, ScheduleDualPipeV. A period of the steady
/// state (of rounds: the second one's) is said to run so often.
[[nodiscard]] std::vector<PipelineAction> zero_bubble(const PipelineRank& rank, std::int64_t runs);
[[nodiscard]] std::vector<PipelineAction> zero_bubble_v(const PipelineRank& rank,
                                                        std::int64_t runs);
[[nodiscard]] std::vector<PipelineAction> dual_pipe_v(const PipelineRank& rank, std::int64_t runs);

}  // namespace ac_advisor::passes
