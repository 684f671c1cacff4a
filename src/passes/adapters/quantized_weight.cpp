#include "passes/adapters/quantized_weight.hpp"

namespace ac_advisor::passes {

QuantizedWeight quantized_weight(const StepConfig& config, std::int64_t in, std::int64_t out) {
  constexpr std::int64_t block = 64, nested_block = 256, code_book = 16;
  if (config.adapters.quantize == Quantization::int8)
    return {{{out, in}, DType::u8}, {{out}, DType::f32}, {}, {}, {}};
  const std::int64_t weights = in * out, blocks = (weights + block - 1) / block;
  QuantizedWeight kept;
  if (config.layout.gathers())
    kept.weight = {{(weights + 3) / 4, 1}, config.precision.param_dtype};
  else
    kept.weight = {{(weights + 1) / 2}, DType::u8};
  kept.code_book = {{code_book}, DType::f32};
  const bool nested = config.adapters.quantize == Quantization::nf4_double;
  kept.scales = {{blocks}, nested ? DType::u8 : DType::f32};
  if (nested) {
    kept.nested = {{(blocks + nested_block - 1) / nested_block}, DType::f32};
    kept.offset = {{}, DType::f32};
  }
  return kept;
}

}  // namespace ac_advisor::passes
