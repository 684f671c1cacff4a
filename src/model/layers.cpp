#include "ac_advisor/model/layers.hpp"

#include <algorithm>
#include <string_view>

namespace ac_advisor::model {
namespace {

// torchtitan v0.2.2, models/llama3/model/model.py and models/qwen3/model/model.py: nn.RMSNorm,
// apply_rotary_emb; config/job_config.py, ActivationCheckpoint.early_stop = False;
// distributed/activation_checkpoint.py, _apply_layer_sac: layers are counted from one.
constexpr LayerForms titan_llama{.norm = NormForm::torch,
                                 .rotation = RotationForm::complex,
                                 .down_before_up = true,
                                 .early_stop = false,
                                 .counts_from_one = true};
constexpr LayerForms titan_qwen3{.norm = NormForm::torch,
                                 .rotation = RotationForm::half_turns,
                                 .down_before_up = true,
                                 .qk_norms_first = true,
                                 .early_stop = false,
                                 .counts_from_one = true};
// torchtune v0.6.1, modules/rms_norm.py, attention.py, transformer.py, feed_forward.py;
// models/llama3_1/_position_embeddings.py and models/qwen2/_positional_embeddings.py;
// training/activations.py, checkpoint_wrapper: _count is raised before it is asked.
constexpr LayerForms tune_llama{.norm = NormForm::torch_in_fp32,
                                .rotation = RotationForm::pairs,
                                .q_before_k = true,
                                .repeats_keys = true,
                                .keeps_attention_out = true,
                                .down_before_up = true,
                                .counts_from_one = true,
                                .whole_positions = true};
constexpr LayerForms tune_qwen2{.norm = NormForm::torch_in_fp32,
                                .rotation = RotationForm::half_turns,
                                .q_before_k = true,
                                .repeats_keys = true,
                                .keeps_attention_out = true,
                                .down_before_up = true,
                                .counts_from_one = true,
                                .whole_positions = true};

struct Row {
  TransformerImpl impl;
  std::string_view family;
  const LayerForms* forms;
  bool ties, biased;  ///< it can tie its LM head; its q, k and v have biases
};
constexpr Row rows[] = {
    {TransformerImpl::torchtitan, "llama", &titan_llama, false, false},
    {TransformerImpl::torchtitan, "mistral", &titan_llama, false, false},
    {TransformerImpl::torchtitan, "qwen3", &titan_qwen3, false, false},
    {TransformerImpl::torchtune, "llama", &tune_llama, true, false},
    {TransformerImpl::torchtune, "mistral", &tune_llama, false, false},
    {TransformerImpl::torchtune, "qwen2", &tune_qwen2, true, true},
};

bool has_windows(const ModelSpec& m) {
  return std::any_of(m.window.begin(), m.window.end(), [](std::int64_t w) { return w > 0; });
}

/// Whether what the family's fields can say otherwise is as these classes have it.
bool fits(const Row& row, const ModelSpec& m) {
  const bool heads_fill = row.family == "qwen3" || m.heads * m.head_dim == m.hidden;
  return (row.ties || !m.tied_embeddings) && m.qkv_bias == row.biased && !m.output_bias &&
         !m.mlp_bias && !has_windows(m) && m.activation == Activation::silu && heads_fill &&
         m.rotary_dim == m.head_dim && m.attention_dropout == 0.0;
}

}  // namespace

bool has_own_layers(TransformerImpl impl) {
  return impl == TransformerImpl::torchtitan || impl == TransformerImpl::torchtune;
}

std::optional<LayerForms> layer_forms(TransformerImpl impl, const ModelSpec& spec) {
  for (const Row& row : rows)
    if (row.impl == impl && row.family == spec.family && fits(row, spec)) return *row.forms;
  return std::nullopt;
}

LayerForms layer_forms(const ModelSpec& spec, const StepConfig& config) {
  return layer_forms(config.run.transformer_impl, spec).value_or(LayerForms{});
}

bool caps_in_flash(const ModelSpec& spec, const StepConfig& config) {
  return spec.eager_attention_only && spec.attention_softcap.has_value() &&
         config.run.attention == Attention::flash;
}

}  // namespace ac_advisor::model
