// --ac budget:SIZE. Formulation: each block takes one mode out of none, attention, selective, full;
// minimise the recomputation time subject to allocated peak <= SIZE. Solver: blocks of one model
// are alike, so a plan is "the first c blocks full, the next b in one intermediate mode, the rest
// none" (what is recomputed first in backward is what is recomputed while least is saved); plans
// are taken in the order of their time, and the first whose simulated peak fits is the answer.
// Every budget walks the same order, so a larger one never gives a slower plan. The bound is the
// linear relaxation of the same knapsack with per-block savings. The estimates that order the plans
// may err by a little, so what one mode in all blocks was measured to do is compared at the end: no
// such mode fits the budget and recomputes less.
#include "budget.hpp"

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/passes.hpp"
#include "ac_advisor/simulate/clock.hpp"
#include "check_device.hpp"
#include "planned.hpp"

namespace ac_advisor::advise {
namespace {

struct Measured {
  std::int64_t peak = 0;
  double recompute = 0;
};

/// A mode applied to every block: what it saves and costs a block.
struct Choice {
  AcMode mode{};
  double bytes = 0;    ///< saved at the peak, a block
  double seconds = 0;  ///< recomputed, a block
};

/// One mode in all blocks, as it was measured.
struct Uniform {
  AcMode mode{};
  Measured measured;
};

struct Plan {
  double seconds = 0;
  std::int64_t full = 0, other = 0;
  std::size_t choice = 0;
  bool operator<(const Plan& o) const {
    return std::tie(seconds, full, other, choice) < std::tie(o.seconds, o.full, o.other, o.choice);
  }
};

class Solver {
 public:
  Solver(const model::ModelSpec& model, const StepConfig& config, const simulate::Device& device)
      : model_(model), config_(config), device_(device), blocks_(model.layers) {}

  Solved run() {
    none_ = measure(std::vector<AcMode>(size(), AcMode::none));
    const Measured all_full = measure(std::vector<AcMode>(size(), AcMode::full));
    if (all_full.peak > config_.memory.ac_arg && none_.peak > config_.memory.ac_arg)
      throw UserError("--ac budget:" + std::to_string(config_.memory.ac_arg) +
                      ": below what is feasible; the least peak of this configuration is " +
                      std::to_string(all_full.peak) + " bytes, with every block recomputed");
    choices_ = {choice(AcMode::full, all_full)};
    uniform_ = {{AcMode::none, none_}, {AcMode::full, all_full}};
    for (AcMode mode : {AcMode::attention, AcMode::selective}) {
      uniform_.push_back({mode, measure(std::vector<AcMode>(size(), mode))});
      const Choice c = choice(mode, uniform_.back().measured);
      if (c.bytes > 0.01 * choices_[0].bytes) choices_.push_back(c);
    }
    return search(all_full);
  }

 private:
  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(blocks_); }

  [[nodiscard]] StepConfig with(std::vector<AcMode> modes) const {
    StepConfig config = config_;
    config.memory.block_modes = std::move(modes);
    return config;
  }

  [[nodiscard]] Measured measure(const std::vector<AcMode>& modes) const {
    const StepConfig config = with(modes);
    const passes::StepProgram step = passes::build_step(model_, config);
    const passes::Schedule schedule = passes::make_schedule(step);
    Measured m;
    m.peak =
        simulate::walk_memory(step, schedule, memory_model(step, schedule, device_, config)).peak;
    m.recompute = simulate::walk_time(step, device_, simulate::run_of(config),
                                      config.run.grad_accum, config.runtime.cuda_graph)
                      .by_phase[static_cast<std::size_t>(ir::Phase::recompute)];
    return m;
  }

  [[nodiscard]] Choice choice(AcMode mode, const Measured& all) const {
    const double n = static_cast<double>(blocks_);
    return {mode, static_cast<double>(none_.peak - all.peak) / n, all.recompute / n};
  }

  [[nodiscard]] std::vector<AcMode> modes_of(const Plan& plan) const {
    std::vector<AcMode> modes(size(), AcMode::none);
    for (std::int64_t i = 0; i < plan.full; ++i) modes[static_cast<std::size_t>(i)] = AcMode::full;
    for (std::int64_t i = plan.full; i < plan.full + plan.other; ++i)
      modes[static_cast<std::size_t>(i)] = choices_[plan.choice].mode;
    return modes;
  }

  [[nodiscard]] std::vector<Plan> plans() const {
    std::vector<Plan> list;
    for (std::int64_t full = 0; full <= blocks_; ++full) {
      list.push_back({static_cast<double>(full) * choices_[0].seconds, full, 0, 0});
      for (std::size_t c = 1; c < choices_.size(); ++c)
        for (std::int64_t other = 1; full + other <= blocks_; ++other)
          list.push_back({static_cast<double>(full) * choices_[0].seconds +
                              static_cast<double>(other) * choices_[c].seconds,
                          full, other, c});
    }
    std::sort(list.begin(), list.end());
    return list;
  }

