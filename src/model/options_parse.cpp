#include "options_parse.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include "ac_advisor/model/options.hpp"

namespace ac_advisor::options {
namespace {

constexpr std::size_t longest_shown = 60;

/// `text` as a person can read it on one line of a terminal, whatever its bytes are.
std::string printable(std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string shown;
  for (const char character : text.substr(0, longest_shown)) {
    const auto byte = static_cast<unsigned char>(character);
    if (byte >= 0x20 && byte < 0x7f) {
      shown += character;
    } else {
      shown += "\\x";
      shown += digits[byte >> 4];
      shown += digits[byte & 15];
    }
  }
  if (text.size() > longest_shown) shown += "…";
  return shown;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, diagonal + 1, changed});
    }
  }
  return row[b.size()];
}

std::string value_of(const Whole& whole, std::int64_t number) {
  return std::string(whole.prefix) + std::to_string(number);
}

}  // namespace

void refuse(const Given& given, const std::string& what) {
  std::string text = printable(given.option);
  if (!given.value.empty()) text += " " + printable(given.value);
  throw UserError(text + ": " + what);
}

std::int64_t parse_whole(const Given& given, std::string_view text, const Whole& whole) {
  std::int64_t number = 0;
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
    refuse(given, name + " must be at least " + std::to_string(whole.least) + "; the nearest is " +
                      value_of(whole, whole.least));
  if (overflow || number > whole.most)
    refuse(given, name + " must be at most " + std::to_string(whole.most) + "; the nearest is " +
                      value_of(whole, whole.most));
  return number;
}

double parse_decimal(const Given& given, std::string_view example) {
  double number = 0;
  const std::string_view text = given.value;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() ||
      !std::isfinite(number))
    refuse(given, "must be a decimal number, such as " + std::string(example));
  return number;
}

std::string_view nearest(std::string_view word, std::span<const std::string_view> words) {
  word = word.substr(0, longest_shown);
  std::string_view best;
  std::size_t fewest = std::max<std::size_t>(2, word.size() / 2) + 1;
  for (const std::string_view candidate : words) {
    // What was begun or overdone ("fsdp", "selective-ac") is nearer than its edits say.
    const bool begins =
        word.size() >= 2 &&
        (candidate.starts_with(word) || (candidate.size() >= 2 && word.starts_with(candidate)));
    const std::size_t edits = begins ? 1 : edit_distance(word, candidate);
    if (edits >= fewest) continue;
    fewest = edits;
    best = candidate;
  }
  return best;
}

void refuse_choice(const Given& given, std::span<const std::string_view> choices) {
  std::string text = "must be one of ";
  for (std::size_t i = 0; i < choices.size(); ++i)
    text += (i == 0 ? "" : ", ") + std::string(choices[i]);
  if (const std::string_view near = nearest(given.value, choices); !near.empty())
    text += "; did you mean " + std::string(near) + "?";
  refuse(given, text);
}

}  // namespace ac_advisor::options
