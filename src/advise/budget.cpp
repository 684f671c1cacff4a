// --ac budget:SIZE. Formulation: each block takes one mode out of none, attention, selective, full;
// minimise what recomputation adds to the step subject to allocated peak <= SIZE: not its kernels'
// time, as a step that waits for the host pays launches, and a compiled backward recomputes within
// its own kernels. Solver: blocks of one model are alike, so a plan is "the first c blocks full,
// the next b in one intermediate mode, the rest none" (what is recomputed first in backward is what
// is recomputed while least is saved); plans are taken in the order of their time, and the first
// whose simulated peak fits is the answer. The bound is the linear relaxation of the same knapsack
// with per-block savings. The estimates that order the plans err where the step waits for the host,
// and one mode over all blocks may be no such plan (grouped:K, every:K, sqrt), so at the end these
// are planned too: none fits the budget and makes a faster step than the answer. Of compiled blocks
// (--kernels compiled) the modes are none, selective, full and PyTorch's own memory-budget:F. Every
// different cut that F gives is found by halving the interval, and is among the plans over all
// blocks, so that no F holds no more and is faster.
#include "budget.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/exclusion.hpp"
#include "ac_advisor/passes/passes.hpp"
#include "ac_advisor/simulate/clock.hpp"
#include "check_device.hpp"
#include "critic.hpp"
#include "plan_rank.hpp"
#include "planned.hpp"

namespace ac_advisor::advise {
namespace {

struct Measured {
  std::int64_t peak = 0;
  double added = 0;  ///< seconds, to the step without checkpoints
};

/// A mode applied to every block: what it saves and costs a block.
struct Choice {
  AcMode mode{};
  double share = 1;    ///< of memory-budget:F
  double bytes = 0;    ///< saved at the peak, a block
  double seconds = 0;  ///< added to the step, a block
};

/// A mode a block; or one mode over all of them, whose regions may be several blocks.
struct Modes {
  std::vector<AcMode> of;
  AcMode all = AcMode::budget;
  std::int64_t k = 0;  ///< of grouped:K
  double share = 1;    ///< of the blocks in memory-budget:F

  /// The configuration that has them.
  [[nodiscard]] StepConfig in(StepConfig config) const {
    config.memory.ac = all;
    if (all == AcMode::budget) config.memory.block_modes = of;
    config.memory.memory_budget = share;
    if (all != AcMode::budget) config.memory.ac_arg = k;
    return config;
  }
};

/// One mode over all blocks, as it was measured.
struct Uniform {
  Modes modes;
  Measured measured;
};

/// How finely F is told apart in memory-budget:F, and from which steps on it is halved.
constexpr int most_shares = 100, first_shares = 4;

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
      : model_(model),
        config_(config),
        device_(device),
        compiled_(config.memory.kernels == Kernels::compiled),
        blocks_(model.layers) {}

  Solved run() {
    none_ = measure(all(AcMode::none));
    without_ = none_.added;
    none_.added = 0;
    const Uniform full{all(AcMode::full), measure(all(AcMode::full))};
    uniform_ = {{all(AcMode::none), none_}, full};
    choices_ = {choice(full)};
    if (!compiled_) add_choice(all(AcMode::attention));
    add_choice(all(AcMode::selective));
    if (compiled_)
      add_shares();
    else
      add_segments();
    const auto least = std::min_element(
        uniform_.begin(), uniform_.end(),
        [](const Uniform& a, const Uniform& b) { return a.measured.peak < b.measured.peak; });
    if (!fits(least->measured)) refuse(*least);
    return search(full);
  }

 private:
  /// The configuration that has these modes. Where no block recomputes nothing is checkpointed, and
  /// PEFT then asks for no gradient of the input: that is --ac none, where it is planned.
  [[nodiscard]] StepConfig configured(const Modes& modes) const {
    StepConfig config = modes.in(config_);
    if (modes.all != AcMode::budget ||
        !std::all_of(modes.of.begin(), modes.of.end(), [](AcMode m) { return m == AcMode::none; }))
      return config;
    StepConfig none = config;
    none.memory.ac = AcMode::none;
    none.memory.ac_arg = 0;
    none.memory.block_modes.clear();
    return passes::find_exclusion(model_, none) == nullptr ? none : config;
  }
  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(blocks_); }
  [[nodiscard]] Modes all(AcMode mode, double share = 1) const {
    return {std::vector<AcMode>(size(), mode), AcMode::budget, 0, share};
  }
  [[nodiscard]] bool fits(const Measured& m) const { return m.peak <= config_.memory.ac_arg; }

