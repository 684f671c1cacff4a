// torch.nn.Linear, and what PEFT v0.21 (tuners/lora/layer.py, bnb.py) and bitsandbytes v0.50
// (nn/modules.py, autograd/_functions.py), and torchao v0.18 put in its place.
#include <algorithm>

#include "ac_advisor/ir/float8.hpp"
#include "ac_advisor/model/class_facts.hpp"
#include "lowering.hpp"

namespace ac_advisor::passes {

using ir::OpKind;
using ir::Shape;

namespace {

std::int32_t columns(const Shape& shape) { return static_cast<std::int32_t>(shape.back()); }
Shape with_columns(Shape shape, std::int64_t n) {
  shape.set(shape.rank() - 1, n);
  return shape;
}

/// An attribute of a function's context lives as long as the graph: once, whichever functions have
/// it.
void keep_in_context(StepProgram& step, ir::ValueId x) {
  const auto is_x = [&](ir::ValueId held) {
    return step.program.storage_of(held) == step.program.storage_of(x);
  };
  if (std::none_of(step.graph_held.begin(), step.graph_held.end(), is_x))
    step.graph_held.push_back(x);
}

}  // namespace

ir::ValueId Lowering::linear(V x, const Linear& l) {
  const bool by_outputs = !ir::split_by_inputs(leaf_) && leaf_ != ir::Module::router;
  if (tp_ > 1 && !splits_sequence() && by_outputs) x = replicated(x);
  if (!l.adapter.empty()) return adapted_by_method(x, l);
  if (l.lora_a == ir::no_id) return base_linear(x, l);
  if (tp_ > 1) return adapted_in_parts(x, l);
  if (adapts_as_automodel()) return adapted_by_automodel(x, l);
  return config_.adapters.quantize == Quantization::none ? adapted(x, l) : adapted_quantized(x, l);
}

ir::ValueId Lowering::base_linear(V x, const Linear& l) {
  const V y = product_of_layer(x, l);
  const bool apart = spec_.delta && model::class_facts(spec_.family).delta_apart;
  const bool channels =
      leaf_ == ir::Module::qkv_proj || leaf_ == ir::Module::b_proj || leaf_ == ir::Module::a_proj;
  const bool quantized = l.scales != ir::no_id;  // matmul takes its gradient as it lies
  return apart && channels && !quantized ? by_channel(y) : y;
}

ir::ValueId Lowering::product_of_layer(V x, const Linear& l) {
  if (is_float8(l)) return float8_linear(x, l);
  if (l.scales != ir::no_id)
    return config_.adapters.quantize == Quantization::int8 ? int8_linear(x, l) : nf4_linear(x, l);
  // autocast casts operands from the last to the first
  const V bias = l.bias == ir::no_id ? l.bias : autocast(l.bias);
  const V weight = autocast(l.weight);
  const V given = x;
  x = autocast(x);
  const bool trained = grad(x) || grad(weight) || (bias != ir::no_id && grad(bias));
  const std::int64_t width = shape(weight)[l.input_first ? 1 : 0];
  const V y = out(with_columns(shape(x), width), dtype(x), trained);
  ir::Product product{columns(shape(x)), l.input_first ? ir::Form::nn : ir::Form::nt};
  // LinearFunctionForZeroStage3 saves its input whatever is frozen
  product.saves_input = config_.layout.zero3() && !grad(weight);
  if (bias != ir::no_id && config_.layout.zero3())
    return biased_in_place(x, weight, bias, y, product);
  if (bias != ir::no_id)
    emit(OpKind::addmm, {bias, x, weight}, {y}, product);
  else
    emit(OpKind::mm, {x, weight}, {y}, product);
  if (given != x) hold({given});  // the caller's argument
  return y;
}

/// DeepSpeed's LinearFunctionForZeroStage3 (v0.19.8, zero/linear.py): output += bias.
ir::ValueId Lowering::biased_in_place(V x, V weight, V bias, V y, const ir::Product& product) {
  emit(OpKind::mm, {x, weight}, {y}, product);
  return added_in_place(y, bias);
}

/// scaling * B(A(dropout(x))), in the adapters' dtype; alpha is twice the rank.
ir::ValueId Lowering::low_rank(V x, const Linear& l) {
  V in = x;
  if (config_.adapters.dropout > 0.0) {
    const V kept = out(shape(x), dtype(x), grad(x)), mask = out(shape(x), DType::u8, false);
    emit(OpKind::dropout, {x}, {kept, mask}, ir::Dropout{config_.adapters.dropout, block_});
    in = kept;
  }
  const V down = product_of_layer(in, {l.lora_a});
  const V up = base_linear(down, {l.lora_b});
  return unary(OpKind::mul_scalar, up, ir::Number{2.0});
}

ir::ValueId Lowering::adapted(V x, const Linear& l) {
  const V base = base_linear(x, l);
  const V in = cast(x, dtype(l.lora_a));
  const V delta = config_.adapters.dora ? dora(in, base, l) : low_rank(in, l);
  const V sum = binary(OpKind::add, base, delta);  // in the wider dtype of the two
  const V y = cast(sum, dtype(base));
  hold({x, in});  // the caller's argument, and `x`, bound anew
  return y;
}

/// Under autocast neither the input nor the result is cast: autocast casts A's operands and B's.
ir::ValueId Lowering::adapted_quantized(V x, const Linear& l) {
  V base = base_linear(x, l);
  if (config_.adapters.quantize != Quantization::int8) base = unary(OpKind::clone, base);
  const bool converts = !config_.precision.autocast;
  const V in = converts ? cast(x, dtype(l.lora_a)) : x;
  if (config_.adapters.dora) {
    const V sum = binary(OpKind::add, base, dora(in, base, l));
    const V y = converts ? cast(sum, dtype(base)) : sum;
    hold({x, in});
    return y;
  }
  const V wide = low_rank(in, l);
  const V delta = converts ? cast(wide, dtype(base)) : wide;
  const V y = binary(OpKind::add, base, delta);
  hold({x, in, delta});  // the caller's argument, `x`, `output`
  return y;
}

/// MatMul4Bit: the weight in the compute dtype for the length of the product, and the scales' two
/// widened copies with it where they are quantized themselves. Linear4bit casts its input to that
/// dtype, and its output back.
ir::ValueId Lowering::nf4_linear(V given, const Linear& l) {
  const V x = cast(given, four_bit_compute);
  const bool nested = config_.adapters.quantize == Quantization::nf4_double;
  V scales = l.scales, without_offset = ir::no_id;
  if (nested) {
    const Shape blocks = shape(l.scales);
    scales = out(blocks, DType::f32, false);
    emit(OpKind::dequantize, {l.scales, l.nested}, {scales}, ir::Dequantize{256, false});
    without_offset = scales;
    scales = binary(OpKind::add, scales, l.offset);
  }
  // Fabric quantizes what it has cast to fp16, which is what the weight comes out in; its forward's
  // kernel has made it in the input's dtype since.
  const bool in_fp16 = config_.litgpt(), saves_input = config_.adapters.saves_inputs;
  V weight = out({l.out, l.in}, in_fp16 && saves_input ? DType::f16 : dtype(x), false);
  emit(OpKind::dequantize, {l.weight, scales}, {weight});
  weight = cast(weight, dtype(x));
  if (saves_input && grad(x)) keep_in_context(s_, x);
  const V y = out(with_columns(shape(x), l.out), dtype(x), grad(x));
  std::vector<V> operands{x, weight, l.weight, l.scales};
  if (nested) operands.insert(operands.end(), {l.nested, l.offset});
  const bool biased = l.bias != ir::no_id;
  if (biased) operands.push_back(l.bias);
  p_.emit(OpKind::mm_quantized, phase_, at(leaf_), operands, std::vector{y},
          ir::QuantizedProduct{columns(shape(x)), {64, nested}, biased, in_fp16});
  if (nested) hold({without_offset, scales});
  const V back = cast(y, dtype(given));
  hold({given, x});  // the caller's argument, and `x`, bound anew
  return back;
}

/// MatMul8bitLt without outliers: rows in 8 bits, their product in 32, both scales applied in fp16,
/// and that in the input's dtype. Its context keeps the input as an attribute, not as a saved
/// tensor: it lives as long as the graph, whatever is checkpointed.
ir::ValueId Lowering::int8_linear(V x, const Linear& l) {
  const std::int64_t rows = shape(x).numel() / l.in;
  const V half = out({rows, l.in}, DType::f16, false);
  emit(OpKind::cast, {x}, {half});
  const V row_codes = out({rows, l.in}, DType::u8, false),
          row_scales = out({rows}, DType::f32, false);
  emit(OpKind::quantize_rows, {half}, {row_scales, row_codes});
  const V product = out({rows, l.out}, DType::i32, false);
  emit(OpKind::mm_int8, {row_codes, l.weight}, {product}, ir::Product{columns(shape(x))});
  V scaled = out({rows, l.out}, DType::f16, false);
  emit(OpKind::mm_dequant, {product, row_scales, l.scales}, {scaled});
  if (l.bias != ir::no_id && dtype(l.bias) != DType::f16)  // of fp16 the kernel itself adds it
    scaled = added_in_place(scaled, l.bias);
  const V y = out(with_columns(shape(x), l.out), dtype(x), grad(x));
  emit(OpKind::mm_quantized, {x, scaled, l.weight, l.scales}, {y},
       ir::QuantizedProduct{0, {1, false}});
  hold({row_codes, row_scales, product});
  if (grad(x)) keep_in_context(s_, x);
  return y;
}

/// TorchTitan's filter (components/quantization/utils.py, v0.2.2, filter_fqns = ["output"]): linear
/// layers of blocks whose sizes are multiples of 16; MX's casts take multiples of 32.
bool Lowering::is_float8(const Linear& l) const {
  const std::int64_t multiple = config_.precision.fp8 == Fp8Recipe::mx ? 32 : 16;
  return config_.precision.float8() && block_ >= 0 && l.in > 0 && l.in % multiple == 0 &&
         l.out % multiple == 0;
}

/// WeightWithDynamicFloat8CastTensor (torchao 0.18, float8/fsdp_utils.py): what FSDP2 gathers of
/// the weight, and the scale that it was cast by.
void Lowering::gathered_in_fp8(Linear& l) {
  constexpr std::int64_t of_block = 7;  // a block has no more
  if (float8_scales_ == ir::no_id) {
    float8_scales_ = p_.make({of_block * spec_.layers}, DType::f32, ir::Role::buffer, {});
    s_.buffers.push_back(float8_scales_);
  }
  p_.value(l.weight).dtype = DType::f8;
  const std::int64_t at = float8_weights_++;
  // A compiled block is given each scale by itself.
  l.scales = config_.memory.kernels == Kernels::compiled
                 ? p_.on_storage_of(float8_scales_, {}, DType::f32, false)
                 : p_.narrow(float8_scales_, 0, at, 1);
}

/// What its casts and its product are, the compiler's tracer writes (compile/tracer_float8.cpp).
ir::ValueId Lowering::float8_linear_as_one(V x, const Linear& l, bool rowwise) {
  const DType type = dtype(x) == DType::f8 ? dtype_ : dtype(x);
  const V y = out(with_columns(shape(x), l.out), type, grad(x) || grad(l.weight));
  const ir::Float8 whole{rowwise, false, true};
  if (l.scales != ir::no_id)
    emit(OpKind::float8_linear, {x, l.weight, l.scales}, {y}, whole);
  else
    emit(OpKind::float8_linear, {x, l.weight}, {y}, whole);
  const V sum = l.bias == ir::no_id ? y : binary(OpKind::add, y, cast(l.bias, dtype(y)));
  const bool by_rows = ir::split_by_inputs(leaf_);
  return by_rows ? sum : gradient_in_fp8(sum);  // of a sum of ranks when that is scattered
}

/// torchao 0.18, float8/float8_linear.py: Float8Linear.forward. Its function saves what it is given
/// as it is, when its frame with all casts is gone.
ir::ValueId Lowering::float8_linear(V x, const Linear& l) {
  using ir::Float8Writer;
  if (config_.precision.fp8 == Fp8Recipe::mx) return mx_linear(x, l);
  const V given = x;  // under autocast it is cast here, for this layer alone
  if (config_.precision.autocast) x = cast(x, config_.precision.compute_dtype);
  const bool rowwise = config_.precision.fp8 == Fp8Recipe::rowwise;
  if (config_.memory.kernels == Kernels::compiled) return float8_linear_as_one(x, l, rowwise);
  Float8Writer f(p_, phase_, at(leaf_), rowwise);
  const bool gathered = l.scales != ir::no_id, cast_before = dtype(x) == DType::f8;
  const bool by_rows = ir::split_by_inputs(leaf_);
  const bool shared = tp_ > 1 && (by_rows || !rowwise), shares_input = tp_ > 1 && by_rows;
  if (shares_input && !rowwise && !cast_before) p_.value(p_.root(x)).distributed = true;
  const ir::Float8Operand a = cast_before
                                  ? ir::Float8Operand{x, ir::float8_scale_of(p_, x)}
                                  : f.cast(x, false, Float8Writer::Along::rows, shares_input),
                          b = gathered ? ir::Float8Operand{l.weight, l.scales}
                                       : f.cast(l.weight, true, Float8Writer::Along::rows, shared);
  const V product = f.product(a, b, with_columns(shape(x), l.out), cast_before ? dtype_ : dtype(x),
                              {columns(shape(x)), ir::Form::nt}, true);
  if (gathered)
    f.hold({a.data, a.scale});
  else
    f.hold({a.data, a.scale, b.data, b.scale});
  const V y = p_.on_storage_of(product, shape(product), dtype(product), false);
  p_.value(y).requires_grad = grad(x) || grad(l.weight);
  if (gathered)
    emit(OpKind::float8_linear, {x, l.weight, product, l.scales}, {y}, ir::Float8{rowwise});
  else
    emit(OpKind::float8_linear, {x, l.weight, product}, {y}, ir::Float8{rowwise});
  if (given != x) hold({given});  // the caller's argument
  const V sum = l.bias == ir::no_id ? y : binary(OpKind::add, y, cast(l.bias, dtype(y)));
  return by_rows ? sum : gradient_in_fp8(sum);  // of a sum of ranks when that is scattered
}

/// torchao 0.18, prototype/moe_training/mxfp8_linear.py: MXFP8Linear.forward, mx_mm.forward.
ir::ValueId Lowering::mx_linear(V x, const Linear& l) {
  using ir::Float8Writer;
  Float8Writer f(p_, phase_, at(leaf_), false);
  const ir::Float8Operand a = f.mx_cast(x, Float8Writer::Along::rows),
                          b = f.mx_cast(l.weight, Float8Writer::Along::rows);
  const V product = f.mx_product(a, b, with_columns(shape(x), l.out), dtype(x),
                                 {columns(shape(x)), ir::Form::nt});
  f.hold({a.data, a.scale, b.data, b.scale});
  const V y = p_.on_storage_of(product, shape(product), dtype(product), false);
  p_.value(y).requires_grad = grad(x) || grad(l.weight);
  emit(OpKind::float8_linear, {x, l.weight, product}, {y}, ir::Float8{false, false, false, true});
  return l.bias == ir::no_id ? y : binary(OpKind::add, y, cast(l.bias, dtype(y)));
}

}  // namespace ac_advisor::passes
