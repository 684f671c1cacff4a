#include "ac_advisor/advise/changes.hpp"

#include <algorithm>
#include <optional>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/advise/export.hpp"
#include "ac_advisor/model/option_table.hpp"
#include "ac_advisor/passes/exclusion.hpp"
#include "parallel.hpp"
#include "variants.hpp"

namespace ac_advisor::advise {
namespace {

constexpr std::size_t most_planned = 40;  ///< combinations: an answer is worth some seconds
constexpr std::size_t most_together = 3;

/// One way to hold less; no options where the step has it, or cannot.
struct Technique {
  const char* words;
  OptionList (*options)(const StepConfig&);
};

OptionList unless(bool has_it, OptionList options) {
  return has_it ? OptionList{} : std::move(options);
}

/// The next smaller micro-batch that makes the same step, at most half as large.
OptionList smaller_batch(const StepConfig& c, std::int64_t most) {
  const std::int64_t sequences = c.run.batch * c.run.grad_accum;
  for (std::int64_t n = most; n > 0; --n)
    if (sequences % n == 0)
      return {{"--batch", std::to_string(n)}, {"--grad-accum", std::to_string(sequences / n)}};
  return {};
}

constexpr Technique techniques[] = {
    {"the allocator's segments can grow: less is reserved",
     [](const StepConfig& c) {
       return unless(c.runtime.expandable_segments, {{"--alloc-conf", "expandable_segments:True"}});
     }},
    {"one fused kernel updates each parameter, without temporaries of all",
     [](const StepConfig& c) {
       return unless(c.optimizer.kind != Optimizer::adamw_foreach, {{"--optimizer", "adamw"}});
     }},
    {"the loss is computed in chunks: no logits of all tokens",
     [](const StepConfig& c) {
       return unless(c.memory.loss != LossKind::ce, {{"--loss", "lc-ce"}});
     }},
    {"the loss is computed in chunks: no logits of all tokens",
     [](const StepConfig& c) {
       return unless(c.memory.loss != LossKind::ce, {{"--loss", "chunked:1024"}});
     }},
    {"every second product of a block is recomputed in backward",
     [](const StepConfig& c) {
       return unless(c.memory.ac != AcMode::none, {{"--ac", "selective"}});
     }},
    {"every block is recomputed in backward",
     [](const StepConfig& c) {
       return unless(c.memory.ac == AcMode::full || c.memory.ac == AcMode::budget,
                     {{"--ac", "full"}});
     }},
    {"micro-batches of half the size, twice as many",
     [](const StepConfig& c) {
       return unless(c.run.batch == 1, smaller_batch(c, c.run.batch / 2));
     }},
    {"one sequence a micro-batch, as many more of them",
     [](const StepConfig& c) { return unless(c.run.batch <= 2, smaller_batch(c, 1)); }},
    {"parameters, gradients and moments are sharded over the ranks",
     [](const StepConfig& c) {
       return unless(c.layout.world == 1 || !c.layout.whole() || c.layout.tp > 1,
                     {{"--shard", "fsdp2"}});
     }},
    {"parameters, gradients and moments are sharded over the ranks",
     [](const StepConfig& c) {
       const bool whole = c.layout.whole() || c.layout.shard == Sharding::zero1 ||
                          c.layout.shard == Sharding::zero2;
       return unless(c.layout.world == 1 || !whole || c.layout.tp > 1, {{"--shard", "zero3"}});
     }},
    {"moments in 8 bits",
     [](const StepConfig& c) {
       return unless(
           c.optimizer.kind != Optimizer::adamw && c.optimizer.kind != Optimizer::adamw_foreach,
           {{"--optimizer", "adamw-8bit"}});
     }},
    {"the optimizer and its states are on the host",
     [](const StepConfig& c) {
       return unless(c.memory.offload != Offload::none, {{"--offload", "optimizer"}});
     }},
    {"shards wait on the host, where they are updated, too",
     [](const StepConfig& c) {
       return unless(c.memory.offload != Offload::none || !c.layout.fsdp(),
                     {{"--offload", "parameters"}});
     }},
    {"saved activations wait on the host",
     [](const StepConfig& c) {
       return unless(c.memory.offload != Offload::none, {{"--offload", "activations"}});
     }},
    {"sequences of half the length: other data, not the same step",
     [](const StepConfig& c) {
       return unless(c.run.seq < 512, {{"--seq", std::to_string(c.run.seq / 2)}});
     }},
};
/// The last of them comes after all others, whatever it costs.
bool is_other_step(const Change& change) { return given(change.options, "--seq"); }

struct Part {
  const Technique* technique;
  OptionList options;
};

/// All parts' options, or none where two say the same one.
std::optional<OptionList> together(const std::vector<const Part*>& parts) {
  OptionList all;
  for (const Part* part : parts)
    for (const auto& option : part->options) {
      if (given(all, option.first)) return std::nullopt;
      all.push_back(option);
    }
  return all;
}

class Search {
 public:
  Search(const model::ModelSpec& model, const profile::Profile& step,
         const std::optional<OptionList>& of_step, std::int64_t less)
      : model_(model), step_(step), less_(less), variants_(model, step.config, of_step) {
    for (const Technique& technique : techniques)
      if (OptionList options = technique.options(step.config); !options.empty())
        parts_.push_back({&technique, std::move(options)});
  }

