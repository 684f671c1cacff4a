#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ac_advisor/model/spec.hpp"
#include "ac_advisor/passes/step_program.hpp"

namespace ac_advisor::trainer {

/// What a parameter of the step holds. A weight in 4 bits is three: its codes, the code book and a
/// scale for each block (bitsandbytes' QuantState).
enum class Holds { weight, adapter_a, adapter_b, codes, code_book, scales };

struct NamedParameter {
  /// Hugging Face's ("model.layers.0.self_attn.q_proj.weight"), of an adapter that of PEFT's
  /// adapter_model.safetensors ("base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight").
  std::string name;
  Holds holds = Holds::weight;
  /// Of the tensor of that name in a file; of codes the weight's, which they are made from.
  std::vector<std::int64_t> shape;
  /// The dimension of `shape` of which each tensor-parallel rank has a part; -1: all of them have
  /// it whole. As TorchTitan's plan splits them: o and down by rows of the input, else by columns.
  std::int64_t split = -1;
};

/// In the order of `step.parameters`, whose layers are split over `tp` ranks.
[[nodiscard]] std::vector<NamedParameter> named_parameters(const model::ModelSpec& spec,
                                                           const passes::StepProgram& step,
                                                           std::int64_t tp);

}  // namespace ac_advisor::trainer
