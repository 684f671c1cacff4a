#pragma once

#include <initializer_list>
#include <variant>

#include "ac_advisor/ir/program.hpp"

namespace ac_advisor::ir {

/// Which rows of a split table indices name.
struct OwnRows {
  ValueId rows = no_id;       ///< in this rank's part: a copy of the indices, from its first row on
  ValueId elsewhere = no_id;  ///< which of them other ranks have
};

/// _MaskPartial._mask_tensor of DTensor, and Megatron-core's target mask, but for the zeros that
/// mask_shard then writes where rows are elsewhere. `count` rows each; `make(kind, inputs, dtype,
/// attributes)` writes an op whose result has the indices' shape.
template <typename Make>
OwnRows write_own_rows(ValueId indices, std::int64_t count, std::int64_t rank, const Make& make) {
  const auto first = static_cast<double>(rank * count);
  const auto compared = [&](std::initializer_list<ValueId> in, double number, Comparison how) {
    return make(OpKind::compare, in, DType::u8, Compare{number, how});
  };
  const ValueId before = compared({indices}, first, Comparison::below);
  const ValueId after =
      compared({indices}, first + static_cast<double>(count), Comparison::at_least);
  const ValueId elsewhere = compared({before, after}, 0.0, Comparison::either);
  const ValueId copy = make(OpKind::clone, {indices}, DType::i64, std::monostate());
  return {make(OpKind::add_scalar, {copy}, DType::i64, Number{-first}), elsewhere};
}

}  // namespace ac_advisor::ir
