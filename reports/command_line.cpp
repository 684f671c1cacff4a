#include "reports/command_line.hpp"

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/option_table.hpp"
#include "ac_advisor/profile/config_fields.hpp"

namespace ac_advisor::reports {
namespace {

/// A mode that is not chosen may have left its argument behind: what counts is what is written.
bool same(const StepConfig& a, const StepConfig& b) {
  return profile::config_fields(a) == profile::config_fields(b);
}

}  // namespace

std::optional<OptionList> options_of(const StepConfig& config) {
  StepConfig wanted = config;
  wanted.memory.block_modes.clear();  // what budget: chose, not what was asked
  const StepConfig plain;
  OptionList list;
  const auto add = [&](const OptionRow& row) {
    const bool flag = row.metavar.empty();
    const bool on = !flag || row.text(wanted) == "true";
    if (!on && row.off.empty()) return false;
    list.emplace_back(on ? row.name : row.off, flag ? "" : row.text(wanted));
    return true;
  };
  for (const OptionRow& row : option_table()) {
    const bool always = row.key == "batch" || row.key == "seq";
    const bool sharded = wanted.layout.world > 1 && (row.key == "world" || row.key == "shard");
    if (always || sharded || (row.key == "framework" && !row.is_default(wanted))) add(row);
  }
  try {
    // An option may settle others, so what is missing is looked for twice.
    for (int round = 0; round < 2; ++round) {
      const StepConfig now = resolve_options(list);
      if (same(now, wanted)) return list;
      for (const OptionRow& row : option_table())
        if (row.on_command_line() && row.text(now) != row.text(wanted) && !add(row))
          return std::nullopt;
    }
    if (same(resolve_options(list), wanted)) return list;
  } catch (const UserError&) {
  }
  return std::nullopt;
}

std::string shell_word(const std::string& word) {
  const char* const plain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./:=,+%@-";
  if (!word.empty() && word.find_first_not_of(plain) == std::string::npos) return word;
  std::string quoted = "'";
  for (char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string command_line(const OptionList& list) {
  std::string text;
  for (const auto& [name, value] : list) {
    text += (text.empty() ? "" : " ") + name;
    if (!value.empty()) text += " " + shell_word(value);
  }
  return text;
}

}  // namespace ac_advisor::reports
