// AdaLoRA of PEFT v0.21: tuners/adalora/layer.py, model.py.
#include "ac_advisor/model/adapter_method.hpp"
#include "lowering.hpp"

namespace ac_advisor::passes {

using ir::Module;
using ir::OpKind;
using ir::Shape;

/// SVDLinear.forward: B (A * E) of the input, over the rank, which PEFT has as a trained number, is
/// added to the base's output in place.
ir::ValueId Lowering::adalora(V x, const Linear& l) {
  const V base = base_linear(x, l);
  const V rank = unary(OpKind::add_scalar, l.adapter[3], ir::Number{1e-5});
  const V in = cast(x, DType::f32);
  const V scaled = binary(OpKind::mul, l.adapter[0], l.adapter[2]);
  const V up = base_linear(base_linear(in, {scaled}), {l.adapter[1]});
  const V delta = binary(OpKind::div, unary(OpKind::mul_scalar, up, ir::Number{8.0}), rank);
  const V y = added_in_place(base, delta);
  hold({x, in, rank});  // the caller's argument, and `x`, bound anew
  return y;
}

/// AdaLoraModel.forward: how far each factor is from an orthogonal one is a part of the loss.
void Lowering::orthogonality() {
  leaf_ = Module::loss;
  V sum = ir::no_id;
  const auto add = [&](V factor, ir::Form form) {
    const Shape s = shape(factor);
    const std::int64_t r = config_.adapters.size;
    const V product = out({r, r}, DType::f32, true);
    emit(OpKind::mm, {factor, factor}, {product},
         ir::Product{static_cast<std::int32_t>(s.numel() / r), form});
    const V one = make_int(OpKind::eye, {r, r}, DType::f32, {});
    const V off = binary(OpKind::add, product, one, ir::Add{-1.0});
    const V norm = out({1, 1}, DType::f32, true);
    emit(OpKind::vector_norm, {p_.reshape(off, {1, r * r})}, {norm});
    sum = sum == ir::no_id ? unary(OpKind::add_scalar, norm) : added_in_place(sum, norm);
    hold({product, one});  // `para_cov` and `I`
  };
  std::int64_t factors = 0;
  for (const Block& b : m_.blocks)
    for (const Linear* l : b.linear_layers())
      if (!l->adapter.empty()) {
        add(l->adapter[0], ir::Form::nt);
        add(l->adapter[1], ir::Form::tn);
        factors += 2;
      }
  const V mean = unary(OpKind::div, sum, ir::Number{static_cast<double>(factors)});
  const V weighted = unary(OpKind::mul_scalar, mean, ir::Number{0.5});
  s_.loss = added_in_place(s_.loss, p_.reshape(weighted, {}));
}

}  // namespace ac_advisor::passes
