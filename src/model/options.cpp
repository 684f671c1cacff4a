// Options by hand over a preset, in the words of the command line.
#include "ac_advisor/model/options.hpp"

#include "ac_advisor/model/option_table.hpp"
#include "option_rows.hpp"
#include "options_parse.hpp"
#include "options_preset.hpp"
#include "options_settle.hpp"

namespace ac_advisor {
namespace options {
namespace {

[[noreturn]] void refuse_unknown(const Given& given) {
  for (const OutOfScope& option : options_out_of_scope())
    if (option.name == given.option)
      refuse(given, "out of scope for now: " + std::string(option.because) +
                        "; drop the option to plan without it");
  std::vector<std::string_view> names;
  for (const OptionRow& row : option_table())
    if (row.on_command_line()) names.push_back(row.name);
  const std::string_view near = nearest(given.option, names);
  refuse({given.option, {}},
         "unknown option" + (near.empty() ? "" : "; did you mean " + std::string(near) + "?"));
}

void apply(const Given& given, Choices& choices) {
  const OptionRow* row = find_option(given.option);
  if (row == nullptr) refuse_unknown(given);
  const std::string_view value = given.value.empty() ? row->bare : given.value;
  if (!row->metavar.empty() && value.empty()) refuse(given, "needs a value");
  if (row->metavar.empty() && !given.value.empty())
    refuse(given, "takes no value; write " + std::string(given.option) + " alone");
  row->parse(*row, given.option, value, choices.config);
  choices.rows.push_back(row);
}

}  // namespace
}  // namespace options

StepConfig resolve_options(const OptionList& list) {
  options::Choices hand, preset;
  std::string& framework = preset.config.runtime.framework;
  for (const auto& [option, value] : list)
    if (option == "--framework") framework = options::named(value);
  for (const auto& [option, value] : options::framework_preset(framework))
    options::apply({option, value}, preset);
  hand.config = preset.config;
  for (const auto& [option, value] : list) options::apply({option, value}, hand);
  return options::settle(hand, preset);
}

}  // namespace ac_advisor
