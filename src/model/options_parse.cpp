#include "options_parse.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <optional>

#include "ac_advisor/model/error.hpp"
#include "in_quotes.hpp"
#include "nearest.hpp"

namespace ac_advisor::options {
namespace {

/// Without the quotes: the message shows options as they stand on a command line.
std::string printable(std::string_view text) {
  const std::string quoted = model::in_quotes(text);
  return quoted.substr(1, quoted.size() - 2);
}

std::string value_of(const Whole& whole, std::int64_t number) {
  return std::string(whole.prefix) + std::to_string(number);
}

/// "8k" is 8192, as contexts are named; "2M" 2097152; "1e3" is 1000. Null: none of these.
std::optional<std::int64_t> short_for(std::string_view text) {
  const char* const end = text.data() + text.size();
  std::int64_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || rest == end || number < 0) return std::nullopt;
  const char letter = static_cast<char>(*rest | 0x20);
  std::int64_t exponent = 1, unit = letter == 'k' ? 1 << 10 : letter == 'm' ? 1 << 20 : 0;
  if (letter == 'e') {
    const auto [stop, bad] = std::from_chars(rest + 1, end, exponent);
    if (bad != std::errc() || stop != end || exponent < 0 || exponent > 12) return std::nullopt;
    for (unit = 1; exponent > 0; --exponent) unit *= 10;
  } else if (rest + 1 != end) {
    return std::nullopt;
  }
  constexpr std::int64_t most = std::int64_t{1} << 41;
  if (unit == 0 || number > most / unit) return std::nullopt;
  return number * unit;
}

}  // namespace

void refuse(const Given& given, const std::string& what) {
  std::string text = printable(given.option);
  if (!given.value.empty()) text += " " + printable(given.value);
  throw UserError(text + ": " + what);
}

std::int64_t parse_whole(const Given& given, std::string_view text, const Whole& whole) {
  std::int64_t number = 0;
  const std::optional<std::int64_t> meant = short_for(text);
  const std::string digits = meant ? std::to_string(*meant) : std::string(text);
  if (meant) text = digits;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string name(whole.name);
  const bool all = end == text.data() + text.size();
  if (text.empty() || error == std::errc::invalid_argument || !all) {
    const bool leads = error == std::errc() && number >= whole.least && number <= whole.most;
    refuse(given,
           name + " must be a whole number" +
               (leads ? "; did you mean " + value_of(whole, number) + "?"
                      : ", such as " + value_of(whole, std::max<std::int64_t>(whole.least, 2))));
  }
  const bool overflow = error == std::errc::result_out_of_range;
  if (overflow ? text.front() == '-' : number < whole.least)
    refuse(given, name + " must be at least " + std::to_string(whole.least));
  if (overflow || number > whole.most)
    refuse(given, name + " must be at most " + std::to_string(whole.most));
  return number;
}

double parse_decimal(const Given& given, std::string_view example) {
  // Not from_chars, which libc++ 14 (the page's) lacks for double. strtod alone would take spaces,
  // a plus, hexadecimal digits, "inf" and "nan" too.
  const std::string text(given.value);
  const bool decimal =
      text.find_first_not_of("0123456789.eE+-") == std::string::npos && !text.starts_with('+');
  char* end = nullptr;
  errno = 0;
  const double number = decimal ? std::strtod(text.c_str(), &end) : 0;
  if (!decimal || text.empty() || end != text.c_str() + text.size() || errno == ERANGE)
    refuse(given, "must be a decimal number, such as " + std::string(example));
  return number;
}

std::string decimal_text(double value) { return fmt::format("{}", value); }

std::string_view nearest(std::string_view word, std::span<const std::string_view> words) {
  if (const std::string_view near = model::nearest(word, words); !near.empty()) return near;
  // What was begun or overdone ("adam", "checkpointing") is nearer than its edits say.
  for (const std::string_view candidate : words)
    if (word.size() >= 2 && candidate.size() >= 2 &&
        (candidate.starts_with(word) || word.starts_with(candidate)))
      return candidate;
  return {};
}

namespace {

/// Values by the names that transformers 5.23 has for them: from_pretrained's attn_implementation,
/// TrainingArguments' optim.
struct ElsewhereNamed {
  std::string_view option, there, here;
};
constexpr ElsewhereNamed elsewhere_named[] = {
    {"--attn", "sdpa", "auto"},
    {"--attn", "flash_attention_2", "flash"},
    {"--optimizer", "adamw_torch", "adamw-foreach"},
    {"--optimizer", "adamw_torch_fused", "adamw"},
    {"--optimizer", "adamw_8bit", "adamw-8bit"},
    {"--optimizer", "adamw_bnb_8bit", "adamw-8bit"},
    {"--optimizer", "paged_adamw", "paged-adamw"},
    {"--optimizer", "paged_adamw_32bit", "paged-adamw"},
    {"--optimizer", "paged_adamw_8bit", "paged-adamw-8bit"},
    {"--optimizer", "adamw_torch_8bit", "adamw-8bit-torchao"},
    {"--optimizer", "lion_32bit", "lion"},
};

}  // namespace

void refuse_choice(const Given& given, std::span<const std::string_view> choices) {
  std::string text = "must be one of ";
  for (std::size_t i = 0; i < choices.size(); ++i)
    text += (i == 0 ? "" : ", ") + std::string(choices[i]);
  const auto* const named = std::find_if(
      std::begin(elsewhere_named), std::end(elsewhere_named),
      [&](const auto& n) { return n.option == given.option && n.there == given.value; });
  if (named != std::end(elsewhere_named))
    refuse(given, text + "; transformers' " + std::string(named->there) + " is " +
                      std::string(named->here));
  if (const std::string_view near = nearest(given.value, choices); !near.empty())
    text += "; did you mean " + std::string(near) + "?";
  refuse(given, text);
}

}  // namespace ac_advisor::options
