#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "ac_advisor/intake/training.hpp"
#include "ac_advisor/model/error.hpp"

namespace ac_advisor::test {

/// The option that a file becomes; "(flag)" without a value, empty: none.
inline std::string option(const intake::Training& t, std::string_view name) {
  for (const auto& [given, value] : t.options)
    if (given == name) return value.empty() ? "(flag)" : value;
  return "";
}

/// What a key is taken to be; empty: it is not in the mapping.
inline std::string value(const intake::Training& t, std::string_view key) {
  for (const intake::Mapping& m : t.mapping)
    if (m.key == key) return m.value;
  return "";
}

inline bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

inline bool assumes(const intake::Training& t, std::string_view part) {
  return std::any_of(t.assumptions.begin(), t.assumptions.end(),
                     [&](const std::string& text) { return contains(text, part); });
}

/// The UserError that `read` ends with; empty: none.
template <typename Read>
std::string why_not(const Read& read) {
  try {
    static_cast<void>(read());
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

}  // namespace ac_advisor::test
