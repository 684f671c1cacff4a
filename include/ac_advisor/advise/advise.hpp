#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ac_advisor/advise/resolve.hpp"
#include "ac_advisor/model/variant_options.hpp"
#include "ac_advisor/profile/profile.hpp"

namespace ac_advisor::advise {

/// Plans one configuration: build_step, make_schedule, simulate. Milliseconds. Throws UserError.
/// `detail`: also the timeline and the ten largest tensors (advise leaves them out).
[[nodiscard]] profile::Profile plan(const model::ModelSpec& model, const StepConfig& config,
                                    bool detail = true);

/// The same of options that were settled for the model; what a preset gave way to is among the
/// assumptions.
[[nodiscard]] profile::Profile plan(const model::ModelSpec& model, const Resolved& resolved,
                                    bool detail = true);

/// What a user should know before the figures of this model under this configuration: fields of its
/// file that are unknown or not planned, a sequence beyond its positions, another dtype than its
/// own.
[[nodiscard]] std::vector<std::string> model_warnings(const model::ModelSpec& model,
                                                      const StepConfig& config);

/// One row of a sweep.
struct Row {
  profile::Profile profile;
  std::string label;  ///< "full + fused + lc-ce"
  bool fits = false;
  std::string unavailable;  ///< why the framework cannot do this; empty: it can
  int rank = 0;             ///< 1 is the best that fits; 0: does not fit, or is not available
  bool pareto = false;      ///< no other available row is both smaller and faster
  /// That fits, of at most 1 Mi tokens a rank; 0: not even 1, or not looked for.
  std::int64_t largest_batch = 0;
  bool largest_batch_exact = false;  ///< every larger one was tried, or holds too much at its peak
  /// "chunked:2048", with which `largest_batch` was planned; empty: with the row's own loss.
  /// Liger's chunk grows with the batch.
  std::string largest_batch_loss;
  std::string why;  ///< one sentence
};

/// A row of the cumulative savings table (the documented one's form).
struct Saving {
  std::string technique;  ///< "Baseline", "+ FSDP", "+ activation checkpointing", "+ LC-CE", …
  StepConfig config;
  std::int64_t peak_bytes = 0;
  std::int64_t saved_bytes = 0;  ///< against the row above
  double saved_share = 0;        ///< against the baseline, 0..1
  double step_seconds = 0;
  std::string unavailable;  ///< why the framework cannot do this; empty: it can
};

/// A technique of that table which no plan has here, so without figures.
struct NotPlanned {
  std::string technique;
  std::string why;  ///< what it contradicts, and the way out
};

/// The best row of all that split layers, sequences, experts and the model over the same numbers
/// of ranks.
struct LayoutChoice {
  std::int64_t tp = 1, cp = 1, ep = 1, pp = 1;
  std::size_t row = 0;  ///< index into Sweep::rows
  std::string why;      ///< against the first row: a sentence
};

struct Sweep {
  model::ModelSpec model;
  StepConfig base;
  bool varies_global_batch = false;
  std::vector<Row> rows;  ///< ranked: those that fit first
  std::vector<Saving> savings;
  std::vector<NotPlanned> not_planned;  ///< what `savings` lacks
  std::string recommendation;           ///< a sentence with its reason
  std::size_t recommended = 0;          ///< index into rows; rows.size() when nothing fits
  std::size_t configurations = 0;       ///< simulated in all
  /// Pipelines that are not simulated: what a rank holds in any case is beyond the device; a
  /// lighter one allocates more than it has.
  std::size_t too_large = 0, too_heavy = 0;
  /// Not simulated either: even the least that its step can take is slower than the rows that are
  /// ranked up to `exact_rows`, and than the best of its layout. Of a large space alone.
  std::size_t too_slow = 0;
};

/// Of a large space so many rows from the first are those of all of its configurations.
inline constexpr std::size_t exact_rows = 20;

/// One option that a sweep varies, and the texts that it takes.
struct Axis {
  std::string option;               ///< a row of the option table: "--ac"
  std::vector<std::string> values;  ///< "none", "grouped:2"
};

/// What a sweep varies, the outermost axis first; an option without an axis keeps the base's value.
struct Space {
  std::vector<Axis> axes;
  /// Told after each simulation how many of all are done, by the thread that did it; may be empty.
  std::function<void(std::size_t done, std::size_t of)> progress;
  /// What was given by hand; each configuration is settled as if typed with its axes' values.
  /// Absent: options that give the base.
  std::optional<OptionList> hand;
  /// Off: the sequences of a step stay, and --batch divides them into micro-batches.
  bool vary_global_batch = false;
  std::size_t largest_batches =
      20;                        ///< for so many rows from the first the most that fits is sought
  unsigned threads = 0;          ///< 0: one a core
  bool available_alone = false;  ///< what the framework lacks is no row
  /// A space of more configurations is searched: what cannot be among the rows that are shown is
  /// not simulated (docs/layouts.md, Many layouts).
  std::size_t simulate_up_to = 1000;

  /// Replaces the axis's values, or adds it as the innermost.
  void set(const std::string& option, std::vector<std::string> values);
  /// Leaves `option` as the base has it.
  void keep(const std::string& option, const StepConfig& base);
};
/// AC × scope × loss × kernels (× sharding at world > 1) × micro-batches that make the same global
/// batch: the base's, the two next smaller, the next larger. TorchTitan on several nodes: all of
/// its layouts (docs/layouts.md, Many layouts).
[[nodiscard]] Space default_space(const model::ModelSpec& model, const StepConfig& base);
/// The same without what `by_hand` has settled; --batch is only where it starts.
/// `vary_global_batch`: varying_space's batches.
[[nodiscard]] Space space_around(const model::ModelSpec& model, const StepConfig& base,
                                 const OptionList& by_hand, bool vary_global_batch = false);
/// The same, with --batch at 1/2, 1 and 2 of the base and a global batch that follows it.
[[nodiscard]] Space varying_space(const model::ModelSpec& model, const StepConfig& base);
/// Every combination of the space that validates, in the order of its axes.
[[nodiscard]] std::vector<StepConfig> combinations(const model::ModelSpec& model,
                                                   const StepConfig& base, const Space& space);

[[nodiscard]] Sweep sweep(const model::ModelSpec& model, const StepConfig& base,
                          const Space& space);

/// A sweep and the options around which it was made.
struct Advice {
  Resolved resolved;
  Sweep sweep;
  std::size_t simulated_beside = 0;  ///< of the other framework, where two were swept
};
/// Sweeps `space(resolved)`. Where nothing of it can be recommended, ranks are several and no
/// framework was given by hand, also what torchtitan has, which splits layers and the model over
/// ranks: its sweep where something of it fits, with a recommendation that says so. Where nothing
/// of that fits either, shards on the host (--offload parameters). Throws UserError.
[[nodiscard]] Advice advise_any(const model::ModelSpec& model, const Resolved& resolved,
                                const std::function<Space(const Resolved&)>& space);

/// "tp 4 cp 2 pp 8": over how many ranks layers, sequences and the model are split.
[[nodiscard]] std::string split_words(const Layout& layout);
/// " tp2 cp2 pp4v2", how ranks share the model in a row's name; empty: they do not.
[[nodiscard]] std::string split_label(const Layout& layout);
/// Each layout's best row, the best layout first; empty where all rows have the same layout.
[[nodiscard]] std::vector<LayoutChoice> layouts(const Sweep& sweep);

}  // namespace ac_advisor::advise
