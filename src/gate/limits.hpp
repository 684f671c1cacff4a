#pragma once

#include "ac_advisor/gate/gate_file.hpp"
#include "json/node.hpp"

namespace ac_advisor::gate {

using json::Node;

[[nodiscard]] Level read_level(const Node& node);
/// `name` is one of the figure table's; `node` is where it was found.
[[nodiscard]] Figure read_figure(const Node& node, const std::string& name);
/// A limit as the file has it; without a level of its own it has its case's.
struct WrittenLimit {
  Limit limit;
  bool has_level = false;
};
using WrittenLimits = std::array<std::optional<WrittenLimit>, figure_count>;

/// {"peak_allocated": {"budget": "40GiB", "regression": {"percent": 1}, "level": "warn"}, …}; what
/// is given replaces what `limits` had for that figure.
void read_limits(const Node& node, WrittenLimits& limits);

/// The most that the figure may be, given its baseline.
[[nodiscard]] std::int64_t allowed(const Regression& regression, std::int64_t baseline);

}  // namespace ac_advisor::gate
