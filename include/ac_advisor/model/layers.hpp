#pragma once

#include <cstdint>
#include <optional>

#include "ac_advisor/model/spec.hpp"
#include "ac_advisor/model/step_config.hpp"

namespace ac_advisor::model {

/// What an RMSNorm is: transformers' ops one by one; torch.nn.RMSNorm; that of the input in fp32.
enum class NormForm : std::uint8_t { written_out, torch, torch_in_fp32 };
/// How q and k are rotated: as the family's own code in transformers does it, by tables that are
/// made in each forward; or by a table that the model keeps: pairs as complex numbers in fp32,
/// half turns, the same by a table that stays in fp32, or pairs of fp32 one by one.
enum class RotationForm : std::uint8_t { of_family, complex, half_turns, wide_half_turns, pairs };

/// What a model's layers are made of, by whose code they are (--transformer-impl): in what they
/// differ from transformers'.
struct LayerForms {
  NormForm norm = NormForm::written_out;
  RotationForm rotation = RotationForm::of_family;
  bool q_before_k = false;           ///< q is rotated before k and v are projected
  bool repeats_keys = false;         ///< keys and values get a copy for each query's head
  bool keeps_attention_out = false;  ///< a block's frame has it to its end
  bool down_before_up = false;       ///< of the order in which a gated MLP registers its layers
  bool qk_norms_first = false;       ///< and attention its norms and projections
  bool early_stop = true;            ///< a checkpoint's recomputation ends with what is needed
  bool counts_from_one = false;      ///< every:K checkpoints the last of each K blocks
  bool ties_shards = false;          ///< a tied head is tied anew once there are FSDP2's shards
  bool whole_positions = false;      ///< the table is of all positions that the model was made for
  bool table_of_adapted = false;     ///< with adapters each block has a table of its own
  bool splits_fused = false;         ///< what transformers projects together, it projects apart
  bool no_windows = false;           ///< every block attends to all before
  bool padded_experts = false;  ///< three weights an expert, rows padded for each: TorchTitan's
  bool caps_hidden = false;     ///< scores are capped op by op, and no logits but hidden states

  /// Cosines beside sines, each for both halves.
  [[nodiscard]] bool turns_halves() const {
    return rotation == RotationForm::half_turns || rotation == RotationForm::wide_half_turns;
  }
  /// Angles are in a table of the model's: no positions, and no masks, are made in a forward.
  [[nodiscard]] bool keeps_table() const { return rotation != RotationForm::of_family; }
};

/// Whether layers of `impl` are other than transformers', and are made by the same passes.
[[nodiscard]] bool has_own_layers(TransformerImpl impl);
/// None: `impl` has no such model.
[[nodiscard]] std::optional<LayerForms> layer_forms(TransformerImpl impl, const ModelSpec& spec);
/// The same of what is planned; transformers' where it has none, which validate() refuses.
[[nodiscard]] LayerForms layer_forms(const ModelSpec& spec, const StepConfig& config);
/// The model as those layers have it, where that is not as its configuration says. Absent: it is.
[[nodiscard]] std::optional<ModelSpec> as_layers_have_it(const ModelSpec& spec,
                                                         const StepConfig& config);

/// PPO's critic: the model that was given, else one as the actor.
[[nodiscard]] const ModelSpec& critics_model(const ModelSpec& actor, const StepConfig& config);

/// Whether a block's angles are in fp32 and fully_shard's mixed precision casts them with all else
/// that it is given, in its forward alone.
[[nodiscard]] bool angles_are_cast(const ModelSpec& spec, const StepConfig& config);

/// NeMo AutoModel's ring (0.5.0, components/distributed/cp_utils.py;
/// _transformers/kernel_patches.py): transformers' SDPA whatever was asked for. Models make their
/// masks, and hooks of its drop them, windows with them, before attention.
[[nodiscard]] bool rings_by_automodel(const StepConfig& config);

/// Whether --attn flash is flash-attn's own function (attn_implementation="flash_attention_2"): of
/// soft-capped scores, for which there is no scaled_dot_product_attention.
[[nodiscard]] bool caps_in_flash(const ModelSpec& spec, const StepConfig& config);

/// Whether a TRL trainer (v1.16: SFT, DPO, KTO, GRPO, RLOO) adds the routers' auxiliary loss: it
/// does for each class whose configuration has a router_aux_loss_coef, unless that is 0.
[[nodiscard]] bool trl_balances_experts(const ModelSpec& spec, const StepConfig& config);
/// Whether the model's own forward adds it, as output_router_logits asks for.
[[nodiscard]] bool model_balances_experts(const ModelSpec& spec, const StepConfig& config);
/// Either.
[[nodiscard]] bool balances_experts(const ModelSpec& spec, const StepConfig& config);

}  // namespace ac_advisor::model
