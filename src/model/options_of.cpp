// The options that give a configuration: what to type to plan it again.
#include "ac_advisor/model/option_table.hpp"

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/variant_options.hpp"

namespace ac_advisor {
namespace {

/// A mode that is not chosen may have left its argument behind: what counts is what is written.
bool same(const StepConfig& a, const StepConfig& b) {
  for (const OptionRow& row : option_table())
    if (row.get(a) != row.get(b)) return false;
  return true;
}

/// One option of `config`, in words; false where no words say it: a flag that is off.
bool add(const OptionRow& row, const StepConfig& config, OptionList& list) {
  const bool flag = row.metavar.empty();
  const bool on = !flag || row.text(config) == "true";
  if (!on && row.off.empty()) return false;
  list.emplace_back(on ? row.name : row.off, flag ? "" : row.text(config));
  return true;
}

}  // namespace

std::optional<OptionList> options_of(const StepConfig& config) {
  StepConfig wanted = config;
  wanted.memory.block_modes.clear();  // what budget: chose, not what was asked
  OptionList list;
  for (const OptionRow& row : option_table()) {
    const bool always = row.key == "batch" || row.key == "seq";
    const bool sharded = wanted.layout.world > 1 && (row.key == "world" || row.key == "shard");
    const bool split = (wanted.layout.tp > 1 && row.key == "tp") ||
                       (wanted.layout.cp > 1 && row.key == "cp") ||
                       (wanted.layout.pp > 1 && row.key == "pp");
    if (always || sharded || split || (row.key == "framework" && !row.is_default(wanted)))
      add(row, wanted, list);
  }
  try {
    // An option may settle others, so what is missing is looked for twice.
    for (int round = 0; round < 2; ++round) {
      const StepConfig now = resolve_options(list);
      if (same(now, wanted)) return list;
      for (const OptionRow& row : option_table())
        if (row.on_command_line() && row.text(now) != row.text(wanted) && !add(row, wanted, list))
          return std::nullopt;
    }
    if (same(resolve_options(list), wanted)) return list;
  } catch (const UserError&) {
  }
  return std::nullopt;
}

OptionList all_options_of(const StepConfig& config) {
  OptionList list;
  for (const OptionRow& row : option_table())
    if (row.on_command_line() && !(row.newer && row.is_default(config))) add(row, config, list);
  return list;
}

}  // namespace ac_advisor
