// transformers v5.23, masking_utils.py: the causal and sliding-window masks that eager attention
// adds to its scores. (B, 1, S, S): boolean while they are put together, then in the model's dtype.
#include "lowering.hpp"

namespace ac_advisor::passes {

using ir::Module;
using ir::OpKind;
using ir::Shape;

ir::ValueId Lowering::causal_mask(bool sliding) {
  leaf_ = Module::root;
  const std::int64_t b = config_.batch, s = config_.seq;
  const Shape square{1, 1, s, s}, column{s, 1};
  const auto make = [&](OpKind kind, const Shape& size, DType type, std::initializer_list<V> in) {
    const V v = out(size, type, false);
    emit(kind, in, {v});
    return v;
  };
  const auto boolean = [&](V x, V y) { return make(OpKind::compare, square, DType::u8, {x, y}); };
  // find_packed_sequence_indices: positions that do not go up by one begin a new sequence; here
  // none
  const V before = make(OpKind::add_scalar, {b, 1}, DType::i64, {positions_});
  const V joined = make(OpKind::cat, {b, s + 1}, DType::i64, {before, positions_});
  const V steps = make(OpKind::add, {b, s}, DType::i64, {joined, joined});
  const V jumps = make(OpKind::compare, {b, s}, DType::u8, {steps});
  const V packed = make(OpKind::cumsum, {b, s}, DType::i64, {jumps});
  const V none_packed = make(OpKind::compare, {b}, DType::u8, {packed});
  make(OpKind::sum, {}, DType::u8, {none_packed});
  hold({before, steps});
  const V batch = make(OpKind::arange, {b}, DType::i64, {});
  const V heads = make(OpKind::arange, {1}, DType::i64, {});
  const auto tokens = [&] {
    return make(OpKind::add_scalar, {s}, DType::i64, {make(OpKind::arange, {s}, DType::i64, {})});
  };
  const V queries = tokens(), keys = tokens();
  V allowed{};
  if (sliding) {
    const V all = make(OpKind::fill, {}, DType::u8, {});
    const V oldest = make(OpKind::add_scalar, column, DType::i64, {queries});
    const V recent = boolean(keys, oldest);
    const V within = boolean(all, recent);
    allowed = boolean(within, boolean(keys, queries));
  } else {
    allowed = boolean(keys, queries);
  }
  hold({batch, heads, queries, keys});
  const V zero = make(OpKind::fill, {}, config_.compute_dtype, {});
  const V least = make(OpKind::fill, {}, config_.compute_dtype, {});
  return make(OpKind::masked_fill, {b, 1, s, s}, config_.compute_dtype, {allowed, zero, least});
}

/// Which masks the model makes before its blocks: one, or with sliding windows in some, two.
void Lowering::causal_masks() {
  if (!eager_attention_) return;
  bool any_window = false, any_full = false;
  for (std::int64_t w : spec_.window) (w > 0 ? any_window : any_full) = true;
  if (spec_.window.empty() || any_full) full_mask_ = causal_mask(false);
  if (any_window) window_mask_ = causal_mask(true);
}

}  // namespace ac_advisor::passes
