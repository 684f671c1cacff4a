#pragma once

#include <string>

#include "ac_advisor/model/spec.hpp"
#include "json_value.hpp"

namespace ac_advisor::model {

/// Whether the file says "model_type": "megatron": a GPT by Megatron-LM's arguments.
[[nodiscard]] bool is_megatron(const JsonValue::Object& root);

/// Its fields are Megatron-LM's arguments (core_v0.16, megatron/training/arguments.py) without
/// dashes: num_layers, hidden_size, ffn_hidden_size, num_attention_heads, …, with its defaults.
/// Throws UserError naming the field, for arguments that change the step and are not planned too.
[[nodiscard]] ModelSpec parse_megatron(const JsonValue::Object& root, const std::string& origin,
                                       const std::string& name);

}  // namespace ac_advisor::model
