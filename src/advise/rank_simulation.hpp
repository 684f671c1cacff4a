#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "ac_advisor/profile/profile.hpp"
#include "ac_advisor/simulate/clock.hpp"
#include "planned.hpp"

namespace ac_advisor::advise {

/// One rank's step, simulated: what no words are in, but for those about memory.
struct RankSimulation {
  PlannedMemory memory;
  std::vector<std::string> assumptions;  ///< what no figure of memory tells
  profile::Counts kernels;
  simulate::StepTime time;
  std::optional<profile::BudgetResult> budget;
  StepConfig settled;        ///< with what budget: chose
  std::int64_t trained = 0;  ///< elements of trained parameters, with adapters only
};
/// What is simulated where `config` is asked for: blocks that share keys and values are recomputed
/// by their parts.
[[nodiscard]] StepConfig simulated(const model::ModelSpec& model, StepConfig config);
[[nodiscard]] RankSimulation simulate_rank(const model::ModelSpec& model, const StepConfig& config,
                                           bool detail);

/// Simulations of one model's ranks, without detail, that configurations share: each is made once,
/// by the thread that claims it first.
class SharedRanks {
 public:
  class Slot {
   public:
    /// True for the first who asks: it has to call `make`.
    [[nodiscard]] bool claim();
    void make(const std::function<RankSimulation()>& simulate);
    /// Waits until it is made. Throws what `simulate` did.
    [[nodiscard]] const RankSimulation& get();

   private:
    std::mutex mutex_;
    std::condition_variable made_;
    bool claimed_ = false;
    std::optional<RankSimulation> result_;
    std::exception_ptr failure_;
  };

  /// Of the rank that `config` names; null where its step may be no other configuration's.
  [[nodiscard]] std::shared_ptr<Slot> slot(const model::ModelSpec& model, const StepConfig& config);

 private:
  struct Known {
    StepConfig config;
    std::shared_ptr<Slot> slot;
  };
  std::mutex mutex_;
  std::unordered_multimap<std::size_t, Known> known_;
};

/// The configuration that stands for all whose rank has the same step: a rank without the head has
/// no loss.
[[nodiscard]] std::optional<StepConfig> shared_by(const model::ModelSpec& model,
                                                  const StepConfig& config);

}  // namespace ac_advisor::advise
