#pragma once

#include <array>
#include <cstdint>
#include <span>

/// Numbers of 8 bits whose exponent and fraction share the bits that are left of their sign
/// (Dettmers 2016, "8-Bit Approximations for Parallelism in Deep Learning"), as bitsandbytes v0.50
/// makes them (functional.create_dynamic_map), and blocks of 256 that share a scale.
namespace ac_advisor::trainer::dynamic_map {

using Map = std::array<float, 256>;

/// Sorted. Of moments' squares, of which none is negative, the unsigned one.
[[nodiscard]] const Map& signed_map();
[[nodiscard]] const Map& unsigned_map();

/// Elements that share a scale, the largest magnitude among them.
inline constexpr std::int64_t block = 256;

/// Which of two numbers what lies halfway between them becomes: bitsandbytes' has the lower,
/// torchao's the upper.
enum class Ties { down, up };

/// The place in `map` of the number nearest to `scaled`.
[[nodiscard]] std::uint8_t code_of(std::span<const float, 256> map, float scaled, Ties ties);

/// A block's codes and scale from its values (at most `block` of them).
[[nodiscard]] float quantize_block(std::span<const float, 256> map, std::span<const float> values,
                                   std::uint8_t* codes, Ties ties = Ties::down);

}  // namespace ac_advisor::trainer::dynamic_map
