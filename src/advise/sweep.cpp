#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/advise/export.hpp"
#include "ac_advisor/model/layers.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/exclusion.hpp"
#include "ac_advisor/simulate/device.hpp"
#include "best_first.hpp"
#include "held_at_least.hpp"
#include "largest_fit.hpp"
#include "lighter.hpp"
#include "model/grouped.hpp"
#include "parallel.hpp"
#include "plan_rank.hpp"
#include "savings.hpp"
#include "setting.hpp"

namespace ac_advisor::advise {
namespace {

std::string label_of(const StepConfig& c) {
  const std::string label = setting(c) + fmt::format(" b{}", c.run.batch);
  return c.run.grad_accum > 1 ? label + fmt::format("x{}", c.run.grad_accum) : label;
}

void mark_pareto(std::vector<Row>& rows) {
  const auto beats = [](const Row& b, const Row& a) {
    const auto &ma = a.profile.memory, &mb = b.profile.memory;
    const double ta = a.profile.time.tokens_per_second, tb = b.profile.time.tokens_per_second;
    return b.unavailable.empty() && mb.peak_allocated <= ma.peak_allocated && tb >= ta &&
           (mb.peak_allocated < ma.peak_allocated || tb > ta);
  };
  for (Row& a : rows)
    a.pareto = a.unavailable.empty() &&
               std::none_of(rows.begin(), rows.end(), [&](const Row& b) { return beats(b, a); });
}

/// First what can be had and fits, by throughput; then what fits and the framework lacks; then what
/// does not fit, the nearest first.
void rank_rows(std::vector<Row>& rows) {
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    if (a.fits != b.fits) return a.fits;
    if (a.unavailable.empty() != b.unavailable.empty()) return a.unavailable.empty();
    if (!a.fits) return a.profile.fit.required < b.profile.fit.required;
    return a.profile.time.tokens_per_second > b.profile.time.tokens_per_second;
  });
  int rank = 0;
  for (Row& row : rows)
    if (row.fits && row.unavailable.empty()) row.rank = ++rank;
}

std::string lacks(const profile::Fit& fit) {
  const auto gib = [](std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); };
  if (fit.pressure && fit.pressure->excess == 0)
    return fmt::format("does not fit, by fragmentation: {:.1f} GiB would be reserved of {:.1f}",
                       gib(fit.pressure->unlimited_reserved), gib(fit.limit()));
  return fmt::format("allocates {:.1f} GiB more than the device has",
                     gib(fit.required - fit.usable));
}

void explain_rows(std::vector<Row>& rows) {
  for (Row& row : rows) {
    const profile::Fit& fit = row.profile.fit;
    if (!row.unavailable.empty()) {
      row.why = "not available: " + row.unavailable;
    } else if (!row.fits) {
      row.why = lacks(fit);
    } else if (row.rank == 1) {
      row.why = "fastest that fits";
    } else if (row.pareto) {
      row.why = "no faster row uses less memory";
    } else {
      const double behind =
          100.0 *
          (rows.front().profile.time.tokens_per_second / row.profile.time.tokens_per_second - 1.0);
      row.why = fmt::format("{:.1f} % slower than the first", behind);
    }
  }
}

std::string nothing(const Sweep& sweep) {
  const std::vector<Row>& rows = sweep.rows;
  if (rows.empty()) return "nothing to recommend: no combination is valid";
  const std::string& framework = sweep.base.runtime.framework;
  if (rows.front().fits)
    return fmt::format(
        "nothing to recommend: {} has none of what fits; the fastest of it, {}, is {}", framework,
        rows.front().label, rows.front().why);
  const auto nearest = std::find_if(rows.begin(), rows.end(),
                                    [](const Row& row) { return row.unavailable.empty(); });
  if (nearest != rows.end())
    return fmt::format("nothing fits; the nearest, {}, {}", nearest->label, nearest->why);
  return fmt::format("nothing fits, and {} has none of it: {}", framework,
                     rows.front().unavailable);
}

std::string recommend(const Sweep& sweep) {
  if (sweep.recommended == sweep.rows.size()) return nothing(sweep);
  const Row& best = sweep.rows[sweep.recommended];
  const auto usable = static_cast<double>(best.profile.fit.usable);
  const bool some_unavailable =
      std::any_of(sweep.rows.begin(), sweep.rows.end(),
                  [](const Row& row) { return !row.unavailable.empty(); });
  const bool precomputes = best.profile.config.task.reference == Reference::precomputed;
  return fmt::format(
      "use {}: peak {:.2f} GiB ({:.1f} of {:.1f} GiB incl. CUDA context and margin), {} {} "
      "tokens/s, the fastest {}configuration that fits{}",
      best.label, static_cast<double>(best.profile.memory.peak_allocated) / (1 << 30),
      static_cast<double>(best.profile.fit.required) / (1 << 30), usable / (1 << 30),
      best.profile.time.basis == profile::TimeBasis::estimate ? "an estimated" : "a calibrated",
      model::grouped(static_cast<std::int64_t>(best.profile.time.tokens_per_second)),
      some_unavailable ? "supported " : "",
      precomputes ? "; the pass over the data set that computes the reference's log-probabilities "
                    "before training is not in its time"
                  : "");
}

