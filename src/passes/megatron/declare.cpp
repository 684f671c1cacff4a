// Megatron-core's GPTModel: its parameters, rank by rank.
#include <algorithm>

#include "ac_advisor/passes/pass.hpp"
#include "ac_advisor/passes/passes.hpp"
#include "layers.hpp"
#include "passes/optimizer/grad_scaler.hpp"

namespace ac_advisor::passes {

using ir::Module;
using ir::Role;
using ir::Shape;

std::int64_t megatron_vocabulary(std::int64_t vocab, std::int64_t tp) {
  const std::int64_t multiple = 128 * tp;
  return (vocab + multiple - 1) / multiple * multiple;
}

MegatronLayers::MegatronLayers(const model::ModelSpec& spec, const StepConfig& config,
                               StepProgram& step)
    : Emission(step),
      spec_(spec),
      config_(config),
      dtype_(config.precision.compute_dtype),
      tp_(config.layout.tp),
      batch_(config.run.batch),
      seq_(config.local_seq()),
      sequence_(config.layout.tp > 1 && config.layout.sequence_parallel),
      words_(megatron_vocabulary(spec.vocab, tp_) / tp_),
      attention_dropout_(config.run.dropout > 0.0 ? config.run.dropout : spec.attention_dropout) {}

/// `partial`: its gradient is of this rank's tokens alone.
ir::ValueId MegatronLayers::parameter(const Shape& shape, Module leaf, bool partial) {
  const V v = p_.make(shape, dtype_, Role::parameter, at(leaf), true);
  s_.parameters.push_back({v, at(leaf), 0, ir::no_id});
  s_.parameters.back().partial = partial && sequence_;
  return v;
}

LinearValues MegatronLayers::linear_parameters(std::int64_t in, std::int64_t out, bool bias,
                                               Module leaf, Split split) {
  LinearValues l;
  l.in = split == Split::rows ? part(in) : in;
  l.out = split == Split::columns ? part(out) : out;
  l.weight = fused(parameter({l.out, l.in}, leaf, split == Split::none));
  if (bias) l.bias = parameter({l.out}, leaf, split == Split::rows);
  return l;
}

void MegatronLayers::declare_norm(V& weight, V& bias, std::int64_t width, Module leaf) {
  weight = parameter({width}, leaf, true);
  if (spec_.norms_have_bias()) bias = parameter({width}, leaf, true);
}

/// TransformerLayer: SelfAttention, then MLP. Gate and up are one layer, as q, k and v are.
void MegatronLayers::declare_block(std::int16_t index) {
  block_ = index;
  const std::int64_t h = spec_.hidden, q = spec_.heads * spec_.head_dim,
                     kv = spec_.kv_heads * spec_.head_dim;
  Block b;
  declare_norm(b.norm1, b.norm1_bias, spec_.hidden, Module::norm1);
  if (spec_.latent) {
    declare_latent(b);
  } else {
    b.o = linear_parameters(q, h, spec_.output_bias, Module::o_proj, Split::rows);
    b.qkv = linear_parameters(h, q + 2 * kv, spec_.qkv_bias, Module::qkv_proj, Split::columns);
    if (spec_.qk_norm) {
      declare_norm(b.q_norm, b.q_norm_bias, spec_.head_dim, Module::q_norm);
      declare_norm(b.k_norm, b.k_norm_bias, spec_.head_dim, Module::k_norm);
    }
  }
  declare_norm(b.norm2, b.norm2_bias, spec_.hidden, Module::norm2);
  if (has_experts(index)) declare_experts(b);
  const std::int64_t wide =
      has_experts(index) ? spec_.moe->shared_intermediate : spec_.intermediate;
  if (wide > 0) {
    const Module first = spec_.plain_mlp ? Module::up_proj : Module::gate_up_proj;
    b.up = linear_parameters(h, up_width(wide), spec_.mlp_bias, first, Split::columns);
    b.down = linear_parameters(wide, h, spec_.mlp_bias, Module::down_proj, Split::rows);
    declare_in_fp8(b.up, first);
    declare_in_fp8(b.down, Module::down_proj);
  }
  if (!spec_.latent) declare_in_fp8(b.qkv, Module::qkv_proj);
  declare_in_fp8(b.o, Module::o_proj);
  m_.blocks[static_cast<std::size_t>(index)] = b;
  block_ = -1;
}

/// utils.py, GlobalMemoryBuffer: as long as the longest that was asked of it, by gathers along the
/// sequence and by scores of its own attention.
void MegatronLayers::declare_memory_buffer() {
  const bool gathers = sequence_ && (!engine() || s_.stages.back().head);
  std::int64_t gathered = gathers ? seq_ * batch_ * spec_.hidden : 0;
  if (spec_.moe && !spec_.moe->megatron->all_to_all && config_.layout.expert_ranks() > 1)
    gathered = std::max(gathered, own_tokens() * config_.layout.expert_ranks() * spec_.hidden);
  const std::int64_t scores = engine() ? 0 : batch_ * part(spec_.heads) * seq_ * seq_;
  if (gathered + scores == 0) return;
  m_.memory_buffer = p_.make({std::max(gathered, scores)}, dtype_, Role::buffer, at(Module::root));
  s_.buffers.push_back(m_.memory_buffer);
}

void MegatronLayers::declare() {
  s_.stages = stages_of_rank(spec_, config_);
  declare_memory_buffer();
  const bool embeds = s_.stages.front().embedding, heads = s_.stages.back().head;
  if (embeds) {
    m_.embed = parameter({words_, spec_.hidden}, Module::embed, false);
    if (spec_.position_table > 0)
      m_.positions = parameter({spec_.position_table, spec_.hidden}, Module::embed, false);
  }
  m_.blocks.resize(static_cast<std::size_t>(spec_.layers));
  for (const StageBlocks& stage : s_.stages)
    for (std::int64_t i = stage.first; i < stage.end; ++i)
      declare_block(static_cast<std::int16_t>(i));
  if (heads) {
    declare_norm(m_.final_norm, m_.final_norm_bias, spec_.hidden, Module::final_norm);
    // The last stage has a copy of a tied embedding (LanguageModule.setup_embeddings_and_output_
    // layer), whose gradients are added over the two stages.
    m_.lm_head = spec_.tied_embeddings && embeds
                     ? m_.embed
                     : fused(parameter({words_, spec_.hidden}, Module::lm_head, false));
    if (m_.lm_head == m_.embed) fuse(s_.parameters.front());
  }
  if (spec_.latent) {
    declare_latent_angles();
  } else if (spec_.rotates()) {  // RotaryEmbedding: frequencies, and angles that are kept for the
                                 // length
    const auto buffer = [&](const Shape& size) {
      const V v = p_.make(size, DType::f32, Role::buffer, at(Module::rotary));
      s_.buffers.push_back(v);
      return v;
    };
    buffer({spec_.rotary_dim / 2});
    m_.inv_freq = {buffer({seq_, spec_.rotary_dim})};
  }
  s_.blocks = static_cast<std::int32_t>(spec_.layers);
}

namespace {

bool always(const StepConfig&) { return true; }

void run(StepProgram& step, const model::ModelSpec& spec, const StepConfig& config) {
  step.loss_scale = 1.0 / static_cast<double>(config.run.grad_accum);
  MegatronLayers(spec, config, step).declare();
}

void lower(StepProgram& step, const model::ModelSpec& spec, const StepConfig& config) {
  step.graph_held.clear();
  MegatronLayers(spec, config, step).forward();
  if (step.loss == ir::no_id) return;
  step.losses.push_back(step.loss);
  if (config.optimizer.grad_scaler) scale_loss(step);
}

}  // namespace

extern const std::span<const Exclusion> exclusions_of_megatron;
extern const Pass megatron_declare_pass, megatron_lower_pass;
const Pass megatron_declare_pass{
    "megatron-declare",     Stage::before, "megatron: parameters of this rank", always, run,
    exclusions_of_megatron, Of::megatron};
const Pass megatron_lower_pass{"megatron-lower",
                               Stage::micro_batch,
                               "megatron: forward and loss, as Megatron-core launches them",
                               always,
                               lower,
                               {},
                               Of::megatron};

}  // namespace ac_advisor::passes
