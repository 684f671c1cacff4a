#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ac_advisor::intake {

/// A word of a command after what bash expands in it.
struct ShellWord {
  std::string text;   ///< what is not known stands there as the script has it: "$NAME"
  std::string unset;  ///< why that is; empty: all is known
  int line = 0;
  bool lines = false;  ///< its newlines are the script's, from `line` on
};

/// NAME=value, before a command or exported.
struct ShellAssignment {
  std::string name;
  ShellWord value;
};

struct ShellCommand {
  std::vector<ShellWord> words;
  std::vector<ShellAssignment> environment;  ///< what stands before it: its own alone
  std::size_t exported = 0;                  ///< how many of the script's exports came before it
};

struct ShellScript {
  std::vector<ShellCommand> commands;
  std::vector<ShellAssignment> exports;
  std::vector<std::string> notes;  ///< what was not followed, and what was taken for granted

  /// What a command finds in its environment; null: nothing that the script has set.
  [[nodiscard]] const ShellWord* environment(const ShellCommand& command,
                                             std::string_view name) const;
};

/// The commands of a script, none of which runs: quotes, variables, arrays and integers are bash's,
/// conditions and loops are not followed. Throws UserError naming `path` and line: quotes and
/// braces without end, and what is nested or expands beyond what a script has.
[[nodiscard]] ShellScript read_script(const std::string& text, const std::string& path);

/// Of $((…)), in 64 bits; nothing where it is none, overflows or uses a name without `value`.
[[nodiscard]] std::optional<std::int64_t> shell_arithmetic(
    std::string_view text,
    const std::function<std::optional<std::int64_t>(std::string_view)>& value);

}  // namespace ac_advisor::intake
