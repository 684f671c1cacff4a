// Backwards that PEFT v0.21 writes itself.
#include "derivatives.hpp"

namespace ac_advisor::ir::derive {

/// tuners/loha/layer.py, HadaWeight.backward: both factors of the weight are made anew. Its
/// argument, and what it bound last, live to its end.
void hada_weight(Derivation& d) {
  // inputs: w1a [out, r], w1b [r, in], w2a, w2b, the weight [out, in]
  const ValueId given = d.grad();
  const Shape whole = d.shape(given);
  const DType type = d.dtype(given);
  const auto rank = static_cast<std::int32_t>(d.shape(d.in(0))[1]);
  const auto rows = static_cast<std::int32_t>(whole[0]),
             columns = static_cast<std::int32_t>(whole[1]);
  const ValueId g = d.emit(OpKind::mul_scalar, {given}, whole, type, Number{1.0});
  ValueId before = no_id;
  for (std::size_t half : {0U, 1U}) {
    const std::size_t other = 2 - 2 * half, own = 2 * half;
    const ValueId product =
        d.emit(OpKind::mm, {d.in(other), d.in(other + 1)}, whole, type, Product{rank, Form::nn});
    const ValueId of_product = d.emit(OpKind::mul, {g, product}, whole, type);
    if (before != no_id) d.emit_raw(OpKind::hold, {before}, {});  // `temp`, until it is bound anew
    const ValueId a = d.in(own), b = d.in(own + 1);
    d.give(own, d.emit(OpKind::mm, {of_product, b}, d.shape(a), type, Product{columns, Form::nt}));
    d.give(own + 1, d.emit(OpKind::mm, {a, of_product}, d.shape(b), type, Product{rows, Form::tn}));
    before = of_product;
  }
  d.emit_raw(OpKind::hold, {given, g}, {});
}

}  // namespace ac_advisor::ir::derive
