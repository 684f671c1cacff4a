// Derivatives of pointwise ops, reductions, copies and views.
#include <array>
#include <cmath>
#include <span>
#include <vector>

#include "derivatives.hpp"

namespace ac_advisor::ir::derive {

void pass_to_all(Derivation& d) {
  for (std::size_t i = 0; i < d.op().inputs; ++i)
    if (d.needs(i)) d.give(i, d.grad());
}

void add(Derivation& d) {
  // x + alpha * y; SubBackward0 negates
  const double alpha = d.attributes<Add>().alpha;
  if (alpha == 1.0) return pass_to_all(d);
  const ValueId g = d.grad();
  if (d.needs(1))
    d.give(1, alpha == -1.0
                  ? d.emit(OpKind::neg, {g}, d.shape(g), d.dtype(g))
                  : d.emit(OpKind::mul_scalar, {g}, d.shape(g), d.dtype(g), Number{alpha}));
  if (d.needs(0)) d.give(0, g);
}

void layer_norm(Derivation& d) {
  // inputs: x, weight, bias; outputs: y, mean and 1/std of each row in fp32
  const ValueId x = d.in(0), w = d.in(1), b = d.in(2);
  const auto attributes = d.attributes<LayerNorm>();
  if (!d.needs(0)) {
    const ValueId dw = d.make_like(w), db = d.make_like(b);
    d.emit_raw(OpKind::layer_norm_backward, {d.grad(), x, d.out(1), d.out(2), w, b}, {dw, db},
               attributes);
    d.give(1, dw);
    return d.give(2, db);
  }
  const ValueId dx = d.make(d.shape(x), d.dtype(x));
  d.give(0, dx);
  if (!d.needs(1)) {
    d.emit_raw(OpKind::layer_norm_backward, {d.grad(), x, d.out(1), d.out(2), w}, {dx}, attributes);
    return;
  }
  const ValueId dw = d.make_like(w), db = d.make_like(b);
  d.emit_raw(OpKind::layer_norm_backward, {d.grad(), x, d.out(1), d.out(2), w, b}, {dx, dw, db},
             attributes);
  d.give(1, dw);
  d.give(2, db);
}

void fused_rms_norm(Derivation& d) {
  // inputs: x, weight; outputs: y, 1/rms of each row in fp32. Both gradients are made by one node.
  const ValueId x = d.in(0), w = d.in(1);
  const auto attributes = d.attributes<RmsNorm>();
  const ValueId dx = d.make(d.shape(x), d.dtype(x));
  d.set_permuted(dx, d.permuted(x));
  d.give(0, dx);
  if (!d.needs(1)) {
    d.emit_raw(OpKind::fused_rms_norm_backward, {d.grad(), x, d.out(1), w}, {dx}, attributes);
    return;
  }
  const ValueId dw = d.make_like(w);
  d.emit_raw(OpKind::fused_rms_norm_backward, {d.grad(), x, d.out(1), w}, {dx, dw}, attributes);
  d.give(1, dw);
}

void cast(Derivation& d) {
  const ValueId x = d.in(0), g = d.grad();
  d.give(0, d.emit(OpKind::cast, {g}, d.shape(g), d.dtype(x)));
}

void mul(Derivation& d) {
  // MulBackward0: other's gradient is computed before self's
  const ValueId a = d.in(0), b = d.in(1), g = d.grad();
  if (d.needs(1)) d.give(1, d.emit(OpKind::mul, {g, a}, d.shape(g), d.dtype(g)));
  if (d.needs(0)) d.give(0, d.emit(OpKind::mul, {g, b}, d.shape(g), d.dtype(g)));
}

void complex_mul(Derivation& d) {
  // the table's conjugate, a flag on a view until then, is made for the product
  const ValueId table = d.in(1), g = d.grad();
  const ValueId turned_back = d.emit(OpKind::clone, {table}, d.shape(table), d.dtype(table));
  d.give(0, d.emit(OpKind::complex_mul, {g, turned_back}, d.shape(g), d.dtype(g)));
}

void mul_scalar(Derivation& d) {
  const ValueId g = d.grad();
  d.give(0, d.emit(OpKind::mul_scalar, {g}, d.shape(g), d.dtype(g), d.attributes<Number>()));
}

void div(Derivation& d) {
  const ValueId a = d.in(0), g = d.grad();
  if (d.op().inputs == 1) {  // by a number
    d.give(0, d.emit(OpKind::div, {g}, d.shape(g), d.dtype(g), d.attributes<Number>()));
    return;
  }
  // div_tensor_other_grad: -grad * ((self / other) / other), other first; the expression's values
  // live to its end
  const ValueId b = d.in(1);
  if (d.needs(1)) {
    const ValueId minus = d.emit(OpKind::neg, {g}, d.shape(g), d.dtype(g));
    const ValueId once = d.emit(OpKind::div, {a, b}, d.shape(a), d.dtype(a));
    const ValueId twice = d.emit(OpKind::div, {once, b}, d.shape(a), d.dtype(a));
    d.give(1, d.emit(OpKind::mul, {minus, twice}, d.shape(g), d.dtype(g)));
    d.emit_raw(OpKind::hold, {once}, {});
  }
  if (d.needs(0)) d.give(0, d.emit(OpKind::div, {g, b}, d.shape(g), d.dtype(g)));
}

void cos(Derivation& d) {  // grad * -self.sin()
  const ValueId x = d.in(0), g = d.grad();
  const ValueId sine = d.emit(OpKind::sin, {x}, d.shape(x), d.dtype(x));
  const ValueId minus = d.emit(OpKind::neg, {sine}, d.shape(x), d.dtype(x));
  d.give(0, d.emit(OpKind::mul, {g, minus}, d.shape(x), d.dtype(x)));
}

void sin(Derivation& d) {  // grad * self.cos()
  const ValueId x = d.in(0), g = d.grad();
  const ValueId cosine = d.emit(OpKind::cos, {x}, d.shape(x), d.dtype(x));
  d.give(0, d.emit(OpKind::mul, {g, cosine}, d.shape(x), d.dtype(x)));
}

void neg(Derivation& d) {
  const ValueId g = d.grad();
  d.give(0, d.emit(OpKind::neg, {g}, d.shape(g), d.dtype(g)));
}

void pow(Derivation& d) {
  // pow_backward: grad * (exponent * self.pow(exponent - 1))
  const ValueId x = d.in(0), g = d.grad();
  const double exponent = d.attributes<Power>().exponent;
  const ValueId power = d.emit(OpKind::pow, {x}, d.shape(x), d.dtype(x), Power{exponent - 1.0});
  const ValueId scaled =
      d.emit(OpKind::mul_scalar, {power}, d.shape(x), d.dtype(x), Number{exponent});
  d.give(0, d.emit(OpKind::mul, {g, scaled}, d.shape(x), d.dtype(x)));
}

void mean(Derivation& d) {
  // mean_backward: the gradient expanded (a view), divided by the count
  const ValueId x = d.in(0), g = d.grad();
  d.give(0, d.emit(OpKind::div, {g}, d.shape(x), d.dtype(g),
                   Number{static_cast<double>(d.shape(x).back())}));
}

void sum(Derivation& d) {
  // expanded: a view, unless the input was itself a view that has to be reshaped back
  const ValueId x = d.in(0), g = d.grad();
  const SumOver over = d.attributes<Sum>().over;
  const bool copied = over == SumOver::experts || over == SumOver::groups;
  // what autocast summed in fp32 is narrowed as it is expanded
  const OpKind copy = d.dtype(g) == d.dtype(x) ? OpKind::clone : OpKind::cast;
  d.give(0, copied ? d.emit(copy, {g}, d.shape(x), d.dtype(x)) : d.alias(g, d.shape(x)));
}

void vector_norm(Derivation& d) {
  // linalg_vector_norm_backward of order 2: grad * (self / norm).masked_fill_(norm == 0, 0)
  const ValueId x = d.in(0), length = d.out(), g = d.grad();
  const ValueId direction = d.emit(OpKind::div, {x, length}, d.shape(x), d.dtype(x));
  const ValueId none = d.emit(OpKind::compare, {length}, d.shape(length), DType::u8,
                              Compare{0.0, Comparison::equal});
  const ValueId filled = d.overwrite(direction);
  d.emit_raw(OpKind::masked_fill, {direction, none}, {filled});
  d.give(0, d.emit(OpKind::mul, {filled, g}, d.shape(x), d.dtype(x)));
}

void rsqrt(Derivation& d) {
  // -0.5 * grad * result.pow(3)
  const ValueId g = d.grad(), y = d.out();
  const ValueId cube = d.emit(OpKind::pow, {y}, d.shape(y), d.dtype(y), Power{3.0});
  const ValueId half = d.emit(OpKind::mul_scalar, {g}, d.shape(g), d.dtype(g), Number{-0.5});
  d.give(0, d.emit(OpKind::mul, {half, cube}, d.shape(g), d.dtype(g)));
}

void cat(Derivation& d) {
  // narrows of the gradient: views
  const Shape whole = d.shape(d.out());
  std::int64_t start = 0;
  for (std::size_t i = 0; i < d.op().inputs; ++i) {
    const Shape part = d.shape(d.in(i));
    std::size_t dim = whole.rank() - 1;  // along the last, unless that is whole and another is not
    if (part.rank() == whole.rank() && part.back() == whole.back())
      for (std::size_t k = 0; k + 1 < whole.rank(); ++k)
        if (part[k] != whole[k]) dim = k;
    if (part.rank() != whole.rank()) {  // its rows, one after the other
      if (d.needs(i)) d.give(i, d.alias(d.grad(), part));
      continue;
    }
    if (d.needs(i)) {
      d.give(i, d.part(d.grad(), static_cast<std::int32_t>(dim), start, part[dim]));
      if (d.permuted(d.out())) d.set_permuted(d.given(i), true);
    }
    start += part[dim];
  }
}

void view(Derivation& d) {
  // Reshaping back is free where the gradient has the view's own layout, a copy where it has not.
  const ValueId x = d.in(0), g = d.grad();
  if (d.in_order(g) == d.in_order(d.out())) {
    d.give(0, d.alias(g, d.shape(x)));
    return;
  }
  const ValueId copy = d.emit(OpKind::clone, {g}, d.shape(g), d.dtype(g));
  d.set_permuted(copy, d.permuted(d.out()));
  d.give(0, d.alias(copy, d.shape(x)));
}

void slice(Derivation& d) {
  const ValueId x = d.in(0), g = d.grad();
  d.give(0, d.emit(OpKind::slice_backward, {g}, d.shape(x), d.dtype(g), d.attributes<Slice>()));
}

void split(Derivation& d) {
  // SplitBackward0: the pieces' gradients joined
  const ValueId x = d.in(0);
  const std::size_t parts = d.op().outputs;
  std::vector<ValueId> gradients(parts);
  for (std::size_t i = 0; i < parts; ++i) gradients[i] = d.grad(i);
  d.give(0, d.emit_list(OpKind::cat, gradients, d.shape(x), d.dtype(x)));
  d.set_permuted(d.given(0), false);
}

void expand(Derivation& d) {
  const ValueId x = d.in(0), g = d.grad();
  const bool wider = d.shape(x).rank() == d.shape(d.out()).rank();
  d.give(0, d.emit(OpKind::sum, {g}, d.shape(x), d.dtype(g),
                   Sum{wider ? SumOver::broadcast : SumOver::groups}));  // [B, kv, groups, S, D]
}

void silu(Derivation& d) {
  const ValueId g = d.grad();
  d.give(0, d.emit(OpKind::silu_backward, {g, d.in(0)}, d.shape(g), d.dtype(g)));
}

void gelu_tanh(Derivation& d) {
  const ValueId g = d.grad();
  d.give(0, d.emit(OpKind::gelu_backward, {g, d.in(0)}, d.shape(g), d.dtype(g)));
}

void relu(Derivation& d) {  // threshold_backward by the result
  const ValueId g = d.grad();
  d.give(0, d.emit(OpKind::relu_backward, {g, d.out()}, d.shape(g), d.dtype(g)));
}

void clamp(Derivation& d) {
  // clamp_backward: where(low <= self <= high, grad, 0); the second comparison joins the first
  const ValueId x = d.in(0), g = d.grad();
  const auto [low, high] = d.attributes<Clamp>();
  const auto within = [&](double end, Comparison how) {
    return d.emit(OpKind::compare, {x}, d.shape(x), DType::u8, Compare{end, how});
  };
  const ValueId zero = d.emit(OpKind::fill, {}, {}, d.dtype(g));
  ValueId mask = no_id;
  if (std::isfinite(low)) mask = within(low, Comparison::greater);
  if (std::isfinite(high)) {
    const ValueId below = within(high, Comparison::less_equal);
    if (mask == no_id) {
      mask = below;
    } else {
      const ValueId both = d.overwrite(mask);
      d.emit_raw(OpKind::compare, {mask, below}, {both}, Compare{0.0, Comparison::both});
      mask = both;
    }
  }
  d.give(0, d.emit(OpKind::where, {g, mask, zero}, d.shape(g), d.dtype(g)));
}

void minimum(Derivation& d) {
  // where(self == other, grad / 2, grad).masked_fill_(self > other, 0), and the other's likewise
  const ValueId g = d.grad();
  for (const std::size_t i : {0, 1}) {
    if (!d.needs(i)) continue;
    const auto compared = [&](Comparison how) {
      return d.emit(OpKind::compare, {d.in(i), d.in(1 - i)}, d.shape(g), DType::u8,
                    Compare{0.0, how});
    };
    const ValueId equal = compared(Comparison::equal);
    const ValueId half = d.emit(OpKind::div, {g}, d.shape(g), d.dtype(g), Number{2.0});
    const ValueId shared = d.emit(OpKind::where, {half, equal, g}, d.shape(g), d.dtype(g));
    const ValueId above = compared(Comparison::greater);
    const ValueId given = d.overwrite(shared);
    d.emit_raw(OpKind::masked_fill, {shared, above}, {given});
    d.give(i, given);
  }
}

void copy_part(Derivation& d) {
  // inputs: target, part; CopySlices (torch/csrc/autograd/functions/tensor.cpp): the gradient
  // copied, the part of it cloned, and where the target needs one, the part cleared by zeros.
  const ValueId g = d.grad(), part = d.in(1);
  const ValueId whole = d.emit(OpKind::clone, {g}, d.shape(g), d.dtype(g));
  const ValueId of_part =
      d.emit(OpKind::clone, {d.slice_of(whole, d.shape(part), d.attributes<Slice>())},
             d.shape(part), d.dtype(g));
  if (d.needs(0)) {
    const ValueId zeros = d.emit(OpKind::fill, {}, d.shape(part), d.dtype(g));
    const ValueId cleared = d.overwrite(whole);
    d.emit_raw(OpKind::copy, {whole, zeros}, {cleared});
    d.give(0, cleared);
  }
  if (d.needs(1)) d.give(1, of_part);
}

void sigmoid(Derivation& d) {
  const ValueId g = d.grad();
  d.give(0, d.emit(OpKind::sigmoid_backward, {g, d.out()}, d.shape(g), d.dtype(g)));
}

void tanh(Derivation& d) {
  const ValueId g = d.grad();
  d.give(0, d.emit(OpKind::tanh_backward, {g, d.out()}, d.shape(g), d.dtype(g)));
}

void softmax(Derivation& d) {
  const ValueId g = d.grad();
  d.give(0, d.emit(OpKind::softmax_backward, {g, d.out()}, d.shape(g), d.dtype(d.in(0))));
}

void dropout(Derivation& d) {
  const ValueId g = d.grad();
  const auto same = d.attributes<Dropout>();
  d.give(0, d.op().outputs > 1
                ? d.emit(OpKind::dropout_backward, {g, d.out(1)}, d.shape(g), d.dtype(g), same)
                : d.emit(OpKind::dropout_backward, {g}, d.shape(g), d.dtype(g), same));
}

}  // namespace ac_advisor::ir::derive
