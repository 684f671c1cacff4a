#include "ac_advisor/model/layers.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "ac_advisor/model/class_facts.hpp"

namespace ac_advisor::model {
namespace {

// torchtitan v0.2.2, models/llama3/model/model.py and models/qwen3/model/model.py: nn.RMSNorm,
// apply_rotary_emb; config/job_config.py, ActivationCheckpoint.early_stop = False;
// distributed/activation_checkpoint.py, _apply_layer_sac: layers are counted from one;
// models/qwen3/model/model.py, init_weights: self.output.weight = self.tok_embeddings.weight.
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
                                 .counts_from_one = true,
                                 .ties_shards = true};
// models/moe/moe.py, in the blocks of models/qwen3/model/model.py
constexpr LayerForms titan_qwen3_moe = [] {
  LayerForms forms = titan_qwen3;
  forms.padded_experts = true;
  return forms;
}();
// torchtune v0.6.1, modules/rms_norm.py, attention.py, transformer.py, feed_forward.py;
// models/llama3_1/_position_embeddings.py and models/qwen2/_positional_embeddings.py;
// training/activations.py, checkpoint_wrapper: _count is raised before it is asked.
constexpr LayerForms of_torchtune(RotationForm rotation) {
  return {.norm = NormForm::torch_in_fp32,
          .rotation = rotation,
          .q_before_k = true,
          .repeats_keys = true,
          .keeps_attention_out = true,
          .down_before_up = true,
          .counts_from_one = true,
          .whole_positions = true};
}
constexpr LayerForms tune_llama = of_torchtune(RotationForm::pairs);

// Builders with adapters make a table in each block (models/*/_component_builders.py,
// lora_*_self_attention), llama3_1's and llama3_2's one. models/phi3/_position_embeddings.py.
constexpr LayerForms with_table_of_adapted(LayerForms forms) {
  forms.table_of_adapted = true;
  return forms;
}
constexpr LayerForms tune_mistral = with_table_of_adapted(tune_llama);
constexpr LayerForms tune_qwen2 = with_table_of_adapted(of_torchtune(RotationForm::half_turns));
constexpr LayerForms tune_phi3 = [] {
  LayerForms forms = tune_qwen2;
  forms.rotation = RotationForm::wide_half_turns;
  forms.splits_fused = forms.no_windows = true;
  return forms;
}();

// models/gemma2/_component_builders.py; models/gemma/rms_norm.py, as transformers' is.
constexpr LayerForms tune_gemma2 = [] {
  LayerForms forms = tune_mistral;
  forms.norm = NormForm::written_out;
  forms.caps_hidden = true;
  return forms;
}();

struct Row {
  TransformerImpl impl;
  std::string_view family;
  const LayerForms* forms;
  bool ties, biased;  ///< it can tie its LM head; its q, k and v have biases
};
constexpr Row rows[] = {
    {TransformerImpl::torchtitan, "llama", &titan_llama, false, false},
    {TransformerImpl::torchtitan, "mistral", &titan_llama, false, false},
    {TransformerImpl::torchtitan, "qwen3", &titan_qwen3, true, false},
    {TransformerImpl::torchtitan, "qwen3_moe", &titan_qwen3_moe, true, false},
    {TransformerImpl::torchtune, "llama", &tune_llama, true, false},
    {TransformerImpl::torchtune, "mistral", &tune_mistral, false, false},
    {TransformerImpl::torchtune, "qwen2", &tune_qwen2, true, true},
    {TransformerImpl::torchtune, "phi3", &tune_phi3, false, false},
    {TransformerImpl::torchtune, "gemma2", &tune_gemma2, true, false},
};

bool has_windows(const ModelSpec& m) {
  return std::any_of(m.window.begin(), m.window.end(), [](std::int64_t w) { return w > 0; });
}

/// Whether each block has experts, or none: in these classes blocks are alike.
bool experts_as_in(const LayerForms& forms, const ModelSpec& m) {
  if (m.moe.has_value() != forms.padded_experts) return false;
  return !m.moe || std::all_of(m.sparse_block.begin(), m.sparse_block.end(),
                               [](bool sparse) { return sparse; });
}

/// Whether what the family's fields can say otherwise is as these classes have it.
bool fits(const Row& row, const ModelSpec& m) {
  const bool gemma = row.forms->caps_hidden;
  const bool heads_fill = gemma || row.forms->qk_norms_first || m.heads * m.head_dim == m.hidden;
  if (gemma && (!m.tied_embeddings || !m.attention_softcap)) return false;
  return experts_as_in(*row.forms, m) && (row.ties || !m.tied_embeddings) &&
         m.qkv_bias == row.biased && !m.output_bias && !m.mlp_bias &&
         (row.forms->no_windows || gemma || !has_windows(m)) &&
         m.activation == (gemma ? Activation::gelu_tanh : Activation::silu) && heads_fill &&
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

std::optional<ModelSpec> as_layers_have_it(const ModelSpec& spec, const StepConfig& config) {
  if (!has_own_layers(config.run.transformer_impl)) return std::nullopt;
  const LayerForms forms = layer_forms(spec, config);
  if (!forms.splits_fused && !forms.no_windows && !forms.caps_hidden) return std::nullopt;
  ModelSpec own = spec;
  if (forms.splits_fused) own.fused_qkv = own.fused_gate_up = false;
  if (forms.caps_hidden) {
    own.final_softcap.reset();
    own.scaled_embedding = false;  // by a number of the host's: embedding_multiplier
    own.embedding_multiplier = std::sqrt(static_cast<double>(spec.hidden));
  }
  if (forms.no_windows) std::fill(own.window.begin(), own.window.end(), 0);
  return own;
}

const ModelSpec& critics_model(const ModelSpec& actor, const StepConfig& config) {
  return config.task.critic.model ? *config.task.critic.model : actor;
}

bool angles_are_cast(const ModelSpec& spec, const StepConfig& c) {
  return spec.wide_rotary && c.layout.gathers() && c.runtime.framework == "hf" &&
         !c.precision.autocast && c.precision.param_dtype == DType::f32 &&
         c.precision.compute_dtype != DType::f32;
}

bool rings_by_automodel(const StepConfig& config) {
  return config.layout.cp > 1 && !config.layout.ulysses() &&
         config.runtime.framework == "automodel";
}

bool caps_in_flash(const ModelSpec& spec, const StepConfig& config) {
  return spec.eager_attention_only && spec.attention_softcap.has_value() &&
         config.run.attention == Attention::flash && !layer_forms(spec, config).caps_hidden;
}

namespace {

bool by_trl(const StepConfig& c) {
  if (c.task.supervised()) return c.runtime.framework == "trl";
  return c.task.compares() && !c.verl() && !c.llamafactory();
}

/// As --router-aux-loss says, or the configuration.
bool chosen(const StepConfig& config, bool automatic) {
  return config.task.router_loss == RouterLoss::automatic
             ? automatic
             : config.task.router_loss == RouterLoss::on;
}

}  // namespace

bool trl_balances_experts(const ModelSpec& spec, const StepConfig& config) {
  return by_trl(config) && spec.moe && class_facts(spec.family).balances_experts &&
         chosen(config, !spec.moe->unbalanced);
}

bool model_balances_experts(const ModelSpec& spec, const StepConfig& config) {
  return !by_trl(config) && spec.moe && class_facts(spec.family).balances_experts &&
         !spec.moe->every_expert && chosen(config, spec.moe->returns_logits);
}

bool balances_experts(const ModelSpec& spec, const StepConfig& config) {
  return trl_balances_experts(spec, config) || model_balances_experts(spec, config);
}

}  // namespace ac_advisor::model
