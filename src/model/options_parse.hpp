// Strict readers of option values: all of the text or an error that names option, value and the
// nearest thing that would be right.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ac_advisor::options {

/// One option as it was written: {"--ac", "grouped:2"}.
struct Given {
  std::string_view option;
  std::string_view value;
};

/// Throws UserError("--ac grouped:0: <what>"); a long or unprintable value is shortened and
/// escaped.
[[noreturn]] void refuse(const Given& given, const std::string& what);

/// A whole number from `least` to `most`. `name` is what the message calls it, `prefix` what stands
/// before it in a value: "K" and "grouped:".
struct Whole {
  std::string_view name;
  std::int64_t least = 1;
  std::int64_t most = 0;
  std::string_view prefix = {};
};
[[nodiscard]] std::int64_t parse_whole(const Given& given, std::string_view text,
                                       const Whole& whole);

/// A finite decimal number.
[[nodiscard]] double parse_decimal(const Given& given, std::string_view example);
/// What `parse_decimal` reads as the same number, in as few digits as do.
[[nodiscard]] std::string decimal_text(double value);

/// The word that `word` begins, overdoes or misspells; empty when none is near.
[[nodiscard]] std::string_view nearest(std::string_view word,
                                       std::span<const std::string_view> words);

/// "must be one of none, full; did you mean full?"
[[noreturn]] void refuse_choice(const Given& given, std::span<const std::string_view> choices);

/// A word of the command line and what it stands for. A word that is not shown is an alias.
template <typename Value>
struct Choice {
  std::string_view text;
  Value value;
  bool shown = true;
};

template <typename Value, std::size_t Count>
[[nodiscard]] Value parse_choice(const Given& given, const Choice<Value> (&choices)[Count]) {
  std::vector<std::string_view> shown;
  for (const Choice<Value>& choice : choices) {
    if (choice.text == given.value) return choice.value;
    if (choice.shown) shown.push_back(choice.text);
  }
  refuse_choice(given, shown);
}

}  // namespace ac_advisor::options
