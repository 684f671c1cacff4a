#include "ac_advisor/ir/shape.hpp"

#include <algorithm>

#include "ac_advisor/model/error.hpp"

namespace ac_advisor::ir {

Shape::Shape(std::initializer_list<std::int64_t> sizes)
    : rank_(static_cast<std::uint8_t>(sizes.size())) {
  std::copy(sizes.begin(), sizes.end(), sizes_.begin());
}

Shape::Shape(std::span<const std::int64_t> sizes) : rank_(static_cast<std::uint8_t>(sizes.size())) {
  std::copy(sizes.begin(), sizes.end(), sizes_.begin());
}

std::int64_t Shape::numel() const {
  std::int64_t product = 1;
  for (std::int64_t size : sizes()) product = checked_mul(product, size);
  return product;
}

std::int64_t checked_mul(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product))
    throw UserError(
        "a tensor of this configuration has more bytes than 64 bits can count; "
        "use a smaller --batch, --seq or model");
  return product;
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.rank(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(shape[i]);
  }
  return text + "]";
}

}  // namespace ac_advisor::ir