  /// The linear model's peak: within a percent where blocks are alike; only a filter.
  [[nodiscard]] double predicted(const Plan& plan) const {
    double peak =
        static_cast<double>(none_.peak) - static_cast<double>(plan.full) * choices_[0].bytes;
    if (plan.other > 0) peak -= static_cast<double>(plan.other) * choices_[plan.choice].bytes;
    return peak;
  }

  /// Least seconds of a fractional plan that saves `needed` bytes.
  [[nodiscard]] double relaxation(double needed) const {
    if (needed <= 0) return 0;
    const double n = static_cast<double>(blocks_);
    double best = n * choices_[0].seconds;
    for (const Choice& c : choices_)
      if (c.bytes * n >= needed) best = std::min(best, needed / c.bytes * c.seconds);
    for (const Choice& c : choices_)  // all blocks in `c`, some of them raised to full
      if (c.bytes * n < needed && choices_[0].bytes > c.bytes) {
        const double raised = (needed - c.bytes * n) / (choices_[0].bytes - c.bytes);
        if (raised <= n)
          best = std::min(best, n * c.seconds + raised * (choices_[0].seconds - c.seconds));
      }
    return best;
  }

  Solved search(const Measured& all_full) {
    const double budget = static_cast<double>(config_.memory.ac_arg);
    for (const Plan& plan : plans()) {
      if (predicted(plan) > budget * 1.02) continue;
      const std::vector<AcMode> modes = modes_of(plan);
      const Measured m = measure(modes);
      if (m.peak > config_.memory.ac_arg) continue;
      return finish(modes, m, all_full);
    }
    return finish(std::vector<AcMode>(size(), AcMode::full), all_full, all_full);
  }

  /// `modes`, or what fits too and recomputes less: one mode in all blocks.
  void prefer_uniform(std::vector<AcMode>& modes, Measured& m) const {
    for (const Uniform& u : uniform_) {
      if (u.measured.peak > config_.memory.ac_arg || u.measured.recompute >= m.recompute) continue;
      modes.assign(size(), u.mode);
      m = u.measured;
    }
  }

  Solved finish(std::vector<AcMode> modes, Measured m, const Measured& all_full) {
    prefer_uniform(modes, m);
    Solved solved;
    solved.step = passes::build_step(model_, with(modes));
    solved.block_modes = modes;
    profile::BudgetResult result;
    result.budget = config_.memory.ac_arg;
    result.least_feasible = std::min(all_full.peak, none_.peak);
    result.formulation =
        "one mode a block (none, attention, selective, full): least recomputation time with the "
        "allocated peak within the budget";
    result.solver = "plans in order of time, simulated until one fits; bound: linear relaxation";
    result.recompute_seconds = m.recompute;
    result.lower_bound_seconds = std::min(
        relaxation(static_cast<double>(none_.peak) - static_cast<double>(config_.memory.ac_arg)),
        m.recompute);
    result.gap = m.recompute > 0 ? 1.0 - result.lower_bound_seconds / m.recompute : 0.0;
    result.plan = describe(modes);
    solved.budget = result;
    return solved;
  }

  /// "blocks 0-3 full, block 4 selective, blocks 5-15 none"
  [[nodiscard]] static std::string describe(const std::vector<AcMode>& modes) {
    std::string text;
    for (std::size_t from = 0; from < modes.size();) {
      std::size_t to = from;
      while (to < modes.size() && modes[to] == modes[from]) ++to;
      StepConfig one;
      one.memory.ac = modes[from];
      text += (text.empty() ? "" : ", ") +
              (to - from == 1 ? "block " + std::to_string(from)
                              : "blocks " + std::to_string(from) + "-" + std::to_string(to - 1)) +
              " " + ac_option(one);
      from = to;
    }
    return text;
  }

  const model::ModelSpec& model_;
  const StepConfig& config_;
  const simulate::Device& device_;
  std::int64_t blocks_;
  Measured none_;
  std::vector<Uniform> uniform_;
  std::vector<Choice> choices_;  ///< full first
};

}  // namespace

Solved solve(const model::ModelSpec& model, const StepConfig& config,
             const simulate::Device& device) {
  check_device(model, config, device);
  if (config.memory.ac != AcMode::budget)
    return {passes::build_step(model, config), std::nullopt, {}};
  passes::validate(model, config);
  return Solver(model, config, device).run();
}

}  // namespace ac_advisor::advise
