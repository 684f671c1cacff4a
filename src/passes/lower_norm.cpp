// transformers v5.23: LlamaRMSNorm.forward and its copies; Gemma3RMSNorm.forward.
#include "lowering.hpp"

namespace ac_advisor::passes {

using ir::Module;
using ir::OpKind;
using ir::Shape;

ir::ValueId Lowering::rms_norm(V x, V weight, Module leaf) {
  leaf_ = leaf;
  const auto first = last_op() + 1;
  const DType in = dtype(x);
  const V h = cast(x, DType::f32);
  const V square = unary(OpKind::pow, h, ir::Power{2.0});
  Shape row = shape(x);
  row.set(row.rank() - 1, 1);
  const V variance = out(row, DType::f32, grad(x));
  emit(OpKind::mean, {square}, {variance});
  const V shifted = unary(OpKind::add_scalar, variance, ir::Number{spec_.rms_norm_eps});
  const V scale = unary(OpKind::rsqrt, shifted);
  const V normed = binary(OpKind::mul, h, scale);
  const V back = spec_.wide_norm_scale ? normed : cast(normed, in);
  // `self.weight * hidden_states`: the layout is that of the only full operand; an fp32 weight
  // widens it (under autocast), which a fused kernel does not
  const V scaled = out(shape(x), dtype(weight) == DType::f32 ? DType::f32 : dtype(back),
                       grad(x) || grad(weight));
  p_.value(scaled).permuted = p_.value(back).permuted;
  emit(OpKind::mul, {weight, back}, {scaled});
  const bool narrowed = spec_.wide_norm_scale || config_.memory.kernels == Kernels::fused;
  const V y = narrowed ? cast(scaled, in) : scaled;
  Chain chain{
      OpKind::rms_norm, {}, {x, weight}, y, ir::no_id, ir::RmsNorm{spec_.rms_norm_eps, false}};
  for (ir::OpId op = first; op <= last_op(); ++op) chain.ops.push_back(op);
  s_.chains.push_back(std::move(chain));
  hold({x, normed, variance});  // the argument, the frame's `hidden_states` and `variance`
  return y;
}

ir::ValueId Lowering::gemma_rms_norm(V x, V weight, Module leaf) {
  leaf_ = leaf;
  const auto first = last_op() + 1;
  const DType in = dtype(x);
  const V h = cast(x, DType::f32);
  const V square = unary(OpKind::pow, h, ir::Power{2.0});
  Shape row = shape(x);
  row.set(row.rank() - 1, 1);
  const V variance = out(row, DType::f32, grad(x));
  emit(OpKind::mean, {square}, {variance});
  const V shifted = unary(OpKind::add_scalar, variance, ir::Number{spec_.rms_norm_eps});
  const V scale = unary(OpKind::rsqrt, shifted);
  const V normed = binary(OpKind::mul, h, scale);
  hold({h});  // _norm's argument
  const V w = cast(weight, DType::f32);
  const V one_plus = unary(OpKind::add_scalar, w, ir::Number{1.0});
  const V scaled = binary(OpKind::mul, normed, one_plus);
  const V y = cast(scaled, in);
  Chain chain{
      OpKind::rms_norm, {}, {x, weight}, y, ir::no_id, ir::RmsNorm{spec_.rms_norm_eps, true}};
  for (ir::OpId op = first; op <= last_op(); ++op) chain.ops.push_back(op);
  s_.chains.push_back(std::move(chain));
  hold({x, scaled});  // the argument, the frame's `output`
  return y;
}

}  // namespace ac_advisor::passes