  [[noreturn]] void refuse(const Uniform& least) const {
    const double gib = static_cast<double>(std::int64_t{1} << 30);
    throw UserError(fmt::format(
        "--ac {}: below what is feasible; the least peak of this configuration is {} bytes, with "
        "{}: use budget:{:.2f}GiB or more",
        ac_option(config_), least.measured.peak, describe(least.modes),
        std::ceil(static_cast<double>(least.measured.peak) / gib * 100) / 100));
  }

  [[nodiscard]] Measured measure(const Modes& modes) const {
    const StepConfig config = configured(modes);
    const passes::StepProgram step = passes::build_step(model_, config);
    const passes::Schedule schedule = passes::make_schedule(step);
    Measured m;
    m.peak =
        simulate::walk_memory(step, schedule, memory_model(step, schedule, device_, config)).peak;
    const simulate::StepTime time = simulate::walk_time(
        step, device_, simulate::run_of(config), config.run.grad_accum, config.runtime.cuda_graph);
    m.added = time.step - without_;
    return m;
  }

  [[nodiscard]] Choice choice(const Uniform& all) const {
    const double n = static_cast<double>(blocks_);
    return {all.modes.of.front(), all.modes.share,
            static_cast<double>(none_.peak - all.measured.peak) / n, all.measured.added / n};
  }
  void add_choice(const Modes& modes) {
    add(modes);
    const Choice c = choice(uniform_.back());
    if (c.bytes > 0.01 * choices_[0].bytes) choices_.push_back(c);
  }

  /// memory-budget:F over all blocks, each different cut once; blocks may be in those that no mix
  /// of two others equals.
  void add_shares() {
    const auto measured = [this](int n) {
      const Modes modes = all(AcMode::memory_budget, static_cast<double>(n) / most_shares);
      return Uniform{modes, measure(modes)};
    };
    std::vector<Uniform> shares;
    Uniform last = uniform_[1];  // full: as a share of 0
    for (int n = first_shares; n <= most_shares; n += first_shares) {
      const Uniform next = measured(n);
      add_between(n - first_shares, last, n, next, measured, shares);
      last = next;
    }
    for (const Uniform& share : shares) {
      uniform_.push_back(share);
      const Choice c = choice(share);
      if (c.bytes > 0.01 * choices_[0].bytes && !is_mixed(c, shares)) choices_.push_back(c);
    }
  }
  /// What lies between two shares and at the second, where it differs from what is there.
  template <typename Measure>
  void add_between(int from, const Uniform& low, int to, const Uniform& high,
                   const Measure& measured, std::vector<Uniform>& into) const {
    if (same(low.measured, high.measured)) return;
    if (to - from > 1) {
      const int middle = (from + to) / 2;
      const Uniform between = measured(middle);
      add_between(from, low, middle, between, measured, into);
      add_between(middle, between, to, high, measured, into);
    } else {
      into.push_back(high);
    }
  }
  static bool same(const Measured& a, const Measured& b) {
    return a.peak == b.peak && std::abs(a.added - b.added) < 1e-9;
  }
  /// Whether two others, each in a part of the blocks, save as much in no more time; none is one.
  [[nodiscard]] bool is_mixed(const Choice& c, const std::vector<Uniform>& shares) const {
    std::vector<Choice> others{{}};
    for (const Uniform& share : shares) others.push_back(choice(share));
    for (const Choice& a : others)
      for (const Choice& b : others) {
        if (a.bytes >= c.bytes || b.bytes <= c.bytes) continue;
        const double part = (c.bytes - a.bytes) / (b.bytes - a.bytes);
        if (a.seconds + part * (b.seconds - a.seconds) <= c.seconds) return true;
      }
    return false;
  }

