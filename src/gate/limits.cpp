#include "limits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ac_advisor/model/error.hpp"
#include "model/nearest.hpp"

namespace ac_advisor::gate {
namespace {

constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t percent = 1'000'000;  // millionths

/// "40GiB" or 42949672960 for memory, a count, a share from 0 to 1, seconds.
std::int64_t read_amount(const Node& node, Unit unit) {
  switch (unit) {
    case Unit::bytes:
      if (!node.json().is_string()) return node.integer(0, most);
      try {
        return parse_size(node.path(), node.text());
      } catch (const UserError& error) {
        const std::string what = error.what();
        node.fail("is not a size: " + what.substr(std::min(what.rfind(": ") + 2, what.size())));
      }
    case Unit::launches:
      return node.integer(0, most);
    case Unit::millionths:
      return from_json_unit(unit, node.number(0.0, 1.0));
    case Unit::nanoseconds:
      return from_json_unit(unit, node.number(0.0, 1e6));
  }
  return 0;
}

Regression read_regression(const Node& node, const FigureRow& row) {
  node.allow_only({"percent", row.absolute});
  Regression regression;
  // Six decimals of a percent are exact; more than 100 % is a budget, not a regression.
  if (const auto own = node.find("percent"))
    regression.percent_millionths = std::llround(own->number(0.0, 100.0) * double{percent});
  if (const auto own = node.find(row.absolute)) regression.absolute = read_amount(*own, row.unit);
  if (!regression.percent_millionths && !regression.absolute)
    node.fail(fmt::format("allows nothing; give \"percent\", \"{}\" or both (0: no growth at all)",
                          row.absolute));
  return regression;
}

WrittenLimit read_limit(const Node& node, const FigureRow& row) {
  node.allow_only({"budget", "regression", "level"});
  WrittenLimit written;
  Limit& limit = written.limit;
  if (const auto own = node.find("budget")) limit.budget = read_amount(*own, row.unit);
  if (const auto own = node.find("regression")) limit.regression = read_regression(*own, row);
  if (const auto own = node.find("level")) {
    limit.level = read_level(*own);
    written.has_level = true;
  }
  if (!limit.budget && !limit.regression)
    node.fail("limits nothing; give \"budget\", \"regression\" or both");
  return written;
}

}  // namespace

Level read_level(const Node& node) {
  const std::string word = node.text();
  for (const Level level : {Level::off, Level::warn, Level::error})
    if (word == to_string(level)) return level;
  node.fail("must be \"off\", \"warn\" or \"error\"");
}

Figure read_figure(const Node& node, const std::string& name) {
  if (const auto figure = figure_named(name)) return *figure;
  std::vector<std::string_view> known;
  std::string list;
  for (const FigureRow& row : figure_table()) {
    known.emplace_back(row.name);
    list += (list.empty() ? "" : ", ") + std::string(row.name);
  }
  const std::string_view near = model::nearest(name, known);
  node.fail(near.empty() ? "is not a figure; known: " + list
                         : "is not a figure; did you mean \"" + std::string(near) + "\"?");
}

void read_limits(const Node& node, WrittenLimits& limits) {
  std::vector<std::string_view> known;
  for (const FigureRow& row : figure_table()) known.emplace_back(row.name);
  node.allow_only(known);
  for (const auto& [name, value] : node.members()) {
    const FigureRow& of = row(read_figure(value, name));
    limits[index(of.figure)] = read_limit(value, of);
  }
}

std::int64_t allowed(const Regression& regression, std::int64_t baseline) {
  std::int64_t growth = most;
  if (regression.absolute) growth = *regression.absolute;
  if (regression.percent_millionths) {
    // floor(baseline * millionths / 100 %), without a product that overflows.
    const std::int64_t whole = 100 * percent, m = *regression.percent_millionths;
    growth = std::min(growth, baseline / whole * m + baseline % whole * m / whole);
  }
  return growth > most - baseline ? most : baseline + growth;
}

}  // namespace ac_advisor::gate
