// transformers v5.23, masking_utils.py: the causal and sliding-window masks that eager attention
// adds to its scores. (B, 1, S, S): boolean while they are put together, then in the model's dtype.
#include <limits>

#include "lowering.hpp"

namespace ac_advisor::passes {

using ir::Comparison;
using ir::Module;
using ir::OpKind;
using ir::Shape;

/// `window`: tokens that a query sees, itself included; 0: all before it.
ir::ValueId Lowering::causal_mask(std::int64_t window) {
  const bool sliding = window > 0;
  leaf_ = Module::root;
  const std::int64_t b = config_.run.batch, s = config_.run.seq;
  const Shape square{1, 1, s, s}, column{s, 1};
  const auto make = [&](OpKind kind, const Shape& size, DType type, std::initializer_list<V> in,
                        const ir::Attributes& attributes = {}) {
    const V v = out(size, type, false);
    emit(kind, in, {v}, attributes);
    return v;
  };
  const auto boolean = [&](Comparison how, V x, V y) {
    return make(OpKind::compare, square, DType::u8, {x, y}, ir::Compare{0.0, how});
  };
  // find_packed_sequence_indices: positions that do not go up by one begin a new sequence; here
  // none
  const V before = make(OpKind::add_scalar, {b, 1}, DType::i64, {p_.narrow(positions_, 0, 0, 1)},
                        ir::Number{-1.0});
  const V joined = make(OpKind::cat, {b, s + 1}, DType::i64, {before, positions_});
  const auto last = static_cast<std::int32_t>(1);
  const V steps =
      make(OpKind::add, {b, s}, DType::i64,
           {p_.narrow(joined, last, 1, s), p_.narrow(joined, last, 0, s)}, ir::Add{-1.0});
  const V jumps =
      make(OpKind::compare, {b, s}, DType::u8, {steps}, ir::Compare{1.0, Comparison::not_equal});
  const V packed = make(OpKind::cumsum, {b, s}, DType::i64, {jumps});
  const V none_packed = make(OpKind::compare, {b}, DType::u8, {p_.narrow(packed, last, s - 1, 1)},
                             ir::Compare{0.0, Comparison::not_equal});
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
    const V all = make(OpKind::fill, {}, DType::u8, {}, ir::Number{1.0});
    const V oldest = make(OpKind::add_scalar, column, DType::i64, {queries},
                          ir::Number{-static_cast<double>(window)});
    const V recent = boolean(Comparison::greater, keys, oldest);
    const V within = boolean(Comparison::both, all, recent);
    allowed = boolean(Comparison::both, within,
                      boolean(Comparison::less_equal, keys, p_.reshape(queries, column)));
  } else {
    allowed = boolean(Comparison::less_equal, keys, p_.reshape(queries, column));
  }
  hold({batch, heads, queries, keys});
  const V zero = make(OpKind::fill, {}, dtype_, {});
  const double lowest = dtype_ == DType::bf16
                            ? -0x1.FEp127  // torch.finfo(torch.bfloat16).min
                            : static_cast<double>(std::numeric_limits<float>::lowest());
  const V least = make(OpKind::fill, {}, dtype_, {}, ir::Number{lowest});
  return make(OpKind::masked_fill, {b, 1, s, s}, dtype_, {allowed, zero, least});
}

/// Which masks the model makes before its blocks: one, or with sliding windows in some, two.
void Lowering::causal_masks() {
  if (!eager_attention_) return;
  std::int64_t window = 0;
  bool any_full = false;
  for (std::int64_t w : spec_.window)
    if (w > 0)
      window = w;
    else
      any_full = true;
  if (spec_.window.empty() || any_full) full_mask_ = causal_mask(0);
  if (window > 0) window_mask_ = causal_mask(window);
}

}  // namespace ac_advisor::passes
