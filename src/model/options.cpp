// Options by hand over a preset, in the words of the command line.
#include "ac_advisor/model/variant_options.hpp"

#include <map>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/option_table.hpp"
#include "option_rows.hpp"
#include "options_parse.hpp"
#include "options_preset.hpp"
#include "options_settle.hpp"

namespace ac_advisor {
namespace options {
namespace {

[[noreturn]] void refuse_unknown(const Given& given) {
  std::vector<std::string_view> names;
  for (const OptionRow& row : option_table())
    if (row.on_command_line()) names.push_back(row.name);
  const std::string_view near = nearest(given.option, names);
  refuse({given.option, {}},
         "unknown option" + (near.empty() ? "" : "; did you mean " + std::string(near) + "?"));
}

constexpr std::int64_t most_sequences = std::int64_t{1} << 31;

/// The option's row and its text, once both can be read; null row: --global-batch, which is set.
std::pair<const OptionRow*, std::string> read(const Given& given, Choices& choices) {
  if (given.option == global_batch_option) {
    choices.global_batch = parse_whole(given, given.value, {"N", 1, most_sequences});
    return {};
  }
  const OptionRow* row = find_option(given.option);
  if (row == nullptr) refuse_unknown(given);
  const std::string_view value = given.value.empty() ? row->bare : given.value;
  if (!row->metavar.empty() && value.empty()) refuse(given, "needs a value");
  if (row->metavar.empty() && !given.value.empty())
    refuse(given, "takes no value; write " + std::string(given.option) + " alone");
  return {row, std::string(value)};
}

/// One option of a list, and what it alone means.
struct Chosen {
  std::string_view option;
  std::string value;
  std::string meant;
};

/// What was written, as it is typed.
std::string typed(const Chosen& one) {
  return std::string(one.option) + (one.value.empty() ? "" : " " + one.value);
}

/// Applies a list in the order of the table, whatever order it was written in; of an option given
/// twice the last counts. Two that set the same thing to different values are refused.
void apply(const OptionList& list, Choices& choices) {
  std::map<const OptionRow*, Chosen> chosen;  // in the order of the table, whose rows these are
  for (const auto& [option, value] : list) {
    const auto [row, text] = read({option, value}, choices);
    if (row == nullptr) continue;
    StepConfig alone;
    row->parse(*row, option, text, alone);
    chosen.insert_or_assign(row, Chosen{option, text, row->text(alone)});
    choices.rows.push_back(row);
  }
  std::vector<const Chosen*> applied;
  for (const auto& [row, one] : chosen) {
    row->parse(*row, one.option, one.value, choices.config);
    applied.push_back(&one);
  }
  for (const auto& [row, one] : chosen) {
    if (row->text(choices.config) == one.meant) continue;
    for (const Chosen* other : applied) {
      StepConfig both;
      row->parse(*row, one.option, one.value, both);
      find_option(other->option)
          ->parse(*find_option(other->option), other->option, other->value, both);
      if (row->text(both) != one.meant)
        throw UserError(typed(one) + " " + typed(*other) +
                        ": they set the same thing to different values; drop one of them");
    }
  }
}

}  // namespace
}  // namespace options

/// A preset's choices, and over it what was given by hand.
struct VariantResolver::Read {
  options::Choices preset, hand;

  Read(const OptionList& given, const std::string& framework) {
    preset.config.runtime.framework = framework;
    options::apply(options::framework_preset(framework), preset);
    hand.config = preset.config;
    options::apply(given, hand);
    hand.yielding = hand.rows.size();
  }
};

namespace {

std::string framework_of(const OptionList& list, std::string otherwise) {
  for (const auto& [option, value] : list)
    if (option == "--framework") otherwise = options::named(value);
  return otherwise;
}

}  // namespace

VariantResolver::VariantResolver(const OptionList& hand)
    : hand_(hand),
      read_(
          std::make_shared<const Read>(hand, framework_of(hand, StepConfig{}.runtime.framework))) {}

StepConfig VariantResolver::with(const OptionList& variant) const {
  const std::string& own = read_->preset.config.runtime.framework;
  const std::string framework = framework_of(variant, own);
  if (framework != own) {
    OptionList hand = hand_;
    std::erase_if(hand, [](const auto& option) { return option.first == "--framework"; });
    hand.emplace_back("--framework", framework);
    return VariantResolver(hand).with(variant);
  }
  options::Choices hand = read_->hand;
  options::apply(variant, hand);
  return options::settle(hand, read_->preset);
}

StepConfig resolve_variant(const OptionList& by_hand, const OptionList& variant) {
  return VariantResolver(by_hand).with(variant);
}

StepConfig resolve_options(const OptionList& list) { return resolve_variant({}, list); }

}  // namespace ac_advisor
