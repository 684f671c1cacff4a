#pragma once

#include <cstdint>

/// What a size in a configuration may be at most: orders of magnitude beyond any model, and small
/// enough that a row of a matrix fits 32 bits.
namespace ac_advisor::model::sizes {

inline constexpr std::int64_t hidden = 1 << 24;
inline constexpr std::int64_t intermediate = 1 << 24;
inline constexpr std::int64_t vocab = 1 << 28;
inline constexpr std::int64_t layers = 1 << 14;
inline constexpr std::int64_t heads = 1 << 16;
inline constexpr std::int64_t head_dim = 1 << 16;
inline constexpr std::int64_t experts = 1 << 16;

}  // namespace ac_advisor::model::sizes
