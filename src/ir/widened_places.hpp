#pragma once

#include <cstdint>

#include "ac_advisor/ir/program.hpp"

namespace ac_advisor::ir {

/// Of an op that indexes by its second input: how many places it widens to 64 bits first, as they
/// are in 32 (aten/src/ATen/native/TensorAdvancedIndexing.cpp, v2.11: make_info).
inline std::int64_t widened_places(const Program& p, const Op& op) {
  if (op.inputs < 2) return 0;  // it writes at all places
  const Value& places = p.value(p.input(op, 1));
  return places.dtype == DType::i32 ? places.shape.numel() : 0;
}

}  // namespace ac_advisor::ir
