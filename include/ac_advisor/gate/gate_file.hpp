#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ac_advisor/evidence/evidence.hpp"
#include "ac_advisor/gate/date.hpp"
#include "ac_advisor/gate/figure.hpp"
#include "ac_advisor/model/options.hpp"

namespace ac_advisor::gate {

inline constexpr const char* gate_schema = "ac-advisor/gate/1";

enum class Level : std::uint8_t { off, warn, error };
[[nodiscard]] const char* to_string(Level level);

/// How much more than the baseline is allowed; where both are given, both must hold.
struct Regression {
  std::optional<std::int64_t> percent_millionths;  ///< 1 % is 1,000,000
  std::optional<std::int64_t> absolute;            ///< in the figure's unit
};

/// Of one figure: an absolute budget, an allowed regression against the baseline, or both.
struct Limit {
  std::optional<std::int64_t> budget;
  std::optional<Regression> regression;
  Level level = Level::error;
};

/// A program that is run on an emulated device.
struct Command {
  std::vector<std::string> words;
  std::string gpu = "h100-80gb";
  std::int64_t world = 1, rank = 0;
};

/// What is planned, was measured, or is run on an emulated device, and what it may need.
struct Case {
  std::string name;      ///< also the baseline's file name
  std::string model;     ///< as written; empty only where measured or emulated
  std::string as;        ///< family to read the model as
  std::string training;  ///< another tool's training file, as written: its model and its options
  std::string tool;      ///< whose it is; empty: told by its keys
  std::vector<std::string> ignore;  ///< keys of it that are left out of the plan
  OptionList options;               ///< of the step, as on the command line
  std::string profile;  ///< where measured: the profile's file; empty: simulated or emulated
  std::optional<Command> command;  ///< where emulated
  std::array<std::optional<Limit>, figure_count> limits;
  /// Of a plan: the worst grade that passes; extrapolated: any.
  evidence::Grade require = evidence::Grade::extrapolated;
  int line = 0;  ///< of its name in the file

  [[nodiscard]] bool measured() const { return !profile.empty(); }
};

/// Lets a case exceed a limit, for a while.
struct Waiver {
  std::string case_name;
  Figure figure{};
  std::string reason;
  Date expires;  ///< the last day that it holds
};

/// ac-advisor.json. Paths in it are relative to its folder.
struct GateFile {
  std::string origin;                   ///< path of the file
  std::string text;                     ///< for the lines of what is found wrong
  std::string baselines = "baselines";  ///< folder, one file a case
  std::vector<Case> cases;
  std::vector<Waiver> waivers;
};

/// Reads the file's text. Throws UserError naming `origin`, path, value and what would be right.
[[nodiscard]] GateFile parse_gate_file(const std::string& text, const std::string& origin);

/// "baselines/<case>.json", relative to the folder of the file.
[[nodiscard]] std::string baseline_path(const GateFile& file, const std::string& case_name);
/// `path` of the file, from where the program runs: "sub/models/config.json".
[[nodiscard]] std::string resolve_path(const GateFile& file, const std::string& path);

}  // namespace ac_advisor::gate
