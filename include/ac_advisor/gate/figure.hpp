#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ac_advisor/profile/profile.hpp"

namespace ac_advisor::gate {

/// What of a profile can be limited.
enum class Figure : std::uint8_t {
  peak_allocated,
  peak_reserved,
  launches,
  recompute_share,
  step_seconds,
};
inline constexpr std::size_t figure_count = 5;

/// Every figure is an integer, so that a limit is met or not, with no rounding in between.
enum class Unit : std::uint8_t { bytes, launches, millionths, nanoseconds };

struct FigureRow {
  Figure figure;
  const char* name;     ///< in ac-advisor.json and in messages
  const char* json;     ///< in baselines and reports, with its unit
  const char* measure;  ///< Bencher's slug
  Unit unit;
  const char* absolute;  ///< key of an allowed regression in the figure's own unit
};

[[nodiscard]] std::span<const FigureRow, figure_count> figure_table();
[[nodiscard]] const FigureRow& row(Figure figure);
[[nodiscard]] std::optional<Figure> figure_named(std::string_view name);

using Figures = std::array<std::int64_t, figure_count>;
[[nodiscard]] Figures figures_of(const profile::Profile& profile);
[[nodiscard]] inline std::size_t index(Figure figure) { return static_cast<std::size_t>(figure); }

/// "30.178 GiB", "2,533", "17.1 %", "377 ms"
[[nodiscard]] std::string shown(Unit unit, std::int64_t value);
/// The same with its sign.
[[nodiscard]] std::string shown_change(Unit unit, std::int64_t change);
/// As a number in the unit of JSON: bytes, launches, 0..1, seconds.
[[nodiscard]] double in_json_unit(Unit unit, std::int64_t value);
/// Back; a value that the unit does not hold is the largest that it does.
[[nodiscard]] std::int64_t from_json_unit(Unit unit, double value);

}  // namespace ac_advisor::gate
