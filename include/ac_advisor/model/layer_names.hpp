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
};

/// transformers 5.23's, by the family's name; of internlm2 and baichuan their own code's.
[[nodiscard]] const LayerNames& layer_names(std::string_view family);

}  // namespace ac_advisor::model
