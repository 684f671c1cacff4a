#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ac_advisor/model/options.hpp"

namespace ac_advisor::profile {

/// What ac-trainer is asked to run: a file that `ac-advisor measure` writes and ac-trainer reads.
struct RunSpec {
  std::string model, as;             ///< as on the command line
  std::vector<OptionList> configs;   ///< one run each
  bool emulated = false;             ///< the device computes nothing: values are not set
  std::string collectives = "auto";  ///< auto, emulate, local, procs, nccl
  std::int64_t steps = 3;
  std::uint64_t seed = 0;
  std::string data;        ///< a text file; empty: the built-in sample
  std::string weights;     ///< a model.safetensors; empty: seeded
  std::string checkpoint;  ///< folder; empty: none
  bool resume = false;
  double learning_rate = 1e-3;
  std::int64_t warmup_steps = 0;
  std::int64_t memory_limit = 0;  ///< bytes a rank; 0: none
  double timeout_seconds = 60;    ///< that ranks wait for each other
  /// What looks at the steps besides the clock: empty (and the allocator's own counts in one step),
  /// "trace" (the caller has injected CUPTI's activity records), "counters" (in one step more).
  std::string instrument;
  bool parity = true;      ///< compare the first gradients with an unsharded eager step
  bool log_steps = false;  ///< a line a step to stderr
  /// "full" or "quick": instead of training, measure the ops of `configs`' only entry's device.
  std::string calibrate;
  std::string output;  ///< JSON list of profiles, one a config; of a calibration its measurements
};

/// Whether it runs on a GPU; all configurations are for the same machine. Throws UserError where
/// they are not.
[[nodiscard]] bool for_gpu(const RunSpec& spec);

[[nodiscard]] std::string to_json(const RunSpec& spec);
/// Throws UserError naming `origin` and the field.
[[nodiscard]] RunSpec read_run_spec(const std::string& text, const std::string& origin);

}  // namespace ac_advisor::profile
