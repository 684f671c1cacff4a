#include "cli/help.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "ac_advisor/model/option_table.hpp"
#include "cli/command_table.hpp"

namespace ac_advisor::cli {
namespace {

constexpr std::size_t least_columns = 40, most_columns = 120;

/// Characters that a terminal shows: UTF-8's continuation bytes are none.
std::size_t shown_width(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }));
}

/// `head` in a column of its own, `text` wrapped beside it.
std::string two_columns(const std::string& head, std::string_view text, std::size_t indent,
                        std::size_t columns) {
  std::string out = "  " + head;
  std::size_t at = shown_width(out);
  const auto new_line = [&] {
    out += "\n" + std::string(indent, ' ');
    at = indent;
  };
  if (at + 2 > indent)
    new_line();
  else
    out += std::string(indent - at, ' '), at = indent;
  bool first = true;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view word = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
    if (!first && at + 1 + shown_width(word) > columns) {
      new_line();
      first = true;
    }
    out += (first ? "" : " ") + std::string(word);
    at += shown_width(word) + (first ? 0 : 1);
    first = false;
  }
  return out + "\n";
}

/// Of the program's own options, where a command has too many for a screen.
constexpr std::string_view needed_of_program[] = {
    "--solve", "--rows", "--to",     "--program", "--emulated", "--model",  "--plan",
    "--init",  "--only", "--update", "--config",  "--against",  "--format", "--output"};
constexpr std::size_t lines_of_screen = 40;

std::vector<ShownOption> needed_by_most(const CommandRow& command) {
  const std::vector<ShownOption> all = shown_options(command);
  std::vector<ShownOption> needed;
  const auto add = [&](std::string_view name, std::string_view text, std::string_view group) {
    for (const ShownOption& option : all) {
      if (option.name != name) continue;
      needed.push_back(option);
      needed.back().group = group;
      if (!text.empty()) needed.back().help = text;
    }
  };
  const bool beside_own = command.operands.metavar != "MODEL";  // its step is another's
  const auto add_own = [&] {
    for (const std::string_view name : needed_of_program) add(name, {}, "Options");
  };
  if (beside_own) {
    add_own();
    return needed;
  }
  for (const NeededOption& n : options_needed_by_most()) add(n.name, n.text, "Step");
  add_own();
  return needed;
}

/// "--[no-]hold-output", or the name alone.
std::string name_of(const ShownOption& option) {
  if (option.off.empty()) return std::string(option.name);
  const std::string_view word = option.name.substr(2);
  if (option.off == "--no-" + std::string(word)) return "--[no-]" + std::string(word);
  return std::string(option.name) + ", " + std::string(option.off);
}

std::size_t within(int columns) {
  return std::clamp(static_cast<std::size_t>(std::max(columns, 0)), least_columns, most_columns);
}

std::string help_of(const CommandRow& command, const std::vector<ShownOption>& options,
                    std::size_t columns) {
  const Operands& o = command.operands;
  const std::string operand = o.count == 0 ? ""
                                           : (o.program ? " -- " : " ") + std::string(o.metavar) +
                                                 (o.count == any_number ? "…" : "");
  std::string text = "ac-advisor " + std::string(command.name) + ": " + std::string(command.text) +
                     "\nUsage: ac-advisor " + std::string(command.name) +
                     (o.program ? "" : operand) + (options.empty() ? "" : " [OPTIONS]") +
                     (o.program ? operand : "") + "\nExample: " + std::string(command.example) +
                     "\n";
  constexpr std::size_t indent = 26;
  if (o.count > 0) text += "\n" + two_columns(std::string(o.metavar), o.text, indent, columns);
  std::string_view group;
  for (const ShownOption& option : options) {
    if (option.group != group) text += "\n" + std::string(option.group) + "\n";
    group = option.group;
    const std::string head =
        name_of(option) + (option.metavar.empty() ? "" : " ") + std::string(option.metavar);
    text += two_columns(head, option.help, indent, columns);
  }
  return text;
}

}  // namespace

std::string program_help(int columns) {
  std::string text =
      "Plans the memory and time of a training step.\n"
      "Usage: ac-advisor COMMAND [OPTIONS]\n\nCommands\n";
  for (const CommandRow& command : command_table())
    text += two_columns(std::string(command.name), command.text, 14, within(columns));
  return text +
         "\nExample: ac-advisor plan llama-3.2-1b --batch 8 --seq 2048 --ac full\n"
         "A command's options: ac-advisor COMMAND --help\n";
}

std::string command_help(std::string_view name, int columns, HelpExtent extent) {
  const CommandRow& command = *find_command(name);
  const std::string all = help_of(command, shown_options(command), within(columns));
  if (extent == HelpExtent::all ||
      static_cast<std::size_t>(std::count(all.begin(), all.end(), '\n')) <= lines_of_screen)
    return all;
  return help_of(command, needed_by_most(command), within(columns)) + "\nAll options: ac-advisor " +
         std::string(name) + " --help-all\n";
}

int terminal_columns() {
  if (const char* columns = std::getenv("COLUMNS"); columns != nullptr)
    if (const int n = std::atoi(columns); n > 0) return n;
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

}  // namespace ac_advisor::cli
