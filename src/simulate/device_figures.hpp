#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace ac_advisor::simulate {

/// What a figure may be; `what` completes "must be …".
struct Range {
  double least = 0, most = 0;
  bool whole = false;
  const char* what = "";
};

// Wide enough for any device, narrow enough that no time or size becomes infinite or negative.
inline constexpr Range any_bytes{0, 1e15, true, "a whole number of bytes from 0 to 1e15"};
inline constexpr Range some_bytes{1, 1e15, true, "a whole number of bytes from 1 to 1e15"};
inline constexpr Range count{0, 1e6, true, "a whole number from 0 to 1,000,000"};
inline constexpr Range some{1, 1e6, true, "a whole number from 1 to 1,000,000"};
inline constexpr Range per_second{1e3, 1e21, false, "a number from 1e3 to 1e21, a second"};
inline constexpr Range seconds_of_one{0, 10, false, "from 0 to 10 seconds"};
inline constexpr Range fraction{1e-4, 2, false, "a fraction above 0.0001, at most 2"};
inline constexpr Range spread_range{0, 0.2, false, "a fraction from 0 to 0.2"};
inline constexpr Range length{0, 1e6, false, "a number from 0 to 1e6"};
inline constexpr Range tile{1, 1e4, false, "a number from 1 to 10,000"};

/// Figures are objects {"value", "source", "estimate"}; `path` is dotted. What is missing or out of
/// its range throws a UserError naming file, field, value and what would be right.
class Figures {
 public:
  Figures(const nlohmann::json& root, const std::string& origin) : root_(root), origin_(origin) {}

  [[nodiscard]] bool has(const std::string& path) const { return find(path) != nullptr; }
  [[nodiscard]] const nlohmann::json& at(const std::string& path) const;
  [[nodiscard]] double number(const std::string& path, const Range& range) const;
  /// `absent` where the file has no such field.
  [[nodiscard]] double number_or(const std::string& path, const Range& range, double absent) const {
    return has(path) ? number(path, range) : absent;
  }
  [[nodiscard]] std::int64_t integer(const std::string& path, const Range& range) const {
    return static_cast<std::int64_t>(number(path, range));
  }
  [[nodiscard]] std::string text(const std::string& path) const;
  /// 90 of "9.0".
  [[nodiscard]] std::int64_t capability(const std::string& path) const;
  [[noreturn]] void refuse(const std::string& path, const std::string& what) const;

 private:
  [[nodiscard]] const nlohmann::json* find(const std::string& path) const;

  const nlohmann::json& root_;
  const std::string& origin_;
};

}  // namespace ac_advisor::simulate