/// A sweep that was to try `technique`, `c`, and has no row that is `one_of` it says why, where the
/// framework could.
void tell_untried(Sweep& sweep, const char* technique, const StepConfig& c,
                  bool (*one_of)(const StepConfig&)) {
  if (std::any_of(sweep.rows.begin(), sweep.rows.end(),
                  [&](const Row& row) { return one_of(row.profile.config); }))
    return;
  const passes::Exclusion* excluded = passes::find_exclusion(sweep.model, c);
  if (excluded == nullptr || !unavailable(sweep.model, c).empty()) return;
  // What is in the way of others' layers, too, says more than what is in that of its own.
  StepConfig around = c;
  if (model::has_own_layers(c.run.transformer_impl))
    around.run.transformer_impl = TransformerImpl::hf;
  const passes::Exclusion* still = passes::find_exclusion(sweep.model, around);
  sweep.not_planned.push_back({technique, still != nullptr
                                              ? passes::message(*still, sweep.model, around)
                                              : passes::message(*excluded, sweep.model, c)});
}

void tell_untried(Sweep& sweep, const Space& space) {
  for (const Axis& axis : space.axes) {
    StepConfig c = sweep.base;
    if (axis.option == "--tp" && axis.values.size() > 1) {
      c.layout.tp = std::stoll(axis.values[1]);
      tell_untried(sweep, "tensor parallelism", c,
                   [](const StepConfig& row) { return row.layout.tp > 1; });
    }
    if (axis.option == "--cp" && axis.values.size() > 1) {
      c.layout.cp = std::stoll(axis.values[1]);
      c.layout.shard = Sharding::fsdp2;
      tell_untried(sweep, "context parallelism", c,
                   [](const StepConfig& row) { return row.layout.cp > 1; });
    }
    if (axis.option == "--ep" && axis.values.size() > 1) {
      c.layout.ep = std::stoll(axis.values[1]);
      c.layout.shard = Sharding::fsdp2;
      tell_untried(sweep, "expert parallelism", c,
                   [](const StepConfig& row) { return row.layout.ep > 1; });
    }
    if (axis.option == "--pp" && axis.values.size() > 1) {
      c.layout.pp = std::stoll(axis.values[1]);
      c.run.grad_accum = std::max(c.run.grad_accum, c.layout.pp);
      tell_untried(sweep, "pipelines", c, [](const StepConfig& row) { return row.layout.pp > 1; });
    }
    if (axis.option == "--kernels" && axis.values.size() > 1 &&
        c.runtime.kind == Runtime::pytorch) {
      c.memory.kernels = Kernels::compiled;
      c.memory.ac = AcMode::none;
      tell_untried(sweep, "compiled blocks", c,
                   [](const StepConfig& row) { return row.memory.kernels == Kernels::compiled; });
    }
  }
}

/// "needs 3.1 GiB more than the device has", "12.0 % slower than tp 2"
std::string against(const Row& row, const Row& best) {
  if (&row == &best) return "the best of all";
  if (!row.fits || !row.unavailable.empty()) return row.why;
  const double behind =
      best.profile.time.tokens_per_second / row.profile.time.tokens_per_second - 1.0;
  return fmt::format("{:.1f} % slower than {}", 100.0 * behind,
                     split_words(best.profile.config.layout));
}

/// What is simulated next: all that nothing lighter waits for. What allocates more than one that
/// allocates too much is left out.
class InTurn {
 public:
  explicit InTurn(const std::vector<StepConfig>& list)
      : lighter_(lighter_pipelines(list)), state_(list.size(), State::waits) {}

  [[nodiscard]] bool done() const {
    return std::find(state_.begin(), state_.end(), State::waits) == state_.end();
  }
  std::vector<std::size_t> next() {
    std::vector<std::size_t> list;
    for (std::size_t i = 0; i < state_.size(); ++i) {
      if (state_[i] != State::waits) continue;
      if (any(i, State::too_large)) {
        state_[i] = State::too_large;
        ++skipped_;
      } else if (!any(i, State::waits)) {
        list.push_back(i);
      }
    }
    return list;
  }
  void simulated(std::size_t i, const profile::Profile& planned) {
    state_[i] = tried(planned).allocates ? State::allocates : State::too_large;
  }
  [[nodiscard]] std::size_t skipped() const { return skipped_; }

 private:
  enum class State : std::uint8_t { waits, allocates, too_large };
  [[nodiscard]] bool any(std::size_t i, State state) const {
    return std::any_of(lighter_[i].begin(), lighter_[i].end(),
                       [&](std::size_t j) { return state_[j] == state; });
  }