  [[nodiscard]] Modes modes_of(const Plan& plan) const {
    Modes modes = all(AcMode::none);
    for (std::int64_t i = 0; i < plan.full; ++i)
      modes.of[static_cast<std::size_t>(i)] = AcMode::full;
    for (std::int64_t i = plan.full; i < plan.full + plan.other; ++i)
      modes.of[static_cast<std::size_t>(i)] = choices_[plan.choice].mode;
    if (plan.other > 0) modes.share = choices_[plan.choice].share;
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

  Solved search(const Uniform& full) {
    const double budget = static_cast<double>(config_.memory.ac_arg);
    for (const Plan& plan : plans()) {
      if (predicted(plan) > budget * 1.02) continue;
      const Modes modes = modes_of(plan);
      const Measured m = measure(modes);
      if (fits(m)) return finish(modes, m);
    }
    return finish(full.modes, full.measured);
  }

  /// grouped:K and sqrt, whose regions are several blocks: they recompute every block, but may hold
  /// less than full. K inputs less and K blocks' activations more: least at the square root of
  /// blocks times input over activations, and a block's input is less than what it keeps.
  void add_segments() {
    const auto root = static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(blocks_))));
    for (std::int64_t k = 2; k <= std::min(blocks_, root + 1); ++k) add({{}, AcMode::grouped, k});
    add({{}, AcMode::sqrt});
  }

  /// every:K where it may fit: of those that recompute as many blocks the least K and the largest.
  void add_every() {
    const double budget = static_cast<double>(config_.memory.ac_arg);
    const auto recomputed = [this](std::int64_t k) { return (blocks_ + k - 1) / k; };
    for (std::int64_t k = 2; k <= blocks_; ++k) {
      const std::int64_t full = recomputed(k);
      if (recomputed(k - 1) == full && k < blocks_ && recomputed(k + 1) == full) continue;
      if (predicted({0, full, 0, 0}) > budget * 1.02) continue;
      Modes modes = all(AcMode::none);
      for (std::int64_t i = 0; i < blocks_; i += k)
        modes.of[static_cast<std::size_t>(i)] = AcMode::full;
      add(modes);
    }
  }

  void add(const Modes& modes) { uniform_.push_back({modes, measure(modes)}); }

  /// `modes`, or one mode over all blocks that fits too and adds less, or as much and holds less.
  void prefer_uniform(Modes& modes, Measured& m) {
    add_every();
    for (const Uniform& u : uniform_) {
      if (!fits(u.measured)) continue;
      const bool better =
          u.measured.added < m.added || (u.measured.added == m.added && u.measured.peak < m.peak);
      if (fits(m) && !better) continue;
      modes = u.modes;
      m = u.measured;
    }
  }

  Solved finish(Modes modes, Measured m) {
    prefer_uniform(modes, m);
    Solved solved;
    solved.settled = configured(modes);
    solved.step = passes::build_step(model_, solved.settled);
    profile::BudgetResult result;
    result.budget = config_.memory.ac_arg;
    result.least_feasible = none_.peak;
    for (const Uniform& u : uniform_)
      result.least_feasible = std::min(result.least_feasible, u.measured.peak);
    result.formulation = fmt::format(
        "one mode per block ({}: least time added to the step with the allocated peak within the "
        "budget",
        compiled_ ? "none, selective, full, memory-budget:F)"
                  : "none, attention, selective, full), or every:K, grouped:K, sqrt over all");
    result.solver = "plans in order of time, simulated until one fits; bound: linear relaxation";
    result.recompute_seconds = m.added;
    result.lower_bound_seconds = std::min(
        relaxation(static_cast<double>(none_.peak) - static_cast<double>(config_.memory.ac_arg)),
        m.added);
    result.gap = m.added > 0 ? 1.0 - result.lower_bound_seconds / m.added : 0.0;
    result.plan = describe(modes);
    solved.budget = result;
    return solved;
  }

  /// "blocks 0-3 full, block 4 selective, blocks 5-15 none"
  [[nodiscard]] std::string describe(const Modes& plan) const {
    if (plan.all != AcMode::budget) return "all blocks " + ac_option(plan.in(config_));
    const std::vector<AcMode>& modes = plan.of;
    std::string text;
    for (std::size_t from = 0; from < modes.size();) {
      std::size_t to = from;
      while (to < modes.size() && modes[to] == modes[from]) ++to;
      StepConfig one;
      one.memory.ac = modes[from];
      one.memory.memory_budget = plan.share;
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
  bool compiled_;
  std::int64_t blocks_;
  double without_ = 0;  ///< seconds of the step without checkpoints
  Measured none_;
  std::vector<Uniform> uniform_;
  std::vector<Choice> choices_;  ///< full first
};

}  // namespace

Solved solve(const model::ModelSpec& model, const StepConfig& config,
             const simulate::Device& device) {
  check_device(model, config, device);
  if (misses_critic(config)) return solve(model, beside_critic(model, config), device);
  if (config.layout.pp > 1 && config.layout.pp_rank == Layout::highest_rank) {
    passes::validate(model, config);
    StepConfig one = config;
    one.layout.pp_rank = highest_rank(model, config);
    return solve(model, one, device);
  }
  if (config.memory.ac != AcMode::budget)
    return {passes::build_step(model, config), std::nullopt, config};
  passes::validate(model, config);
  return Solver(model, config, device).run();
}

}  // namespace ac_advisor::advise
