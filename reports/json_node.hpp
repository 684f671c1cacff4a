#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "ac_advisor/model/error.hpp"

namespace ac_advisor::reports {

using Json = nlohmann::ordered_json;

inline Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

/// One value of a file that was read, and where it stands, for errors that name it.
struct Node {
  const Json& json;
  std::string place;  ///< "sweep.json: \"rows[3]\""

  [[nodiscard]] const Json& at(const char* key) const {
    if (!json.is_object()) throw UserError(place + " must be an object");
    const auto found = json.find(key);
    if (found == json.end()) throw UserError(fmt::format("{} lacks \"{}\"", place, key));
    return *found;
  }
  [[nodiscard]] Node child(const char* key) const {
    return {at(key), fmt::format("{}: \"{}\"", place, key)};
  }
  template <typename T>
  [[nodiscard]] T get(const char* key) const {
    // An integer is not read from 1e300, which no integer holds.
    const bool another =
        std::is_integral_v<T> && !std::is_same_v<T, bool> ? !at(key).is_number_integer() : false;
    try {
      if (!another) return at(key).get<T>();
    } catch (const nlohmann::json::exception&) {
    }
    throw UserError(fmt::format("{}: \"{}\" has the wrong type", place, key));
  }
  template <typename T>
  [[nodiscard]] T get_or(const char* key, T otherwise) const {
    return at(key).is_null() ? otherwise : get<T>(key);
  }
  /// Of a field that files of earlier versions lack.
  template <typename T>
  [[nodiscard]] T get_newer(const char* key, T otherwise) const {
    return json.is_object() && json.contains(key) ? get_or<T>(key, otherwise) : otherwise;
  }
  [[nodiscard]] const Json& list(const char* key) const {
    if (!at(key).is_array()) throw UserError(fmt::format("{}: \"{}\" must be a list", place, key));
    return at(key);
  }
};

}  // namespace ac_advisor::reports
