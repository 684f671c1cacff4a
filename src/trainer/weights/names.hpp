#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ac_advisor/model/spec.hpp"
#include "ac_advisor/passes/step_program.hpp"

namespace ac_advisor::trainer {

/// What a parameter of the step holds. A weight in 4 bits is three: its codes, the code book and a
/// scale for each block (bitsandbytes' QuantState), or five, where scales are bytes with scales of
/// their own and an offset; one in 8 bits is its codes and a scale for each row.
enum class Holds {
  weight,
  adapter_a,
  adapter_b,
  magnitude,  ///< DoRA's, one a row of the weight
  codes,
  code_book,
  scales,
  nested,
  offset
};
/// What is made from a weight of the file when it is quantized.
[[nodiscard]] inline bool is_quantized(Holds holds) { return holds >= Holds::codes; }
[[nodiscard]] inline bool is_adapter(Holds holds) {
  return holds >= Holds::adapter_a && holds <= Holds::magnitude;
}

/// What stands beside a weight's codes: parameters, or buffers that are whole on each rank.
struct QuantizationState {
  ir::ValueId code_book = ir::no_id, scales = ir::no_id, nested = ir::no_id, offset = ir::no_id;
};

struct NamedParameter {
  /// Hugging Face's ("model.layers.0.self_attn.q_proj.weight"), of an adapter that of PEFT's
  /// adapter_model.safetensors ("base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight").
  std::string name;
  Holds holds = Holds::weight;
  /// Of the tensor of that name in a file; of codes the weight's, which they are made from.
  std::vector<std::int64_t> shape;
  /// The dimension of `shape` of which each tensor-parallel rank has a part; -1: all of them have
  /// it whole. As TorchTitan's plan splits them: o and down by rows of the input, else by columns.
  /// Of experts the ranks that share them have a part each.
  std::int64_t split = -1;
  QuantizationState state = {};  ///< of codes
};

/// In the order of `step.parameters`, whose layers are split as the layout says.
[[nodiscard]] std::vector<NamedParameter> named_parameters(const model::ModelSpec& spec,
                                                           const passes::StepProgram& step,
                                                           const Layout& layout);

}  // namespace ac_advisor::trainer
