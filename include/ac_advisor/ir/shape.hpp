#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "ac_advisor/model/step_config.hpp"

namespace ac_advisor::ir {

/// A tensor's sizes, at most five dimensions (batch, kv heads, groups, tokens, head_dim).
class Shape {
 public:
  static constexpr std::size_t max_rank = 5;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> sizes);
  explicit Shape(std::span<const std::int64_t> sizes);  ///< at most `max_rank`

  [[nodiscard]] std::size_t rank() const { return rank_; }
  [[nodiscard]] std::int64_t operator[](std::size_t i) const { return sizes_[i]; }
  [[nodiscard]] std::int64_t back() const { return sizes_[rank_ - 1U]; }
  [[nodiscard]] std::span<const std::int64_t> sizes() const { return {sizes_.data(), rank_}; }
  /// Product of the sizes; a scalar has one element. Throws UserError on 64-bit overflow.
  [[nodiscard]] std::int64_t numel() const;
  void set(std::size_t i, std::int64_t size) { sizes_[i] = size; }
  bool operator==(const Shape&) const = default;

 private:
  std::array<std::int64_t, max_rank> sizes_{};
  std::uint8_t rank_ = 0;
};

/// "[8, 2048, 64]"
[[nodiscard]] std::string to_string(const Shape& shape);

/// a * b; throws UserError on 64-bit overflow ("… bytes do not fit 64 bits").
[[nodiscard]] std::int64_t checked_mul(std::int64_t a, std::int64_t b);

}  // namespace ac_advisor::ir
