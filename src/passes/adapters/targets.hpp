#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ac_advisor/ir/module_path.hpp"
#include "ac_advisor/model/spec.hpp"
#include "ac_advisor/model/step_config.hpp"

namespace ac_advisor::passes {

/// What litgpt's finetune_lora has a flag for each: lora_query and so on.
enum class LitgptTarget : std::uint8_t { query, key, value, projection, mlp, head };
inline constexpr std::string_view litgpt_names[] = {"query",      "key", "value",
                                                    "projection", "mlp", "head"};
[[nodiscard]] bool adapts(const StepConfig& config, LitgptTarget target);

/// Of what is trained: adapters have a dtype of their own, but ln-tuning trains the model's norms.
[[nodiscard]] DType trained_dtype(const StepConfig& config);
/// Whether TRL's loss reads the weight of a head that is a unit of accelerate's by itself: beside
/// adapters its norm is none of it, so no forward gathers it (an untied one's).
[[nodiscard]] bool reads_head_of_shards(const StepConfig& config);
/// Whether adapters are NeMo AutoModel's LinearLoRA, by autograd functions of its own: where
/// torch.compile traces a layer, and of DoRA's, it has PyTorch's nodes.
[[nodiscard]] bool own_adapters_of_automodel(const StepConfig& config);
/// That LoRA's matrices are computed with: fsdp2's mixed precision gathers all parameters in the
/// compute dtype.
[[nodiscard]] DType lora_dtype(const StepConfig& config);

/// Linear layers of a block, by the endings that PEFT's target_modules name.
[[nodiscard]] std::vector<ir::Module> linear_layers(const model::ModelSpec& spec,
                                                    std::int16_t block);
/// Whether PEFT wraps this layer (peft v0.21, tuners_utils.check_target_module_exists: a name that
/// is a target or ends in "." and a target).
[[nodiscard]] bool adapts(const model::ModelSpec& spec, const StepConfig& config,
                          ir::ModulePath layer);
/// The same of a layer of an encoder of images, by the end of its path.
[[nodiscard]] bool adapts(const model::ModelSpec& spec, const StepConfig& config,
                          const model::EncoderLinear& layer);
/// Inputs and outputs of the layers of a block that get adapters.
[[nodiscard]] std::vector<std::pair<std::int64_t, std::int64_t>> adapted_widths(
    const model::ModelSpec& spec, const StepConfig& config, std::int16_t block);
/// The same of all blocks, each pair once.
[[nodiscard]] std::vector<std::pair<std::int64_t, std::int64_t>> adapted_widths(
    const model::ModelSpec& spec, const StepConfig& config);
/// Of LoRA's matrices of all layers, whole.
[[nodiscard]] std::int64_t lora_parameters(const model::ModelSpec& spec, const StepConfig& config);
/// Which of a mixture's stacked weights PEFT's LoRA adapts (lora.ParamWrapper): the router's
/// [experts, hidden] and the experts' [experts, out, in], of which gate and up are one.
struct ExpertTargets {
  bool router = false, gate = false, up = false, down = false;
  [[nodiscard]] bool any() const { return router || gate || up || down; }
};
[[nodiscard]] ExpertTargets adapted_experts(const model::ModelSpec& spec, const StepConfig& config);
/// Whether linear layers of blocks get adapters at all.
[[nodiscard]] bool adapts_layers(const StepConfig& config);
/// (IA)^3: whether this layer's input is scaled, instead of its output.
[[nodiscard]] bool scales_input(const model::ModelSpec& spec, ir::ModulePath layer);
/// LN tuning: whether these norms have a trained copy.
[[nodiscard]] bool adapts_norm(const model::ModelSpec& spec, const StepConfig& config,
                               ir::Module leaf);
/// The names of these layers, for people: "attn.c_attn, attn.c_proj, …".
[[nodiscard]] std::string layer_list(const model::ModelSpec& spec, const StepConfig& config);
/// The first of the targets that names no linear layer of a block; empty: all do.
[[nodiscard]] std::string unknown_target(const model::ModelSpec& spec, const StepConfig& config);

}  // namespace ac_advisor::passes
