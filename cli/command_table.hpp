#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cli/arguments.hpp"
#include "cli/commands.hpp"

/// What the command line is made of, as data: commands, and options that are not of the step. The
/// parser, --help, the man page and shell completion read these tables and the option table.
namespace ac_advisor::cli {

inline constexpr std::size_t any_number = 1000000;  ///< of operands, but at least one

/// What a command takes beside options.
struct Operands {
  std::size_t count = 0;
  std::string_view metavar = {};            ///< "MODEL"
  std::string_view text = {};               ///< of --help
  std::string_view lacks = {};              ///< "plan needs …"
  std::string_view words = "no arguments";  ///< "plan takes …"
  bool program = false;                     ///< another program's command line, after --
  bool files = false;                       ///< or files, without --
  bool one_suffices = false;                ///< `count` is the most, one the least
};

struct CommandRow {
  std::string_view name;
  std::string_view text;
  std::string_view example;  ///< fits the command, and runs
  Operands operands;
  bool step = false;           ///< takes the options of a training step
  bool writes_itself = false;  ///< --output is not what main writes
  Result (*run)(const Arguments&);
  bool starts_programs = false;  ///< which are to end when it is told to
};
[[nodiscard]] std::span<const CommandRow> command_table();
[[nodiscard]] const CommandRow* find_command(std::string_view name);

/// An option of some commands that says nothing of the step.
struct ProgramOption {
  std::string_view commands;  ///< "measure advise"
  std::string_view name;      ///< "--rows"
  std::string_view metavar;   ///< "N"; empty: a flag
  std::string_view help;      ///< with unit and default
  std::string_view group;     ///< "Output"
  /// Throws UserError naming option and value.
  void (*set)(Arguments&, std::string_view name, std::string_view text);
  std::span<const std::string_view> words = {};  ///< what completion offers
  bool repeats = false;                          ///< each counts, not the last alone

  [[nodiscard]] bool is_of(std::string_view command) const;
};
[[nodiscard]] std::span<const ProgramOption> program_options();

/// One option as help and completion show it, wherever it comes from.
struct ShownOption {
  std::string_view name, metavar, help, group;
  std::span<const std::string_view> words;
  std::string_view off = {};  ///< a flag's opposite: "--no-hold-output"
};
/// Those of a command, group by group.
[[nodiscard]] std::vector<ShownOption> shown_options(const CommandRow& command);
/// Of these, those that `plan` does not show alike: what a command adds to the step's.
[[nodiscard]] std::vector<ShownOption> own_options(const CommandRow& command);

}  // namespace ac_advisor::cli
