// Completion of commands, options, their words, samples and devices.
#include "ac_advisor/model/option_table.hpp"
#include "cli/command_table.hpp"
#include "cli/generate.hpp"

namespace ac_advisor::cli {
namespace {

/// A word to complete: "grouped:" of "grouped:K", which the user goes on with.
std::string stem(std::string_view word) {
  const std::size_t colon = word.find(':');
  const bool argument = colon != std::string_view::npos && colon + 1 < word.size() &&
                        word[colon + 1] >= 'A' && word[colon + 1] <= 'Z' &&
                        word.find("True") == std::string_view::npos &&
                        word.find("False") == std::string_view::npos;
  return std::string(argument ? word.substr(0, colon + 1) : word);
}

std::string stems(const ShownOption& option) {
  std::string text;
  for (const std::string_view word : option.words) text += (text.empty() ? "" : " ") + stem(word);
  return text;
}

bool takes_file(const ShownOption& option) {
  return option.metavar == "FILE" || option.metavar == "FOLDER";
}

std::string command_names() {
  std::string text;
  for (const CommandRow& command : command_table())
    text += (text.empty() ? "" : " ") + std::string(command.name);
  return text;
}

/// What prints the names of built-in models.
constexpr std::string_view model_words = "ac-advisor models '' 2>/dev/null | awk '{ print $1 }'";

/// For text between single quotes of a shell.
std::string single_quoted(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out;
}

/// zsh's _arguments reads [ ] : in a specification.
std::string zsh_escaped(std::string_view text) {
  std::string out;
  for (const char c : single_quoted(text)) {
    if (c == '[' || c == ']' || c == ':') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

std::string bash_completion() {
  std::string text =
      "# bash completion of ac-advisor; made by ac-advisor generate bash\n"
      "_ac_advisor() {\n"
      "  local cur=\"${COMP_WORDS[COMP_CWORD]}\" prev=\"${COMP_WORDS[COMP_CWORD-1]}\"\n"
      "  local command=\"${COMP_WORDS[1]}\" options=\"\" words=\"\"\n"
      "  COMPREPLY=()\n"
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
      "    COMPREPLY=($(compgen -W \"" +
      command_names() +
      "\" -- \"$cur\"))\n"
      "    return\n"
      "  fi\n"
      "  case \"$command $prev\" in\n";
  for (const CommandRow& command : command_table())
    for (const ShownOption& option : shown_options(command)) {
      if (option.metavar.empty()) continue;
      text += "    \"" + std::string(command.name) + " " + std::string(option.name) + "\") ";
      if (takes_file(option))
        text += "COMPREPLY=($(compgen -f -- \"$cur\")); return;;\n";
      else if (option.name == "--gpu")
        text +=
            "COMPREPLY=($(compgen -W \"$(ac-advisor devices 2>/dev/null | awk '{ print $1 "
            "}')\" -- \"$cur\")); return;;\n";
      else
        text += "COMPREPLY=($(compgen -W \"" + stems(option) + "\" -- \"$cur\")); return;;\n";
    }
  text += "  esac\n  case \"$command\" in\n";
  for (const CommandRow& command : command_table()) {
    std::string names;
    for (const ShownOption& option : shown_options(command))
      names += (names.empty() ? "" : " ") + std::string(option.name) +
               (option.off.empty() ? "" : " " + std::string(option.off));
    text += "    " + std::string(command.name) + ") options=\"" + names + "\"";
    if (command.operands.metavar == "MODEL")
      text += "; words=\"$(" + std::string(model_words) + ")\"";
    if (command.name == "help") text += "; words=\"" + command_names() + "\"";
    if (command.name == "generate") {
      text += "; words=\"";
      for (const std::string_view name : generated_names()) text += std::string(name) + " ";
      text.back() = '"';
    }
    text += ";;\n";
  }
  return text +
         "  esac\n"
         "  if [[ \"$cur\" == -* ]]; then\n"
         "    COMPREPLY=($(compgen -W \"$options\" -- \"$cur\"))\n"
         "  else\n"
         "    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\") $(compgen -f -- \"$cur\"))\n"
         "  fi\n"
         "}\n"
         "complete -o nosort -F _ac_advisor ac-advisor\n";
}

std::string zsh_completion() {
  std::string text =
      "#compdef ac-advisor\n# made by ac-advisor generate zsh\n"
      "_ac_advisor() {\n  local -a commands\n  commands=(\n";
  for (const CommandRow& command : command_table())
    text += "    '" + std::string(command.name) + ":" + single_quoted(command.text) + "'\n";
  text +=
      "  )\n"
      "  if (( CURRENT == 2 )); then\n    _describe command commands\n    return\n  fi\n"
      "  case \"$words[2]\" in\n";
  for (const CommandRow& command : command_table()) {
    text += "    " + std::string(command.name) + ")\n      _arguments '1:command:'";
    for (const ShownOption& option : shown_options(command)) {
      if (!option.off.empty())
        text += " \\\n        '" + std::string(option.off) + "[no " +
                std::string(option.name.substr(2)) + "]'";
      text += " \\\n        '" + std::string(option.name) + "[" + zsh_escaped(option.help) + "]";
      if (!option.metavar.empty()) {
        text += ":" + std::string(option.metavar) + ":";
        if (takes_file(option)) text += "_files";
        if (!option.words.empty()) text += "(" + zsh_escaped(stems(option)) + ")";
      }
      text += "'";
    }
    if (command.operands.count > 0)
      text += " \\\n        '*:" + std::string(command.operands.metavar) +
              (command.operands.metavar == "MODEL" ? ":_ac_advisor_models'" : ":_files'");
    text += "\n      ;;\n";
  }
  return text +
         "  esac\n}\n"
         "_ac_advisor_models() {\n"
         "  compadd -- ${(f)\"$(" +
         std::string(model_words) +
         ")\"}\n"
         "  _files\n}\n"
         "_ac_advisor \"$@\"\n";
}

std::string fish_completion() {
  std::string text = "# fish completion of ac-advisor; made by ac-advisor generate fish\n";
  for (const CommandRow& command : command_table())
    text += "complete -c ac-advisor -n __fish_use_subcommand -a " + std::string(command.name) +
            " -d '" + single_quoted(command.text) + "'\n";
  for (const CommandRow& command : command_table())
    if (command.operands.metavar == "MODEL")
      text += "complete -c ac-advisor -n '__fish_seen_subcommand_from " +
              std::string(command.name) + "' -a \"(" +
              std::string("ac-advisor models '' 2>/dev/null | string match -r '^\\S+'") + ")\"\n";
  for (const CommandRow& command : command_table())
    for (const ShownOption& option : shown_options(command)) {
      text += "complete -c ac-advisor -n '__fish_seen_subcommand_from " +
              std::string(command.name) + "' -l " + std::string(option.name.substr(2));
      if (!option.metavar.empty()) text += takes_file(option) ? " -r -F" : " -x";
      if (!option.words.empty()) text += " -a '" + stems(option) + "'";
      text += " -d '" + single_quoted(option.help) + "'\n";
      if (!option.off.empty())
        text += "complete -c ac-advisor -n '__fish_seen_subcommand_from " +
                std::string(command.name) + "' -l " + std::string(option.off.substr(2)) + "\n";
    }
  return text;
}

}  // namespace ac_advisor::cli
