// What torchao 0.18 runs around a product of MX formats (prototype/moe_training/mxfp8_linear.py,
// prototype/mx_formats/kernels.py, mx_tensor.py, utils.py).
#include "ac_advisor/ir/float8.hpp"

namespace ac_advisor::ir {
namespace {

constexpr std::int64_t block = 32;  // elements a scale

std::int64_t round_up(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }

}  // namespace

/// triton_to_mxfp8_dim0 of rows, the CUDA kernel mxfp8_quantize of columns: one launch, two
/// tensors.
Float8Operand Float8Writer::mx_cast(ValueId x, Along along) {
  const Shape shape = p_.value(x).shape;
  const std::int64_t columns = shape.back(), rows = shape.numel() / columns;
  const bool turned = along == Along::columns;
  const std::int64_t outer = turned ? columns : rows, inner = turned ? rows : columns;
  const Float8Operand made{make({outer, inner}, DType::f8),
                           make({outer, inner / block}, DType::u8)};
  emit(OpKind::mx_cast, {x}, {made.data, made.scale}, Float8{false, turned});
  return made;
}

/// to_blocked: tiles of 128 rows and four scales. Where these do not fill tiles, zeros take them
/// first; where tiles are neither one row nor one column, their reshape copies; and so does turning
/// each over.
ValueId Float8Writer::mx_blocked(ValueId scales) {
  constexpr std::int64_t tile_rows = 128, tile_columns = 4;
  const Shape shape = p_.value(scales).shape;
  const Shape whole{round_up(shape[0], tile_rows), round_up(shape[1], tile_columns)};
  const ValueId blocked = make(whole, DType::u8);
  const bool filled = shape == whole, viewed = whole[0] == tile_rows || whole[1] == tile_columns;
  if (filled && viewed) {
    emit(OpKind::mx_blocked, {scales}, {blocked});
  } else if (filled != viewed) {
    emit(OpKind::mx_blocked, {scales}, {make(whole, DType::u8, true), blocked});
  } else {
    const ValueId padded = make(whole, DType::u8, true), tiles = make(whole, DType::u8, true);
    emit(OpKind::mx_blocked, {scales}, {padded, tiles, blocked});
  }
  return blocked;
}

ValueId Float8Writer::mx_product(const Float8Operand& a, const Float8Operand& b, const Shape& shape,
                                 DType dtype, const Product& product) {
  const ValueId of_a = mx_blocked(a.scale), of_b = mx_blocked(b.scale), y = make(shape, dtype);
  emit(OpKind::fp8_product, {a.data, b.data, of_a, of_b}, {y}, product);
  return y;
}

}  // namespace ac_advisor::ir
