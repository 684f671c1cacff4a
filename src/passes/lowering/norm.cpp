// transformers v5.23: LlamaRMSNorm.forward and its copies; Gemma3RMSNorm.forward; Llama4's.
#include "ac_advisor/model/class_facts.hpp"
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
  const V factor =
      model::class_facts(spec_.family).widened_norm_weight ? cast(weight, DType::f32) : weight;
  // `self.weight * hidden_states`: the layout is that of the only full operand; an fp32 weight
  // widens it (under autocast), which a fused kernel does not
  const V scaled = out(shape(x), dtype(factor) == DType::f32 ? DType::f32 : dtype(back),
                       grad(x) || grad(weight));
  p_.value(scaled).permuted = p_.value(back).permuted;
  emit(OpKind::mul, {factor, back}, {scaled});
  const bool narrowed = spec_.wide_norm_scale || config_.memory.kernels == Kernels::fused;
  const V y = narrowed ? cast(scaled, in) : scaled;
  Chain chain{
      OpKind::rms_norm, {}, {x, weight}, y, ir::no_id, ir::RmsNorm{spec_.rms_norm_eps, false}};
  for (ir::OpId op = first; op <= last_op(); ++op) chain.ops.push_back(op);
  s_.chains.push_back(std::move(chain));
  hold({x, normed, variance});  // the argument, the frame's `hidden_states` and `variance`
  return y;
}

ir::ValueId Lowering::norm(V x, V weight, V bias, Module leaf) {
  switch (spec_.norm) {
    case model::Norm::layer:
    case model::Norm::layer_plus_one:
      return layer_norm(x, weight, bias, leaf);
    case model::Norm::written_out:
      return written_out_norm(x, weight, leaf);
    case model::Norm::rms_nested:
      return nested_rms_norm(x, weight, leaf);
    case model::Norm::rms:
      break;
  }
  distributed_ = splits_sequence();
  if (forms_.norm != model::NormForm::written_out) {
    const V y = own_norm(x, weight, leaf);
    distributed_ = false;
    return y;
  }
  const V y = spec_.unit_offset_norm ? gemma_rms_norm(x, weight, leaf) : rms_norm(x, weight, leaf);
  distributed_ = false;
  return y;
}

/// torch.nn.LayerNorm, which autocast runs in fp32; NemotronLayerNorm1P adds one to the weight.
ir::ValueId Lowering::layer_norm(V x, V weight, V bias, Module leaf) {
  leaf_ = leaf;
  const V given = x;
  if (config_.precision.autocast) {
    x = cast(x, DType::f32);
    weight = cast(weight, DType::f32);
    bias = cast(bias, DType::f32);
  }
  if (spec_.norm == model::Norm::layer_plus_one)
    weight = unary(OpKind::add_scalar, weight, ir::Number{1.0});
  const V y = native_layer_norm(x, weight, bias, spec_.rms_norm_eps);
  hold({given});
  return y;
}

ir::ValueId Lowering::native_layer_norm(V x, V weight, V bias, double epsilon) {
  Shape row = shape(x);
  row.set(row.rank() - 1, 1);
  const V y = out(shape(x), dtype(x), grad(x) || grad(weight));
  const V mean = out(row, DType::f32, false), inverse = out(row, DType::f32, false);
  emit(OpKind::layer_norm, {x, weight, bias}, {y, mean, inverse}, ir::LayerNorm{epsilon});
  return y;
}

/// CohereLayerNorm.forward
ir::ValueId Lowering::written_out_norm(V x, V weight, Module leaf) {
  leaf_ = leaf;
  const DType in = dtype(x);
  const V h = cast(x, DType::f32);
  Shape row = shape(x);
  row.set(row.rank() - 1, 1);
  const auto mean_of = [&](V v) {
    const V y = out(row, DType::f32, grad(x));
    emit(OpKind::mean, {v}, {y});
    return y;
  };
  const auto centred = [&](V mean) { return binary(OpKind::add, h, mean, ir::Add{-1.0}); };
  const V mean = mean_of(h);
  const V variance = mean_of(unary(OpKind::pow, centred(mean), ir::Power{2.0}));
  const V difference = centred(mean);
  const V shifted = unary(OpKind::add_scalar, variance, ir::Number{spec_.rms_norm_eps});
  const V normed = binary(OpKind::mul, difference, unary(OpKind::rsqrt, shifted));
  hold({h});  // `hidden_states`, until it is bound anew
  const V scaled = binary(OpKind::mul, cast(weight, DType::f32), normed);
  const V y = cast(scaled, in);
  hold({x, scaled, mean, variance});  // the argument, the frame's locals
  return y;
}

/// Llama4TextRMSNorm.forward
ir::ValueId Lowering::nested_rms_norm(V x, V weight, Module leaf) {
  const auto first = last_op() + 1;
  const V back = divided_by_length(x, leaf);
  const V y = binary(OpKind::mul, back, weight);
  Chain chain{
      OpKind::rms_norm, {}, {x, weight}, y, ir::no_id, ir::RmsNorm{spec_.rms_norm_eps, false}};
  for (ir::OpId op = first; op <= last_op(); ++op) chain.ops.push_back(op);
  s_.chains.push_back(std::move(chain));
  hold({x, back});  // the argument, the frame's `output`
  return y;
}

/// Llama4TextL2Norm.forward, and what its RMSNorm multiplies by the weight: _norm(x.float()), in
/// x's dtype. What _norm is given lives until it returns.
ir::ValueId Lowering::divided_by_length(V x, Module leaf) {
  leaf_ = leaf;
  const V h = cast(x, DType::f32);
  const V square = unary(OpKind::pow, h, ir::Power{2.0});
  Shape row = shape(x);
  row.set(row.rank() - 1, 1);
  const V mean = out(row, DType::f32, grad(x));
  emit(OpKind::mean, {square}, {mean});
  const V scale =
      unary(OpKind::rsqrt, unary(OpKind::add_scalar, mean, ir::Number{spec_.rms_norm_eps}));
  const V divided = binary(OpKind::mul, h, scale);
  hold({h});
  const V y = cast(divided, dtype(x));
  hold({x});
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
