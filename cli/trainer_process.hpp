#pragma once

#include <string>
#include <vector>

#include "ac_advisor/profile/profile.hpp"
#include "ac_advisor/profile/run_spec.hpp"
#include "ac_advisor/trace/trace.hpp"

namespace ac_advisor::cli {

/// How ac-trainer ended.
struct TrainerResult {
  int exit_code = 0;
  std::vector<profile::Profile> profiles;  ///< one a configuration; empty on other ranks than 0
};

/// Starts ac-trainer on a specification that says "calibrate"; the measurements as JSON, empty
/// where it did not end well.
[[nodiscard]] std::string run_calibration(profile::RunSpec spec, int& exit_code, std::string& why);

/// Starts ac-trainer on the specification and waits. Its messages go to stderr. An exit code of 3
/// where it cannot be started; `why` says why.
[[nodiscard]] TrainerResult run_trainer(profile::RunSpec spec, std::string& why);

/// The same under CUPTI's activity records: what the device did. `why`: what was not recorded.
[[nodiscard]] trace::TraceFile run_trainer_traced(profile::RunSpec spec, TrainerResult& result,
                                                  std::string& why);

}  // namespace ac_advisor::cli
