#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ac_advisor/model/options.hpp"
#include "ac_advisor/profile/profile.hpp"

namespace ac_advisor::advise {

/// Plans one configuration: build_step, make_schedule, simulate. Milliseconds. Throws UserError.
/// `detail`: also the timeline and the ten largest tensors (advise leaves them out).
[[nodiscard]] profile::Profile plan(const model::ModelSpec& model, const StepConfig& config,
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
  int rank = 0;                    ///< 1 is the best that fits; 0: does not fit
  bool pareto = false;             ///< no other row is both smaller and faster
  std::int64_t largest_batch = 0;  ///< that fits, of at most 1 Mi tokens a rank; 0: not even 1
  std::string why;                 ///< one sentence
};

/// A row of the cumulative savings table (the documented one's form).
struct Saving {
  std::string technique;  ///< "Baseline", "+ FSDP", "+ activation checkpointing", "+ LC-CE", …
  StepConfig config;
  std::int64_t peak_bytes = 0;
  std::int64_t saved_bytes = 0;  ///< against the row above
  double saved_share = 0;        ///< against the baseline, 0..1
  double step_seconds = 0;
};

struct Sweep {
  model::ModelSpec model;
  StepConfig base;
  std::vector<Row> rows;  ///< ranked: those that fit first
  std::vector<Saving> savings;
  std::string recommendation;      ///< a sentence with its reason
  std::size_t recommended = 0;     ///< index into rows; rows.size() when nothing fits
  std::size_t configurations = 0;  ///< simulated in all
};

/// One option that a sweep varies, and the texts that it takes.
struct Axis {
  std::string option;               ///< a row of the option table: "--ac"
  std::vector<std::string> values;  ///< "none", "grouped:2"
};

/// What a sweep varies, the outermost axis first; an option without an axis keeps the base's value.
struct Space {
  std::vector<Axis> axes;
  unsigned threads = 0;  ///< 0: one a core
  /// Told after each simulation how many of all are done, by the thread that did it; may be empty.
  std::function<void(std::size_t done, std::size_t of)> progress;

  /// Replaces the axis's values, or adds it as the innermost.
  void set(const std::string& option, std::vector<std::string> values);
  /// Leaves `option` as the base has it.
  void keep(const std::string& option, const StepConfig& base);
};
/// AC × scope × loss × kernels (× sharding at world > 1) × batch {1/2, 1, 2 of the base}.
[[nodiscard]] Space default_space(const model::ModelSpec& model, const StepConfig& base);
/// The same without what `by_hand` has settled; --batch is only its middle.
[[nodiscard]] Space space_around(const model::ModelSpec& model, const StepConfig& base,
                                 const OptionList& by_hand);
/// Every combination of the space that validates, in the order of its axes.
[[nodiscard]] std::vector<StepConfig> combinations(const model::ModelSpec& model,
                                                   const StepConfig& base, const Space& space);

[[nodiscard]] Sweep sweep(const model::ModelSpec& model, const StepConfig& base,
                          const Space& space);

}  // namespace ac_advisor::advise
