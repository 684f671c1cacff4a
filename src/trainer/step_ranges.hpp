#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "ac_advisor/ir/program.hpp"
#include "trainer/counters/counters.hpp"
#include "trainer/nvtx/nvtx.hpp"

namespace ac_advisor::trainer {

/// Tells who measures where the step is: an NVTX range a phase ("backward") and inside it one a
/// module path ("blocks.3.mlp"), and where hardware is counted a range of the counters a phase.
class StepRanges {
 public:
  /// `counters`, if any, have begun. `wait` until the device is idle: a range counts what runs
  /// between its push and its pop, so nothing may be queued when a phase ends.
  StepRanges(Counters* counters, std::function<void()> wait)
      : counters_(counters), wait_(std::move(wait)) {}
  ~StepRanges() { leave(); }
  StepRanges(const StepRanges&) = delete;
  StepRanges& operator=(const StepRanges&) = delete;

  /// This op runs next.
  void at(const ir::Op& op);
  /// No op follows.
  void end();
  /// How many phases were entered: what Counters::begin wants to know.
  [[nodiscard]] std::int64_t phases_entered() const { return phases_entered_; }

 private:
  void leave();

  Counters* counters_;
  std::function<void()> wait_;
  std::optional<ir::Phase> phase_;
  std::optional<ir::ModulePath> module_;
  nvtx::Range phase_range_, module_range_;  // closed in the other order
  std::int64_t phases_entered_ = 0;
};

}  // namespace ac_advisor::trainer