  std::vector<Change> run(std::size_t most) {
    std::vector<std::vector<const Part*>> level;
    for (const Part& part : parts_) level.push_back({&part});
    for (std::size_t n = 1; n <= most_together && found_.size() < most && !level.empty(); ++n) {
      plan_all(level);
      level = wider();
    }
    std::stable_sort(found_.begin(), found_.end(), [](const Change& a, const Change& b) {
      if (is_other_step(a) != is_other_step(b)) return is_other_step(b);
      return a.slower < b.slower;
    });
    if (found_.size() > most) found_.resize(most);
    return std::move(found_);
  }

 private:
  struct Planned {
    std::vector<const Part*> parts;
    profile::Profile profile;
  };

  void plan_all(const std::vector<std::vector<const Part*>>& level) {
    std::vector<std::optional<Planned>> planned(level.size());
    parallel(level.size(), threads_of(0), [&](std::size_t i) {
      const auto options = together(level[i]);
      if (!options) return;
      const auto config = variants_.with(*options);
      if (!config || passes::find_exclusion(model_, *config) != nullptr ||
          !unavailable(model_, *config).empty())
        return;
      planned[i] = Planned{level[i], plan(model_, *config, false)};
    });
    misses_.clear();
    for (std::optional<Planned>& p : planned) {
      if (!p) continue;
      if (suffices(p->profile))
        add(*p);
      else
        misses_.push_back(std::move(*p));
    }
  }

  [[nodiscard]] bool suffices(const profile::Profile& p) const {
    return p.fit.fits &&
           (less_ == 0 || p.memory.peak_allocated <= step_.memory.peak_allocated - less_);
  }

  void add(Planned& p) {
    Change change;
    change.options = *together(p.parts);
    // As they were settled: nobody named the tokens of a chunk, and then they are the loss's own.
    for (auto& [name, value] : change.options) value = find_option(name)->text(p.profile.config);
    if (p.parts.size() == 1) alone_.push_back(p.parts.front()->technique);
    for (const Part* part : p.parts)
      change.technique +=
          (change.technique.empty() ? "" : "; ") + std::string(part->technique->words);
    change.slower = step_.time.tokens_per_second / p.profile.time.tokens_per_second - 1.0;
    change.profile = std::move(p.profile);
    const bool known = std::any_of(found_.begin(), found_.end(), [&](const Change& other) {
      return other.profile.config == change.profile.config;
    });
    if (!known) found_.push_back(std::move(change));
  }

  /// Those that need least of what did not fit, each with one part more that comes after its own.
  std::vector<std::vector<const Part*>> wider() {
    std::stable_sort(misses_.begin(), misses_.end(), [](const Planned& a, const Planned& b) {
      return a.profile.memory.peak_allocated < b.profile.memory.peak_allocated;
    });
    std::vector<std::vector<const Part*>> level;
    const auto alone_fits = [&](const Part& part) {
      return std::find(alone_.begin(), alone_.end(), part.technique) != alone_.end();
    };
    for (const Planned& miss : misses_)
      for (const Part& part : parts_) {
        if (level.size() == most_planned) return level;
        if (alone_fits(part) || &part == miss.parts.back()) continue;
        std::vector<const Part*> more = miss.parts;
        more.push_back(&part);
        std::sort(more.begin(), more.end());
        if (std::adjacent_find(more.begin(), more.end()) != more.end()) continue;
        if (std::find(level.begin(), level.end(), more) == level.end()) level.push_back(more);
      }
    return level;
  }

  const model::ModelSpec& model_;
  const profile::Profile& step_;
  std::int64_t less_;
  Variants variants_;
  std::vector<Part> parts_;
  std::vector<Change> found_;
  std::vector<const Technique*> alone_;  ///< that suffice by themselves
  std::vector<Planned> misses_;
};

}  // namespace

std::vector<Change> changes_that_fit(const model::ModelSpec& model, const profile::Profile& step,
                                     const std::optional<OptionList>& options, std::int64_t less,
                                     std::size_t most) {
  return Search(model, step, options, less).run(most);
}

}  // namespace ac_advisor::advise
