#pragma once

#include <string_view>

namespace ac_advisor::model {

/// What transformers calls the linear layers of a block: PEFT's target_modules are endings of
/// these paths. A layer that a block has not keeps Llama's name.
struct LayerNames {
  std::string_view blocks = "model.layers";  ///< the list of blocks
  std::string_view q = "self_attn.q_proj";
  std::string_view k = "self_attn.k_proj";
  std::string_view v = "self_attn.v_proj";
  std::string_view qkv = "self_attn.qkv_proj";
  std::string_view o = "self_attn.o_proj";
  std::string_view gate = "mlp.gate_proj";
  std::string_view up = "mlp.up_proj";
  std::string_view gate_up = "mlp.gate_up_proj";
  std::string_view down = "mlp.down_proj";
  /// Of a mixture: the module of the shared expert's layers.
  std::string_view shared = "mlp.shared_expert";
  /// By which names PEFT's LoRA adapts experts' stacked weights, and with `gate` their router (peft
  /// v0.21, utils/transformers_weight_conversion.py, _MOE_TARGET_MODULE_MAPPING: what transformers
  /// 4 called them); empty: it adapts none.
  std::string_view expert_gate = {}, expert_up = {}, expert_down = {};
};

/// Whether PEFT takes `target` for the layer of that path: its last names.
[[nodiscard]] bool ends_in(std::string_view path, std::string_view target);

/// transformers 5.23's, by the family's name; of internlm2 and baichuan their own code's.
[[nodiscard]] const LayerNames& layer_names(std::string_view family);

}  // namespace ac_advisor::model
