// PEFT v0.21, tuners/lora/dora.py: DoraLinearLayer.forward, without dropout.
#include "lowering.hpp"

namespace ac_advisor::passes {

using ir::OpKind;

/// The base's weight as a tensor of `type`, [out, in]: itself, cast, or dequantized and cast.
ir::ValueId Lowering::whole_weight(const Linear& l, DType type) {
  if (l.scales == ir::no_id) return cast(l.weight, type);
  // quant_state.dtype: what the weight was loaded in, before prepare_model_for_kbit_training
  const bool wide = config_.precision.param_dtype == DType::f32 && !config_.adapters.kbit_prepare;
  const V weight = out({l.out, l.in}, wide ? DType::f32 : DType::bf16, false);
  emit(OpKind::dequantize, {l.weight, l.scales}, {weight});
  return cast(weight, type);
}

/// Whether this block's forward drops what autograd would save.
bool Lowering::drops_saved() const {
  const AcMode ac = config_.memory.ac;
  return ac != AcMode::none && (ac != AcMode::every || block_ % config_.memory.ac_arg == 0);
}

/// B(A(identity)): the product of the adapters, [in, out], through their own forward. Its gradient
/// is never asked for, but its graph lives as long as it does, and saves identity and A's output
/// where no checkpoint drops them.
std::array<ir::ValueId, 3> Lowering::adapters_product(const Linear& l) {
  const auto product = [&](V x, V weight, std::int64_t width) {
    const V narrow = autocast(weight), in = autocast(x);
    const V y = out({l.in, width}, dtype(in), false);
    emit(OpKind::mm, {in, narrow}, {y}, ir::Product{static_cast<std::int32_t>(shape(in).back())});
    return std::pair{in, y};
  };
  const V identity = out({l.in, l.in}, dtype(l.lora_a), false);
  emit(OpKind::eye, {}, {identity});
  const auto [given, down] = product(identity, l.lora_a, config_.adapters.rank);
  const V up = product(down, l.lora_b, l.out).second;
  if (given != identity || drops_saved()) hold({identity});  // get_lora_weight's local
  return {given, down, up};
}

/// (m - 1) W x + m B(A(x)), with m the trained magnitude over the norm of the merged weight, which
/// is made anew in each forward; alpha is twice the rank.
ir::ValueId Lowering::dora(V in, V base, const Linear& l) {
  const DType type = dtype(in);
  const auto [identity, down, product] = adapters_product(l);
  const V adapters = cast(product, type), weight = whole_weight(l, type);
  const V scaled = out({l.in, l.out}, type, false), merged = out({l.out, l.in}, type, false);
  emit(OpKind::mul_scalar, {adapters}, {scaled}, ir::Number{2.0});
  emit(OpKind::add, {weight, scaled}, {merged}, ir::Add{1.0, true});
  const V norm = out({l.out}, type, false);
  emit(OpKind::vector_norm, {merged}, {norm});
  const V scale = binary(OpKind::div, l.magnitude, norm);
  const V up = base_linear(base_linear(in, {l.lora_a}), {l.lora_b});
  if (l.bias != ir::no_id) base = binary(OpKind::add, base, l.bias, ir::Add{-1.0});
  const V less_one = unary(OpKind::add_scalar, scale, ir::Number{-1.0});
  const V of_base = binary(OpKind::mul, less_one, base);
  const V of_adapters = unary(OpKind::mul_scalar, binary(OpKind::mul, scale, up), ir::Number{2.0});
  const V delta = binary(OpKind::add, of_base, of_adapters);
  if (!drops_saved()) hold({identity, down});  // of the product's graph
  hold({adapters, weight, up, base});          // the frame's locals
  return delta;
}

}  // namespace ac_advisor::passes
