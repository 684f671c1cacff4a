// transformers v5.23, models/qwen3_next/configuration_qwen3_next.py
#include "delta_net.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sizes.hpp"

namespace ac_advisor::model {
namespace {

// "layer_types"; where it is absent, all blocks but every "full_attention_interval"-th.
std::vector<bool> delta_blocks(std::int64_t layers, const Fields& fields) {
  std::vector<bool> delta;
  const std::int64_t interval = fields.maybe_size("full_attention_interval", no_limit).value_or(4);
  const JsonValue::List* list = fields.maybe_list_of_blocks("layer_types", layers);
  if (list == nullptr) {
    for (std::int64_t i = 0; i < layers; ++i) delta.push_back((i + 1) % interval != 0);
    return delta;
  }
  for (const JsonValue& entry : *list) {
    const auto* type = std::get_if<std::string>(&entry.data);
    const bool linear = type != nullptr && *type == "linear_attention";
    if (!linear && (type == nullptr || *type != "full_attention"))
      fields.fail("layer_types", fmt::format("has the entry {}; known: \"full_attention\", "
                                             "\"linear_attention\"",
                                             shown(entry)));
    delta.push_back(linear);
  }
  return delta;
}

}  // namespace

void read_delta_net(const Family& family, const Fields& fields, ModelSpec& spec) {
  if (!family.delta_net) return;
  const auto read = [&](std::string_view name, std::int64_t limit, std::int64_t absent) {
    return fields.maybe_size(name, limit).value_or(absent);
  };
  DeltaNet delta;
  delta.key_heads = read("linear_num_key_heads", sizes::heads, 16);
  delta.value_heads = read("linear_num_value_heads", sizes::heads, 32);
  delta.key_dim = read("linear_key_head_dim", sizes::head_dim, 128);
  delta.value_dim = read("linear_value_head_dim", sizes::head_dim, 128);
  delta.taps = read("linear_conv_kernel_dim", sizes::head_dim, 4);
  if (delta.value_heads % delta.key_heads != 0)
    fields.fail("linear_num_key_heads",
                fmt::format("does not divide the {} heads of values", delta.value_heads));
  spec.delta_block = delta_blocks(spec.layers, fields);
  if (std::find(spec.delta_block.begin(), spec.delta_block.end(), true) == spec.delta_block.end()) {
    spec.delta_block.clear();
    return;
  }
  spec.delta = delta;
  spec.reading.warnings.emplace_back(
      "gated delta nets are planned as transformers runs them without flash-linear-attention and "
      "causal-conv1d, in PyTorch's own ops; those packages' kernels are not planned");
}

}  // namespace ac_advisor::model
