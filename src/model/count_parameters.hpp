#pragma once

#include <cstdint>
#include <optional>

#include "ac_advisor/model/spec.hpp"

namespace ac_advisor::model {

/// More than this is no model; bytes, FLOPs and sums of what stays below fit 64 bits downstream.
inline constexpr std::int64_t max_parameters = std::int64_t{1} << 50;

/// As parameter_count, but none beyond `max_parameters` (64-bit overflow included).
[[nodiscard]] std::optional<std::int64_t> count_parameters(const ModelSpec& spec);

}  // namespace ac_advisor::model
