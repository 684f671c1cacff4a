// docs/options.md: commands and options as Markdown.
#include "cli/command_table.hpp"
#include "cli/generate.hpp"

namespace ac_advisor::cli {
namespace {

/// What Markdown would take for a table's border or for HTML.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|')
      out += "\\|";
    else if (c == '<')
      out += "&lt;";
    else
      out += c;
  }
  return out;
}

std::string option_row(const ShownOption& option) {
  std::string name = "`" + std::string(option.name);
  if (!option.metavar.empty()) name += " " + std::string(option.metavar);
  name += '`';
  if (!option.off.empty()) name += ", `" + std::string(option.off) + "`";
  return "| " + cell(name) + " | " + cell(option.help) + " |\n";
}

constexpr const char* table_head = "\n| option | |\n|---|---|\n";

}  // namespace

std::string options_reference() {
  std::string text =
      "# Commands and options\n"
      "Written by `ac-advisor generate reference`: what `ac-advisor COMMAND --help` says, on one "
      "page.\n\n"
      "## Commands\n| command | | example |\n|---|---|---|\n";
  for (const CommandRow& command : command_table())
    text += "| `" + std::string(command.name) + "` | " + cell(command.text) + " | `" +
            cell(command.example) + "` |\n";
  text += "\n# Options of a training step\nOf every command that takes a MODEL.\n";
  std::string_view group;
  for (const ShownOption& option : shown_options(*find_command("plan"))) {
    if (option.group != group)
      text += "\n## " + std::string(option.group) + std::string(table_head);
    group = option.group;
    text += option_row(option);
  }
  text += "\n# Options of one command\n";
  for (const CommandRow& command : command_table()) {
    std::string own;
    for (const ShownOption& option : own_options(command)) own += option_row(option);
    if (!own.empty()) text += "\n## " + std::string(command.name) + std::string(table_head) + own;
  }
  return text;
}

}  // namespace ac_advisor::cli
