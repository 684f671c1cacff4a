#pragma once

#include <optional>

#include "ac_advisor/graph/graph.hpp"

namespace ac_advisor::graph {

/// Absent: it does not fit into 63 bits, or is negative. What is no whole number is rounded up.
/// `tokens` has terms.
[[nodiscard]] std::optional<std::int64_t> value_of(const Form& form, Size size, const Form& tokens);
/// Of FLOPs, which may be more than 2^63.
[[nodiscard]] std::optional<double> real_value_of(const Form& form, Size size, const Form& tokens);

}  // namespace ac_advisor::graph
