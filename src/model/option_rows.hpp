// Makers of rows of the option table, one a type of value. `G` and `M` are pointers to members: the
// concern in StepConfig and the field in it.
#pragma once

#include <array>

#include "ac_advisor/model/option_table.hpp"
#include "options_choices.hpp"

namespace ac_advisor::options {

/// Name, JSON key, metavar, help and group of a row.
struct Words {
  std::string_view name, key, metavar, help;
  OptionGroup group;
};

[[nodiscard]] constexpr OptionRow with(const Words& w) {
  OptionRow row{};
  row.name = w.name;
  row.key = w.key;
  row.metavar = w.metavar;
  row.help = w.help;
  row.group = w.group;
  return row;
}

template <auto G, auto M>
[[nodiscard]] constexpr OptionRow whole(const Words& w, std::int64_t least, std::int64_t most) {
  OptionRow row = with(w);
  row.least = least;
  row.most = most;
  row.parse = [](const OptionRow& r, std::string_view written, std::string_view text,
                 StepConfig& c) {
    c.*G.*M = parse_whole({written, text}, text, {r.metavar, r.least, r.most});
  };
  row.get = [](const StepConfig& c) -> OptionValue { return c.*G.*M; };
  row.text = [](const StepConfig& c) { return std::to_string(c.*G.*M); };
  row.set = [](const OptionRow& r, const OptionValue& v, StepConfig& c) {
    r.parse(r, r.name, std::to_string(std::get<std::int64_t>(v)), c);
  };
  return row;
}

/// Its range is `Check`'s to refuse.
template <auto G, auto M, auto Check>
[[nodiscard]] constexpr OptionRow decimal(const Words& w) {
  OptionRow row = with(w);
  row.parse = [](const OptionRow&, std::string_view written, std::string_view text, StepConfig& c) {
    c.*G.*M = Check({written, text});
  };
  row.get = [](const StepConfig& c) -> OptionValue { return c.*G.*M; };
  row.text = [](const StepConfig& c) { return decimal_text(c.*G.*M); };
  row.set = [](const OptionRow& r, const OptionValue& v, StepConfig& c) {
    // JSON writes 1.0 as a number that a reader may take for an integer.
    const auto* whole = std::get_if<std::int64_t>(&v);
    const double value = whole != nullptr ? static_cast<double>(*whole) : std::get<double>(v);
    r.parse(r, r.name, decimal_text(value), c);
  };
  return row;
}

/// Names are lower case, without spaces and makers ("H100" is h100, "NVIDIA GeForce RTX 4090"
/// rtx-4090); a path stays as it is.
[[nodiscard]] inline std::string named(std::string_view text) {
  std::string name(text);
  if (name.find('/') != name.npos || name.ends_with(".json")) return name;
  for (char& c : name) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == ' ' || c == '_') c = '-';
  }
  for (const std::string_view maker : {"nvidia-", "geforce-", "tesla-"})
    if (name.starts_with(maker)) name.erase(0, maker.size());
  return name;
}

/// A text that another room knows how to read: a device's name, a framework's.
template <auto G, auto M>
[[nodiscard]] constexpr OptionRow name(const Words& w) {
  OptionRow row = with(w);
  row.parse = [](const OptionRow&, std::string_view, std::string_view text, StepConfig& c) {
    c.*G.*M = named(text);
  };
  row.get = [](const StepConfig& c) -> OptionValue { return c.*G.*M; };
  row.text = [](const StepConfig& c) { return c.*G.*M; };
  row.set = [](const OptionRow&, const OptionValue& v, StepConfig& c) {
    c.*G.*M = std::get<std::string>(v);
  };
  return row;
}

template <auto G, auto M>
[[nodiscard]] constexpr OptionRow flag(const Words& w, std::string_view off = {}) {
  OptionRow row = with(w);
  row.off = off;
  row.parse = [](const OptionRow& r, std::string_view written, std::string_view, StepConfig& c) {
    c.*G.*M = r.off.empty() || written != r.off;
  };
  row.get = [](const StepConfig& c) -> OptionValue { return c.*G.*M; };
  row.text = [](const StepConfig& c) { return std::string(c.*G.*M ? "true" : "false"); };
  row.set = [](const OptionRow&, const OptionValue& v, StepConfig& c) {
    c.*G.*M = std::get<bool>(v);
  };
  return row;
}

/// The words of a list of choices that are shown.
template <const auto& Choices>
inline constexpr auto shown_words = [] {
  constexpr std::size_t count = [] {
    std::size_t n = 0;
    for (const auto& choice : Choices) n += choice.shown ? 1 : 0;
    return n;
  }();
  std::array<std::string_view, count> words{};
  std::size_t n = 0;
  for (const auto& choice : Choices)
    if (choice.shown) words[n++] = choice.text;
  return words;
}();

template <const auto& Choices, typename Value>
[[nodiscard]] std::string word_of(Value value) {
  for (const auto& choice : Choices)
    if (choice.value == value && choice.shown) return std::string(choice.text);
  return "unknown";
}

/// One word of a list. In JSON it is its word, a boolean's choice is a boolean.
template <auto G, auto M, const auto& Choices>
[[nodiscard]] constexpr OptionRow choice(const Words& w) {
  OptionRow row = with(w);
  row.words = shown_words<Choices>;
  row.parse = [](const OptionRow&, std::string_view written, std::string_view text, StepConfig& c) {
    refuse_unsupported({written, text});
    c.*G.*M = parse_choice({written, text}, Choices);
  };
  row.text = [](const StepConfig& c) { return word_of<Choices>(c.*G.*M); };
  using Value = decltype(Choices[0].value);
  if constexpr (std::is_same_v<std::remove_const_t<Value>, bool>) {
    row.get = [](const StepConfig& c) -> OptionValue { return c.*G.*M; };
    row.set = [](const OptionRow&, const OptionValue& v, StepConfig& c) {
      c.*G.*M = std::get<bool>(v);
    };
  } else {
    row.get = [](const StepConfig& c) -> OptionValue { return word_of<Choices>(c.*G.*M); };
    row.set = [](const OptionRow& r, const OptionValue& v, StepConfig& c) {
      r.parse(r, r.name, std::get<std::string>(v), c);
    };
  }
  return row;
}

/// A text that sets several fields at once: "grouped:2".
template <auto Apply, auto Print>
[[nodiscard]] constexpr OptionRow mode(const Words& w, std::span<const std::string_view> words,
                                       std::string_view pattern) {
  OptionRow row = with(w);
  row.words = words;
  row.pattern = pattern;
  row.parse = [](const OptionRow&, std::string_view written, std::string_view text, StepConfig& c) {
    Apply({written, text}, c);
  };
  row.get = [](const StepConfig& c) -> OptionValue { return Print(c); };
  row.text = [](const StepConfig& c) { return Print(c); };
  row.set = [](const OptionRow& r, const OptionValue& v, StepConfig& c) {
    r.parse(r, r.name, std::get<std::string>(v), c);
  };
  return row;
}

}  // namespace ac_advisor::options
