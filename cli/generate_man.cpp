// ac-advisor(1).
#include "ac_advisor/version.hpp"
#include "cli/command_table.hpp"
#include "cli/generate.hpp"

namespace ac_advisor::cli {
namespace {

/// What groff would take for its own: dashes that are to be typed, backslashes, leading dots.
std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '-')
      out += "\\-";
    else if (c == '\\')
      out += "\\e";
    else
      out += c;
  }
  if (!out.empty() && (out[0] == '.' || out[0] == '\'')) out.insert(0, "\\&");
  return out;
}

std::string option_text(const ShownOption& option) {
  std::string text = ".TP\n.B " + roff(option.name);
  if (!option.off.empty()) text += ", " + roff(option.off);
  if (!option.metavar.empty()) text += " \\fI" + roff(option.metavar) + "\\fR";
  return text + "\n" + roff(option.help) + "\n";
}

}  // namespace

std::string man_page() {
  std::string text = ".TH AC\\-ADVISOR 1 \"\" \"ac-advisor " + std::string(version) +
                     "\" \"User Commands\"\n"
                     ".SH NAME\nac\\-advisor \\- plans the memory and time of a training step\n"
                     ".SH SYNOPSIS\n.B ac\\-advisor\n.I COMMAND\n[\\fIOPTIONS\\fR]\n"
                     ".SH COMMANDS\n";
  for (const CommandRow& command : command_table())
    text += ".TP\n.B " + roff(command.name) + "\n" + roff(command.text) +
            "\n.br\nExample: " + roff(command.example) + "\n";
  // The step's options once; what a command adds stands with it.
  const std::vector<ShownOption> step = shown_options(*find_command("plan"));
  std::string_view group;
  for (const ShownOption& option : step) {
    if (option.group != group) text += ".SH " + roff(option.group) + "\n";
    group = option.group;
    text += option_text(option);
  }
  for (const CommandRow& command : command_table()) {
    std::string own;
    for (const ShownOption& option : own_options(command)) own += option_text(option);
    if (!own.empty()) text += ".SH OPTIONS OF " + roff(command.name) + "\n" + own;
  }
  return text +
         ".SH EXIT STATUS\n0 done, 1 a limit of check is exceeded, 2 usage or bad input, 3 could "
         "not measure, 130 stopped by Ctrl\\-C.\n"
         ".SH ENVIRONMENT\n.TP\n.B NO_COLOR\nno colours on a terminal\n.TP\n.B COLUMNS\nthe width "
         "of \\-\\-help\n";
}

}  // namespace ac_advisor::cli
