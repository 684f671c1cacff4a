#pragma once

#include <string>
#include <string_view>

/// Text of --help, from the tables, within `columns` (at least 40).
namespace ac_advisor::cli {

/// The commands, a line each.
[[nodiscard]] std::string program_help(int columns);
enum class HelpExtent { one_screen, all };
/// A command's operands and options, in groups; on one screen those that most people need, where
/// there are more.
[[nodiscard]] std::string command_help(std::string_view command, int columns, HelpExtent extent);
/// Columns of the terminal that stdout is; 80 where it is none. COLUMNS wins.
[[nodiscard]] int terminal_columns();

}  // namespace ac_advisor::cli
