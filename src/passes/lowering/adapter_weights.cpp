// Linear layers whose weight, or its factors, PEFT v0.21 makes anew: GLoRA and DeLoRA.
#include <limits>

#include "ac_advisor/model/adapter_method.hpp"
#include "lowering.hpp"

namespace ac_advisor::passes {

using ir::OpKind;
using ir::Shape;

/// tuners/glora/layer.py, GloraLinear.forward, of a layer without a bias: x by W + W * A + B, with
/// A and B of low rank, beside the base's product, which is taken off again.
ir::ValueId Lowering::glora(V x, const Linear& l) {
  const V base = base_linear(x, l);
  const auto path = [&](std::size_t first) {
    const V product = out({l.out, l.in}, DType::f32, true);
    emit(OpKind::mm, {l.adapter[first], l.adapter[first + 1]}, {product},
         ir::Product{static_cast<std::int32_t>(config_.adapters.size), ir::Form::nn});
    return cast(product, dtype(l.weight));
  };
  const V a = path(0), b = path(2);
  const V grown = binary(OpKind::add, l.weight, binary(OpKind::mul, l.weight, a));
  const V weight = binary(OpKind::add, grown, b);
  const V adapted = base_linear(x, {weight});
  const V both = binary(OpKind::add, base, adapted);
  const V once = unary(OpKind::mul_scalar, base, ir::Number{1.0});
  const V y = binary(OpKind::add, both, once, ir::Add{-1.0});
  hold({x, base, a, b, weight, adapted});  // the caller's argument, and locals
  return y;
}

/// tuners/delora/layer.py, DeloraLinear.forward: B diag(lambda / r / (|A_i| |B_i|)) A of the input
/// by the norms of the base's columns, added in place to zeros.
ir::ValueId Lowering::delora(V x, const Linear& l) {
  const V a = l.adapter[0], b = l.adapter[1], norms = l.adapter[3];
  const std::int64_t r = config_.adapters.size;
  const V base = base_linear(x, l);
  const V zeros = make_int(OpKind::fill, shape(base), dtype(base), {}, ir::Number{0.0});
  const V down = base_linear(binary(OpKind::mul, x, norms), {a});
  const auto lengths = [&](V factor) {
    const V length = out({r}, DType::f32, true);
    emit(OpKind::vector_norm, {factor}, {length});
    constexpr double least = 1e-4, infinity = std::numeric_limits<double>::infinity();
    return unary(OpKind::clamp, length, ir::Clamp{least, infinity});
  };
  const V of_a = lengths(a), of_b = lengths(b);
  const V bound = unary(OpKind::div, l.adapter[2], ir::Number{static_cast<double>(r)});
  const V scaling = binary(OpKind::div, bound, binary(OpKind::mul, of_a, of_b));
  const V scaled = binary(OpKind::mul, down, scaling);
  hold({down});  // `h`, until it is bound anew
  const V up = base_linear(scaled, {b});
  hold({scaled});
  const V sum = added_in_place(zeros, up);
  const V y = binary(OpKind::add, base, sum);
  hold({x, base, sum, up, scaling, of_a, of_b});  // the caller's argument, and locals
  return y;
}

}  // namespace ac_advisor::passes
