#pragma once

#include <string>
#include <vector>

#include "ac_advisor/model/options.hpp"

namespace ac_advisor::cli {

/// The command line, taken apart but not yet resolved.
struct Arguments {
  std::string command;                  ///< plan, advise, …; "help", "version"
  std::vector<std::string> positional;  ///< MODEL, the files of compare, the command of trace
  OptionList options;                   ///< of the step: --batch, --ac, …
  std::string as;                       ///< --as FAMILY
  std::string format = "table";
  std::string output;     ///< --output FILE; empty: stdout
  std::string target;     ///< export --to
  std::string plan;       ///< diagnose --plan
  std::size_t rows = 15;  ///< advise --rows
  bool trace = false;     ///< explain --trace
  bool schedule = false;  ///< explain --schedule
  std::string help;       ///< text of --help
};

/// Throws UserError for an unknown command or option (with the nearest known one), a missing MODEL
/// or a missing value.
[[nodiscard]] Arguments parse_arguments(int argc, const char* const* argv);

}  // namespace ac_advisor::cli
