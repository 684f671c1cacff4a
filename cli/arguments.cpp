// The command line, declared to CLI11 from the tables. The only file that includes it: it is slow
// to compile.
#include "cli/arguments.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <optional>
#include <string_view>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/option_table.hpp"
#include "cli/command_table.hpp"
#include "cli/help.hpp"
#include "model/nearest.hpp"
#include "model/option_words.hpp"

namespace ac_advisor::cli {
namespace {

template <typename List>
std::string suggestion(std::string_view word, const List& known) {
  const std::vector<std::string_view> names(known.begin(), known.end());
  const std::string_view near = model::nearest(word, names);
  return near.empty() ? "" : "; did you mean " + std::string(near) + "?";
}

/// One option: a flag where `metavar` is empty. `set` is given its value.
template <typename Set>
void declare(CLI::App& app, std::string_view name, std::string_view metavar, const Set& set,
             bool repeats = false) {
  const std::string text(name);
  if (metavar.empty()) {
    app.add_flag_callback(text, [set] { set(std::string()); });
    return;
  }
  auto* option = app.add_option_function<std::vector<std::string>>(
      text, [set](const std::vector<std::string>& values) {
        for (const std::string& value : values) set(value);
      });
  // One value, though it collects them in a list: the next word is MODEL.
  option->expected(1)->allow_extra_args(false)->multi_option_policy(
      repeats ? CLI::MultiOptionPolicy::TakeAll : CLI::MultiOptionPolicy::TakeLast);
}

void declare_step_options(CLI::App& app, Arguments& arguments) {
  const auto keep = [&arguments](std::string_view name) {
    return [&arguments, name = std::string(name)](const std::string& value) {
      arguments.options.emplace_back(name, value);
    };
  };
  for (const OptionRow& row : option_table()) {
    if (!row.on_command_line()) continue;
    declare(app, row.name, row.metavar, keep(row.name));
    if (!row.off.empty()) declare(app, row.off, {}, keep(row.off));
  }
}

void declare_command(CLI::App& app, const CommandRow& command, Arguments& arguments) {
  CLI::App* sub = app.add_subcommand(std::string(command.name));
  sub->set_help_flag("-h,--help");
  sub->callback([&arguments, &command, sub] {
    arguments.command = command.name;
    if (command.name == "report" && sub->count("--format") == 0) arguments.format = "html";
  });
  if (command.operands.count > 0 && (!command.operands.program || command.operands.files))
    sub->add_option(std::string(command.operands.metavar), arguments.positional)
        ->expected(-1);  // counted by check_operands, whose words are plainer
  if (command.step) declare_step_options(*sub, arguments);
  for (const ProgramOption& option : program_options())
    if (option.is_of(command.name))
      declare(
          *sub, option.name, option.metavar,
          [&arguments, &option](const std::string& value) {
            option.set(arguments, option.name, value);
          },
          option.repeats);
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

/// "--batch" of "--batch=8"; empty for what is not an option ("-", "-1", a path).
std::string option_of(const std::string& word) {
  const bool digit = word.size() > 1 && word[1] >= '0' && word[1] <= '9';
  if (word.size() < 2 || word[0] != '-' || digit) return "";
  return word.substr(0, word.find('='));
}

/// "True", "false", "1": the words of the tools' parsers for a switch; none of them is a MODEL.
std::optional<bool> truth_of(std::string_view word) {
  std::string lower(word);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (lower == "true" || lower == "yes" || lower == "on") return true;
  if (lower == "false" || lower == "no" || lower == "off") return false;
  return std::nullopt;
}

/// Of a switch of another tool's that was told `told`, our option's value.
std::string_view value_of(const options::Elsewhere& word, const std::string& name,
                          const std::string& told) {
  const std::optional<bool> on = told == "1"   ? std::optional(true)
                                 : told == "0" ? std::optional(false)
                                               : truth_of(told);
  if (on && *on) return word.value;
  if (on && !word.off.empty()) return word.off;
  throw UserError(fmt::format("{}={}: it stands for {} {} here; leave it out, or give {} itself",
                              name, told, word.here, word.value, word.here));
}

/// Other tools' words for an option, and underscores, as ours: "--batch-size 8" is "--batch 8".
std::vector<std::string> in_our_words(const CLI::App& app, std::vector<std::string> words) {
  const std::vector<std::string> known = option_names(app);
  const auto is_known = [&](std::string_view name) {
    return std::find(known.begin(), known.end(), name) != known.end();
  };
  for (std::size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    const std::string name = option_of(words[i]);
    if (name.empty() || is_known(name)) continue;
    const std::string rest = words[i].substr(name.size());  // "=8", or nothing
    if (const std::string dashed = options::with_dashes(name); is_known(dashed)) {
      words[i] = dashed + rest;
      continue;
    }
    const options::Elsewhere* word = options::find_elsewhere(name);
    if (word == nullptr || (!word->here.empty() && !is_known(word->here))) continue;
    if (word->here.empty()) throw UserError(name + ": " + std::string(word->way_out));
    words[i] = word->here;
    if (!word->value.empty()) {
      const bool next = rest.empty() && i + 1 < words.size() && truth_of(words[i + 1]);
      const std::string told = next ? words[i + 1] : rest.empty() ? "true" : rest.substr(1);
      words[i] += "=" + std::string(value_of(*word, name, told));
      if (next) words.erase(words.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    } else if (!word->before.empty()) {
      // Its value is the next word where it is not in this one.
      if (rest.empty() && i + 1 == words.size())
        throw UserError(name + " needs one value, such as 3");
      words[i] += "=" + std::string(word->before) + (rest.empty() ? words[i + 1] : rest.substr(1));
      if (rest.empty()) words.erase(words.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    } else {
      words[i] += rest;
    }
  }
  return words;
}

/// Before parsing: CLI11 would blame an unknown option's value, or MODEL, instead of the option.
void check_option_names(const CLI::App& app, const std::vector<std::string>& words) {
  const std::vector<std::string> known = option_names(app);
  for (const std::string& word : words) {
    if (word == "--") return;
    const std::string name = option_of(word);
    if (name.empty() || name == "-h" || std::find(known.begin(), known.end(), name) != known.end())
      continue;
    const bool top = app.get_parent() == nullptr;
    throw UserError(name + ": unknown option" + suggestion(name, known) + " (see " +
                    (top ? "" : "ac-advisor ") + app.get_name() + " --help)");
  }
}

/// CLI11 would take --no-sync=3 for --no-sync three times.
void check_flags(const CLI::App& app, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (word == "--") return;
    const std::string name = option_of(word);
    const CLI::Option* option = name.empty() ? nullptr : app.get_option_no_throw(name);
    if (option != nullptr && option->get_expected_max() == 0 && name != word)
      throw UserError(word + ": takes no value; write " + name + " alone");
  }
}

void check_operands(const Arguments& a) {
  const CommandRow& command = *find_command(a.command);
  const Operands& o = command.operands;
  if (!o.lacks.empty() && a.solve != "model" &&
      a.positional.size() < (o.count == any_number || o.one_suffices ? 1 : o.count))
    throw UserError(
        a.command + " needs " + std::string(o.lacks) +
        (o.metavar == "MODEL" && !a.model.empty()
             ? "; MODEL stands without an option: ac-advisor " + a.command + " " + a.model
             : ""));
  std::error_code none;
  if (o.files && !a.runs_program && a.positional.front() != "-" &&
      !std::filesystem::exists(a.positional.front(), none))
    throw UserError(a.positional.front() + ": No such file or directory; " + a.command +
                    " takes the program after --: " + std::string(command.example));
  if (a.positional.size() > o.count)
    throw UserError(a.positional[o.count] + ": unexpected argument; " + a.command + " takes " +
                    std::string(o.words));
  if (a.command == "export" && a.target.empty())
    throw UserError(
        "export needs --to: automodel, torchtitan, torchtune, litgpt, llamafactory, verl, "
        "megatron, hf "
        "or deepspeed");
}

/// `--output -` is stdout, except where that is another's or the file is one of its own.
void settle_output(Arguments& a) {
  if (a.output != "-") return;
  if (a.command == "trace" && a.runs_program)
    throw UserError("trace --output -: stdout is the traced program's; name a file");
  if (a.command == "calibrate")
    throw UserError("calibrate --output -: --gpu reads a device file; name one");
  a.output.clear();
}

/// The step's options in the order they were given: CLI11 tells them in the order of their
/// definition, but of --hold-output and --no-hold-output the last one counts.
void restore_order(OptionList& options, const std::vector<std::string>& words) {
  const auto last = [&](const std::string& name) {
    std::ptrdiff_t at = -1;
    for (std::size_t i = 0; i < words.size(); ++i)
      if (option_of(words[i]) == name) at = static_cast<std::ptrdiff_t>(i);
    return at;
  };
  std::stable_sort(options.begin(), options.end(),
                   [&](const auto& a, const auto& b) { return last(a.first) < last(b.first); });
}

/// "--autocast" alone is "--autocast=bf16": a word that follows is its value only where it looks
/// like one, for it may be MODEL.
std::vector<std::string> with_bare_values(std::vector<std::string> words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const OptionRow* row = find_option(words[i]);
    if (row == nullptr || row->bare.empty()) continue;
    const std::vector<std::string_view> values(row->words.begin(), row->words.end());
    // A word of one or two letters is near to anything.
    if (i + 1 == words.size() || words[i + 1].size() < 3 ||
        model::nearest(words[i + 1], values).empty())
      words[i] += "=" + std::string(row->bare);
  }
  return words;
}

Arguments asks_for_help(const std::string& command, int columns,
                        HelpExtent extent = HelpExtent::one_screen) {
  Arguments arguments;
  arguments.command = "help";
  arguments.help = command.empty() ? program_help(columns) : command_help(command, columns, extent);
  return arguments;
}

void check_command(const std::string& word) {
  std::vector<std::string_view> names;
  for (const CommandRow& command : command_table()) names.push_back(command.name);
  if (find_command(word) == nullptr)
    throw UserError("\"" + word + "\": unknown command" + suggestion(word, names) +
                    " (see ac-advisor --help)");
}

/// "--batch: 1 required TEXT missing" in plainer words.
[[noreturn]] void refuse_missing_value(const CLI::ArgumentMismatch& error,
                                       std::string_view command) {
  const std::string what = error.what();
  const std::string name = what.substr(0, what.find(':'));
  std::string_view help;
  if (const OptionRow* row = find_option(name); row != nullptr) help = row->help;
  for (const ProgramOption& option : program_options())
    if (option.name == name && option.is_of(command)) help = option.help;
  throw UserError(name + " needs one value: " + std::string(help));
}

/// compare MODEL OPTIONS -- OPTIONS: those of the other setting, read as `plan` reads them.
OptionList options_behind(const Arguments& a, const std::vector<const char*>& behind) {
  if (a.positional.size() != 1)
    throw UserError("compare: -- stands between the options of one MODEL: " +
                    std::string(find_command("compare")->example));
  std::vector<const char*> words{"ac-advisor", "plan", a.positional.front().c_str()};
  words.insert(words.end(), behind.begin(), behind.end());
  const Arguments other = parse_arguments(static_cast<int>(words.size()), words.data());
  if (other.command != "plan" || other.format != "table" || !other.output.empty())
    throw UserError(
        "compare: behind -- are options of a step; --format, --output and --help stand before it");
  return other.options;
}

}  // namespace

Arguments parse_arguments(int argc, const char* const* argv, int columns) {
  if (argc < 2) return asks_for_help("", columns);
  const std::string first = argv[1];
  Arguments arguments;
  if (first == "--version" || first == "-V") {
    arguments.command = "version";
    return arguments;
  }
  if (first == "help" && argc > 2) {
    check_command(argv[2]);
    return asks_for_help(argv[2], columns);
  }
  if (first == "--help" || first == "-h" || first == "--help-all" || first == "help")
    return asks_for_help("", columns);
  if (!first.starts_with("-")) check_command(first);
  CLI::App app("", "ac-advisor");
  app.require_subcommand(0, 1);
  for (const CommandRow& command : command_table())
    if (first.starts_with("-") || command.name == first) declare_command(app, command, arguments);
  if (first.starts_with("-")) check_option_names(app, {first});
  const CommandRow& command = *find_command(first);
  const auto* const end = argv + argc;
  const auto* const mark = std::find(argv + 2, end, std::string_view("--"));
  const std::vector<const char*> behind(mark == end ? end : mark + 1, end);
  const bool compares = first == "compare" && mark != end;
  if (command.operands.program && mark != end) {
    // What follows -- is another program's.
    arguments.positional.assign(mark + 1, end);
    arguments.runs_program = true;
  }
  if (compares || command.operands.program) argc = static_cast<int>(mark - argv);
  const std::vector<std::string> words =
      in_our_words(*app.get_subcommand(first), {argv + 2, argv + argc});
  if (std::find(words.begin(), words.end(), "--help-all") != words.end())
    return asks_for_help(first, columns, HelpExtent::all);
  check_option_names(*app.get_subcommand(first), words);
  check_flags(*app.get_subcommand(first), words);
  try {
    std::vector<std::string> reversed = with_bare_values(words);  // as CLI11 takes them
    reversed.insert(reversed.begin(), first);
    std::reverse(reversed.begin(), reversed.end());
    app.parse(std::move(reversed));
  } catch (const CLI::CallForHelp&) {
    return asks_for_help(first, columns);
  } catch (const CLI::ExtrasError& error) {
    if (command.operands.program)
      throw UserError(first + " takes the program after --: " + std::string(command.example));
    throw UserError(error.what());
  } catch (const CLI::ArgumentMismatch& error) {
    refuse_missing_value(error, first);
  } catch (const CLI::ParseError& error) {
    throw UserError(error.what());
  }
  check_operands(arguments);
  settle_output(arguments);
  restore_order(arguments.options, words);
  if (compares) arguments.other = options_behind(arguments, behind);
  return arguments;
}

}  // namespace ac_advisor::cli
