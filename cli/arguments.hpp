#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ac_advisor/capture/capture.hpp"
#include "ac_advisor/intake/training.hpp"
#include "ac_advisor/model/options.hpp"

namespace ac_advisor::cli {

/// Of measure, and of advise --measure.
struct MeasureArguments {
  std::string collectives = "auto";
  std::int64_t procs = 0;              ///< 0: none asked for
  std::int64_t steps = 0, warmup = 0;  ///< 0 steps: 3, or 10 on a GPU
  std::uint64_t seed = 0;
  double learning_rate = 1e-3, timeout = 60;
  std::string data, weights, checkpoint, memory_limit;
  bool resume = false, no_parity = false, log_steps = false;
  bool trace = false, counters = false;  ///< runs of their own on a GPU
  bool emulated = false;                 ///< on the emulated device
  std::int64_t part = 0, parts = 1;      ///< --shard-of PART/PARTS
};

struct DryrunArguments {
  std::string gpu = "h100-80gb";
  std::int64_t world = 1, rank = 0;
};

/// The command line, taken apart but not yet resolved.
struct Arguments {
  std::string command;  ///< plan, advise, …; "help", "version"
  std::vector<std::string>
      positional;             ///< MODEL, the files of compare, the command of trace, dryrun
  OptionList options;         ///< of the step: --batch, --ac, …
  std::string as;             ///< --as FAMILY
  capture::Settings capture;  ///< --capture, --python
  std::string format = "table";
  std::string output;                                  ///< --output FILE; empty: stdout
  std::optional<OptionList> other;                     ///< compare MODEL … -- OPTIONS
  std::string target;                                  ///< export --to
  std::size_t rows = 15;                               ///< advise --rows
  bool trace = false;                                  ///< explain --trace
  bool runs_program = false;                           ///< trace -- CMD, not trace FILE
  bool schedule = false;                               ///< explain --schedule
  bool program = false;                                ///< explain --program
  bool passes = false;                                 ///< explain --passes
  std::string config = "ac-advisor.json";              ///< check --config
  std::vector<std::string> only;                       ///< check --only CASE, as often as wanted
  std::string today;                                   ///< check --today YYYY-MM-DD
  bool update = false, init = false, tighten = false;  ///< of check
  MeasureArguments measure;
  DryrunArguments dryrun;
  bool measured = false;            ///< advise --measure
  std::string solve;                ///< advise --solve: batch, seq or model; empty: a sweep
  bool strict = false;              ///< plan --strict
  bool fail_if_oom = false;         ///< plan --fail-if-oom
  bool vary_global_batch = false;   ///< of advise
  bool quick = false;               ///< calibrate --quick
  std::vector<std::string> plans;   ///< diagnose --plan: B's, or A's and B's
  std::int64_t device = -1;         ///< snapshot --device; -1: the one with the highest peak
  std::string against;              ///< snapshot --against
  std::string model;                ///< diagnose --model, snapshot --model; of a training file
  std::string tool;                 ///< --tool NAME, whose training file MODEL is
  std::vector<std::string> ignore;  ///< --ignore KEY of it
  bool mapping = false;             ///< explain --mapping
  std::optional<intake::Training> training;  ///< what MODEL was, where it was a training file
  std::string page;                          ///< serve --page
  std::uint16_t port = 0;                    ///< serve --port; 0: any that is free
  bool open = false;                         ///< serve --open
  std::string help;                          ///< text of --help
};

/// Throws UserError for an unknown command or option (with the nearest known one), a missing MODEL
/// or a missing value. --help is wrapped at `columns`.
[[nodiscard]] Arguments parse_arguments(int argc, const char* const* argv, int columns = 80);

}  // namespace ac_advisor::cli
