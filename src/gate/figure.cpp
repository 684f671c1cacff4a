#include "ac_advisor/gate/figure.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "model/grouped.hpp"

namespace ac_advisor::gate {
namespace {

using model::grouped;

// clang-format off
constexpr std::array<FigureRow, figure_count> table{{
  // figure, name, JSON key, Bencher measure, unit, key of an absolute regression
  {Figure::peak_allocated, "peak_allocated", "peak_allocated_bytes", "peak-allocated", Unit::bytes, "bytes"},
  {Figure::peak_reserved, "peak_reserved", "peak_reserved_bytes", "peak-reserved", Unit::bytes, "bytes"},
  {Figure::launches, "launches", "launches", "launches", Unit::launches, "launches"},
  {Figure::recompute_share, "recompute_share", "recompute_share", "recompute-share", Unit::millionths, "share"},
  {Figure::step_seconds, "step_seconds", "step_seconds", "step-seconds", Unit::nanoseconds, "seconds"},
}};
// clang-format on

constexpr std::int64_t kib = 1024, mib = kib * 1024, gib = mib * 1024;

double scale(Unit unit) {
  return unit == Unit::millionths ? 1e6 : unit == Unit::nanoseconds ? 1e9 : 1.0;
}

/// Small numbers stay exact: a regression of one block of 512 bytes is visible.
std::string shown_bytes(std::int64_t n) {
  const double value = static_cast<double>(n);
  const double size = std::abs(value);
  if (size >= static_cast<double>(gib)) return fmt::format("{:.3f} GiB", value / double{gib});
  if (size >= static_cast<double>(mib)) return fmt::format("{:.3f} MiB", value / double{mib});
  return grouped(n) + " bytes";
}

}  // namespace

std::span<const FigureRow, figure_count> figure_table() { return table; }

const FigureRow& row(Figure figure) { return table[index(figure)]; }

std::optional<Figure> figure_named(std::string_view name) {
  for (const FigureRow& row : table)
    if (row.name == name) return row.figure;
  return std::nullopt;
}

Figures figures_of(const profile::Profile& p) {
  std::int64_t launches = 0;
  for (const std::int64_t n : p.kernels.launches) launches += n;
  const double share = p.time.step > 0 ? p.time.recompute / p.time.step : 0.0;
  return {p.memory.peak_allocated, p.memory.peak_reserved, launches,
          from_json_unit(Unit::millionths, share), from_json_unit(Unit::nanoseconds, p.time.step)};
}

std::string shown(Unit unit, std::int64_t value) {
  switch (unit) {
    case Unit::bytes:
      return shown_bytes(value);
    case Unit::launches:
      return grouped(value);
    case Unit::millionths:
      return fmt::format("{:.2f} %", static_cast<double>(value) / 1e4);
    case Unit::nanoseconds:
      return fmt::format("{:.4g} ms", static_cast<double>(value) / 1e6);
  }
  return "";
}

std::string shown_change(Unit unit, std::int64_t change) {
  return (change < 0 ? "" : "+") + shown(unit, change);
}

double in_json_unit(Unit unit, std::int64_t value) {
  return static_cast<double>(value) / scale(unit);
}

std::int64_t from_json_unit(Unit unit, double value) {
  const double scaled = value * scale(unit);
  if (!(scaled < 0x1p62)) return std::numeric_limits<std::int64_t>::max() / 2;
  if (scaled < -0x1p62) return std::numeric_limits<std::int64_t>::min() / 2;
  return std::llround(scaled);
}

}  // namespace ac_advisor::gate