  std::vector<std::vector<std::size_t>> lighter_;
  std::vector<State> state_;
  std::size_t skipped_ = 0;
};

/// Takes out the pipelines, and Megatron's mixtures in parts, that cannot fit, whatever is
/// recomputed; says how many.
std::size_t drop_too_large(const model::ModelSpec& model, std::vector<StepConfig>& list) {
  return std::erase_if(list, [&](const StepConfig& c) {
    return (c.layout.pp > 1 || (c.megatron() && c.layout.ep > 1)) &&
           held_at_least(model, c) > simulate::find_device(c.device.gpu).usable_bytes;
  });
}

}  // namespace

std::string split_words(const Layout& layout) {
  return fmt::format("tp {}", layout.tp) + (layout.cp > 1 ? fmt::format(" cp {}", layout.cp) : "") +
         (layout.ep > 1 ? fmt::format(" ep {}", layout.ep) : "") +
         (layout.pp > 1 ? fmt::format(" pp {}", layout.pp) : "");
}

std::vector<LayoutChoice> layouts(const Sweep& sweep) {
  std::vector<LayoutChoice> choices;
  for (std::size_t i = 0; i < sweep.rows.size(); ++i) {
    const Layout& layout = sweep.rows[i].profile.config.layout;
    const bool seen = std::any_of(choices.begin(), choices.end(), [&](const LayoutChoice& choice) {
      return choice.tp == layout.tp && choice.cp == layout.cp && choice.ep == layout.ep &&
             choice.pp == layout.pp;
    });
    if (!seen)
      choices.push_back({layout.tp, layout.cp, layout.ep, layout.pp, i,
                         against(sweep.rows[i], sweep.rows.front())});
  }
  if (choices.size() < 2) choices.clear();
  return choices;
}

Sweep sweep(const model::ModelSpec& model, const StepConfig& base, const Space& space) {
  Sweep result;
  result.model = model;
  result.base = base;
  result.varies_global_batch = space.vary_global_batch;
  std::vector<StepConfig> list = combinations(model, base, space);
  // What bounds TorchTitan's layouts in a large search does not bound Megatron's.
  const bool large = list.size() > space.simulate_up_to && !base.megatron();
  if (!large) result.too_large = drop_too_large(model, list);
  result.rows.resize(list.size());
  const unsigned threads = threads_of(space.threads);
  // The largest batch is worth its simulations only for rows that a table shows.
  std::size_t simulations = list.size(), shown = std::min(simulations, space.largest_batches);
  std::atomic<std::size_t> done{0};
  SharedRanks ranks;
  const auto tell = [&] {
    const std::size_t now = ++done;
    if (space.progress) space.progress(now, std::max(now, simulations + shown));
  };
  const auto simulate = [&](std::size_t i) {
    Row& row = result.rows[i];
    row.profile = plan_of_many(model, list[i], ranks);
    row.fits = row.profile.fit.fits;
    row.unavailable = unavailable(model, list[i]);
    row.label = label_of(list[i]);
    tell();
  };
  if (large) {
    const Searched found = search_best_first(
        model, list, result.rows, threads, [&](const std::vector<std::size_t>& next) {
          parallel(next.size(), threads, [&](std::size_t i) { simulate(next[i]); });
        });
    simulations = found.simulated.size();
    result.too_large = found.too_large;
    result.too_heavy = found.too_heavy;
    result.too_slow = found.too_slow;
  } else {
    InTurn turns(list);
    while (!turns.done()) {
      const std::vector<std::size_t> next = turns.next();
      simulations = list.size() - turns.skipped();
      parallel(next.size(), threads, [&](std::size_t i) { simulate(next[i]); });
      for (std::size_t i : next) turns.simulated(i, result.rows[i].profile);
    }
    result.too_heavy = turns.skipped();
  }
  std::erase_if(result.rows, [](const Row& row) { return row.label.empty(); });
  result.configurations = result.rows.size();
  shown = std::min(result.configurations, space.largest_batches);
  mark_pareto(result.rows);
  rank_rows(result.rows);
  explain_rows(result.rows);
  const Variants variants(model, base, space.hand);
  parallel(shown, threads, [&](std::size_t i) {
    const LargestFit most = largest_batch(model, variants, result.rows[i].profile, ranks);
    result.rows[i].largest_batch = most.value;
    result.rows[i].largest_batch_exact = most.exact;
    result.rows[i].largest_batch_loss = most.loss;
    tell();
  });
  result.recommended =
      !result.rows.empty() && result.rows.front().rank == 1 ? 0 : result.rows.size();
  result.recommendation = recommend(result);
  add_savings(result, space.hand);
  tell_untried(result, space);
  return result;
}

}  // namespace ac_advisor::advise
