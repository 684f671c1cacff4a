#pragma once

#include <functional>
#include <memory>
#include <string>

#include "ac_advisor/model/step_config.hpp"
#include "ac_advisor/simulate/measurements.hpp"
#include "trainer/calibrate/op_times.hpp"

namespace ac_advisor::trainer {

struct Calibration {
  std::string extent = "full";                        ///< "full", "quick", "tiny"
  StepConfig config;                                  ///< device and threads
  std::function<std::unique_ptr<Backend>()> backend;  ///< a new one for each program
  /// Told what is being measured, and the share that is done; may throw to end it.
  std::function<void(const std::string& what, double share)> progress;
};

/// Measures each kind of op that a training step launches, over sizes, on real tensors; `device`,
/// `version` and `date` are left to the caller. Programs that the device's memory cannot hold are
/// left out.
[[nodiscard]] simulate::Measurements calibrate(const Calibration& calibration);

}  // namespace ac_advisor::trainer
