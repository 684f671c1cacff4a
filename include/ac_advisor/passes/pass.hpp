#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ac_advisor/passes/exclusion.hpp"
#include "ac_advisor/passes/step_program.hpp"

namespace ac_advisor::passes {

/// When a pass runs: once before there are ops; on each micro-batch that is written out, whose ops
/// begin at `step.micro_begin.back()`; once on the whole step.
enum class Stage : std::uint8_t { before, micro_batch, step };

/// One pass: a file of its own, and a line in pass_table.cpp. What a later pass needs to know of an
/// earlier one stands in the program; no pass reads another's options.
struct Pass {
  const char* name;
  Stage stage;
  const char* does;  ///< one line, for `explain --passes`
  bool (*applies)(const StepConfig& config);
  void (*run)(StepProgram& step, const model::ModelSpec& spec, const StepConfig& config);
  std::span<const Exclusion> exclusions;
  Of of = Of::any;

  [[nodiscard]] bool runs(const model::ModelSpec& spec, const StepConfig& config) const {
    return covers(of, kind_of(spec, config)) && applies(config);
  }
};

/// All passes. Those of one stage run in this order; stages run in theirs.
[[nodiscard]] std::span<const Pass* const> passes();
/// Whether it is about a backward or an optimizer: no part of a program that scores alone.
[[nodiscard]] bool follows_forward(const Pass& pass);

/// What the program refers to: storages that an op makes, reads or that are resident.
struct ProgramSize {
  std::int64_t ops = 0, storages = 0, bytes = 0;
  bool operator==(const ProgramSize&) const = default;
};
[[nodiscard]] ProgramSize size_of(const StepProgram& step);

/// What one pass did, over all of its runs.
struct PassChange {
  const Pass* pass = nullptr;
  std::int64_t runs = 0;           ///< 0: it does not apply
  std::int64_t ops_added = 0;      ///< by kind: those that are more than before
  std::int64_t ops_removed = 0;    ///< by kind: those that are fewer
  std::int64_t storages = 0;       ///< after less before
  std::int64_t storage_bytes = 0;  ///< after less before
};

/// The step as `build_step` makes it, and what each pass changed, in the order of `passes()`.
[[nodiscard]] StepProgram build_step_logged(const model::ModelSpec& spec, const StepConfig& config,
                                            std::vector<PassChange>& changes);

}  // namespace ac_advisor::passes
