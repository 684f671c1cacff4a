#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ac_advisor/capture/capture.hpp"
#include "ac_advisor/evidence/evidence.hpp"
#include "ac_advisor/gate/baseline.hpp"
#include "ac_advisor/intake/training.hpp"
#include "ac_advisor/profile/diff.hpp"

namespace ac_advisor::gate {

/// What a case has now: planned, or read from its measured profile.
struct Observation {
  Baseline now;
  std::string model_path;                    ///< of its config.json; empty: a sample, or not given
  std::optional<intake::Training> training;  ///< where the case is of another tool's file
  std::string not_measured;                  ///< why there is nothing to judge; empty: there is
  /// Where a measured profile is of another model or other options than the case says.
  std::vector<profile::FieldChange> other;
  std::optional<evidence::Evidence> evidence;  ///< of a plan
  std::vector<std::string> gave_way;           ///< what its preset could not have, a sentence each
};

/// Throws UserError where the model, an option or the profile is wrong.
[[nodiscard]] Observation observe(const GateFile& file, const Case& c,
                                  const capture::Settings& capture);

/// Whether observing it starts a program, which is for the main thread: a case of a command, and
/// one whose model is captured. False of what cannot be read.
[[nodiscard]] bool starts_a_program(const GateFile& file, const Case& c,
                                    const capture::Settings& capture);

}  // namespace ac_advisor::gate
