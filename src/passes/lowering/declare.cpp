// The pass that declares what exists before the step, and what sizes and dtypes are refused.
#include <string>

#include "ac_advisor/model/adapter_method.hpp"
#include "ac_advisor/model/class_facts.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/module_kind.hpp"
#include "ac_advisor/passes/pass.hpp"
#include "lowering.hpp"
#include "passes/adapters/quantized_weight.hpp"
#include "passes/adapters/targets.hpp"
#include "passes/lowering/batch_positions.hpp"
#include "passes/pipeline/micro_batch.hpp"

namespace ac_advisor::passes {

using ir::Module;
using ir::Role;
using ir::Shape;

ir::ValueId Lowering::parameter(const Shape& shape, Module leaf) {
  if (config_.run.frozen.decoder && leaf != Module::vision_tower)
    return frozen(shape, frozen_dtype(), leaf);
  if (config_.adapters.used()) {
    const V base = frozen(shape, dtype_, leaf);
    return adapts_norm(spec_, config_, leaf) ? trained(shape, dtype_, leaf) : base;
  }
  const V v = p_.make(shape, dtype_, Role::parameter, at(leaf), true);
  s_.parameters.push_back({v, at(leaf), 0, ir::no_id});
  s_.parameters.back().partial =
      splits_sequence() && module_of(ModuleKind::norm, leaf) != Module::root;
  return v;
}

/// Of a part that is not trained: LLaMA-Factory loads all in the dtype that it computes in, and
/// casts what it trains (model/adapter.py, _setup_full_tuning).
DType Lowering::frozen_dtype() const {
  const bool as_computed =
      config_.llamafactory() && !config_.adapters.used() && config_.precision.autocast;
  return as_computed ? config_.precision.compute_dtype : dtype_;
}

/// FSDP2's mixed precision gathers fp32 routers as it gathers all others.
bool Lowering::casts_routers() const {
  return config_.layout.gathers() && config_.precision.param_dtype == DType::f32;
}

/// Of a router, which is in fp32 whatever the model's dtype is.
ir::ValueId Lowering::router_parameter(const Shape& shape) {
  if (!model::in_fp32(model::class_facts(spec_.family).router) || casts_routers())
    return parameter(shape, Module::router);
  const bool fixed = config_.run.frozen.decoder || config_.adapters.used();
  return fixed ? frozen(shape, DType::f32, Module::router)
               : trained(shape, DType::f32, Module::router);
}

/// Of an adapter.
ir::ValueId Lowering::trained(const Shape& shape, DType dtype, Module leaf) {
  const V v = p_.make(shape, dtype, Role::parameter, at(leaf), true);
  s_.parameters.push_back({v, at(leaf), 0, ir::no_id});
  return v;
}

ir::ValueId Lowering::frozen(const Shape& shape, DType dtype, Module leaf) {
  const V v = p_.make(shape, dtype, Role::parameter, at(leaf), false);
  s_.parameters.push_back({.value = v, .module = at(leaf), .trained = false});
  return v;
}

/// Of what bitsandbytes keeps, FSDP2 knows the weight alone: the rest belongs to no parameter, and
/// every rank has it whole.
void Lowering::quantized(Linear& l, Module leaf) {
  const QuantizedWeight kept = quantized_weight(config_, l.in, l.out);
  const bool sharded = config_.layout.gathers();
  const auto state = [&](const QuantizedWeight::Stored& stored) {
    if (!sharded) return frozen(stored.shape, stored.dtype, leaf);
    s_.buffers.push_back(p_.make(stored.shape, stored.dtype, Role::parameter, at(leaf), false));
    return s_.buffers.back();
  };
  l.weight = frozen(kept.weight.shape, kept.weight.dtype, leaf);
  if (kept.code_book) l.code_book = state(*kept.code_book);
  l.scales = state(kept.scales);
  if (kept.nested) l.nested = state(*kept.nested);
  if (kept.offset) l.offset = state(*kept.offset);
}

Lowering::Linear Lowering::linear_parameters(std::int64_t in, std::int64_t out, bool bias,
                                             Module leaf) {
  Linear l;
  l.in = in;
  l.out = out;
  if (config_.adapters.quantize != Quantization::none)
    quantized(l, leaf);
  else
    l.weight = parameter(spec_.input_first ? Shape{in, out} : Shape{out, in}, leaf);
  l.input_first = spec_.input_first;
  if (config_.precision.fp8_all_gather && is_float8(l)) gathered_in_fp8(l);
  // Linear4bit.forward stores its bias in the compute dtype from the first step on.
  if (bias)
    l.bias = config_.adapters.four_bit() ? frozen({out}, four_bit_compute, leaf)
                                         : parameter({out}, leaf);
  if (!adapts(spec_, config_, at(leaf))) return l;
  if (config_.adapters.of_another_method()) {
    declare_adapter(l, leaf);
    return l;
  }
  declare_lora(l, leaf);
  return l;
}

void Lowering::declare_lora(Linear& l, Module leaf) {
  const std::int64_t rank = config_.adapters.rank;
  const bool by_rows = tp_ > 1 && ir::split_by_inputs(leaf);
  const DType type = lora_dtype(config_);
  l.lora_a = trained({by_rows ? rank : part(rank), l.in}, type, leaf);
  l.lora_b = trained({l.out, by_rows ? part(rank) : rank}, type, leaf);
  s_.parameters.back().summed = by_rows;
  if (config_.adapters.dora) l.magnitude = trained({l.out}, type, leaf);
}

/// DeepseekV3Attention.__init__
void Lowering::declare_latent(Block& b) {
  const model::LatentAttention& latent = *spec_.latent;
  const std::int64_t h = spec_.hidden, q = spec_.heads * spec_.head_dim;
  if (latent.q_rank > 0) {
    b.q_a = linear_parameters(h, latent.q_rank, spec_.qkv_bias, Module::q_a_proj);
    b.q_a_norm = parameter({latent.q_rank}, Module::q_a_norm);
    b.q_b = linear_parameters(latent.q_rank, q, false, Module::q_b_proj);
  } else {
    b.q = linear_parameters(h, q, false, Module::q_proj);
  }
  b.kv_a =
      linear_parameters(h, latent.kv_rank + latent.rotated_dim, spec_.qkv_bias, Module::kv_a_proj);
  b.kv_a_norm = parameter({latent.kv_rank}, Module::kv_a_norm);
  b.kv_b = linear_parameters(latent.kv_rank, spec_.heads * (latent.plain_dim + latent.value_dim),
                             false, Module::kv_b_proj);
  b.o = linear_parameters(spec_.heads * latent.value_dim, h, spec_.output_bias, Module::o_proj);
}

/// Qwen3NextGatedDeltaNet.__init__, Qwen3_5GatedDeltaNet.__init__
void Lowering::declare_delta(Block& b) {
  const model::DeltaNet& delta = *spec_.delta;
  const std::int64_t h = spec_.hidden, keys = delta.key_heads * delta.key_dim,
                     values = delta.value_heads * delta.value_dim, channels = 2 * keys + values;
  const bool apart = model::class_facts(spec_.family).delta_apart;
  b.dt_bias = parameter({delta.value_heads}, Module::delta_rule);
  b.a_log = parameter({delta.value_heads}, Module::delta_rule);
  b.conv = parameter({channels, 1, delta.taps}, Module::conv1d);
  if (!apart) {
    b.qkv = linear_parameters(h, channels + values, false, Module::qkv_proj);
    b.ba = linear_parameters(h, 2 * delta.value_heads, false, Module::ba_proj);
  }
  b.gated_norm = parameter({delta.value_dim}, Module::gated_norm);
  b.o = linear_parameters(values, h, false, Module::o_proj);
  if (!apart) return;
  b.qkv = linear_parameters(h, channels, false, Module::qkv_proj);
  b.z = linear_parameters(h, values, false, Module::z_proj);
  b.b = linear_parameters(h, delta.value_heads, false, Module::b_proj);
  b.a = linear_parameters(h, delta.value_heads, false, Module::a_proj);
}

void Lowering::declare_block(std::int16_t index) {
  block_ = index;
  const std::int64_t h = spec_.hidden, q = heads() * spec_.head_dim,
                     kv = kv_heads() * spec_.head_dim, wide = part(spec_.intermediate);
  Block b;
  const bool before = !spec_.post_norms_only, after = spec_.sandwich_norms || !before;
  const bool biased = spec_.norms_have_bias();
  const auto first_norm = [&] {
    if (before) b.norm1 = parameter({h}, Module::norm1);
    if (biased) b.norm1_bias = parameter({h}, Module::norm1);
  };
  const auto second_norm = [&] {
    if (before && !spec_.shared_norm) b.norm2 = parameter({h}, Module::norm2);
    if (biased && !spec_.shared_norm) b.norm2_bias = parameter({h}, Module::norm2);
  };
  const model::ClassFacts& facts = model::class_facts(spec_.family);
  const model::NormOrder norms = facts.norms;
  const bool both_first = norms == model::NormOrder::first;
  if (both_first || norms == model::NormOrder::in_turn) first_norm();
  if (both_first) second_norm();
  if (forms_.qk_norms_first) {
    b.q_norm = parameter({spec_.head_dim}, Module::q_norm);
    b.k_norm = parameter({spec_.head_dim}, Module::k_norm);
  }
  if (spec_.attention_sinks) b.sinks = parameter({spec_.heads}, Module::attention_core);
  if (spec_.has_delta(index)) {
    declare_delta(b);
  } else if (spec_.latent) {
    declare_latent(b);
  } else if (spec_.fused_qkv) {
    const auto output = [&] { b.o = linear_parameters(q, h, spec_.output_bias, Module::o_proj); };
    if (facts.output_first) output();
    b.qkv = linear_parameters(h, q + 2 * kv, spec_.qkv_bias, Module::qkv_proj);
    if (!facts.output_first) output();
  } else {
    const auto queries = [&] {
      b.q = linear_parameters(h, spec_.gated_attention ? 2 * q : q, spec_.qkv_bias, Module::q_proj);
    };
    if (!facts.keys_first) queries();
    b.k = linear_parameters(h, kv, spec_.qkv_bias, Module::k_proj);
    b.v = linear_parameters(h, kv, spec_.qkv_bias, Module::v_proj);
    if (facts.keys_first) queries();
    b.o = linear_parameters(q, h, spec_.output_bias, Module::o_proj);
  }
  if (spec_.qk_norm && !spec_.has_delta(index) && !forms_.qk_norms_first) {
    b.q_norm = parameter({spec_.qk_norm_whole ? q : spec_.head_dim}, Module::q_norm);
    b.k_norm = parameter({spec_.qk_norm_whole ? kv : spec_.head_dim}, Module::k_norm);
  }
  if (spec_.rotation == model::Rotation::table) {
    b.angles = p_.make({spec_.max_positions, spec_.rotary_dim}, DType::f32, Role::buffer,
                       at(Module::attention));
    s_.buffers.push_back(b.angles);
  }
  if (norms == model::NormOrder::after_each) first_norm();
  if (norms == model::NormOrder::in_turn) second_norm();
  if (norms == model::NormOrder::between) first_norm(), second_norm();
  const auto i = static_cast<std::size_t>(index);
  if (forms_.padded_experts) {
    declare_padded_experts(b);
  } else if (spec_.moe && !spec_.sparse_block.empty() && spec_.sparse_block[i]) {
    const auto& moe = *spec_.moe;
    const ExpertTargets adapted = adapted_experts(spec_, config_);
    const auto router = [&] {
      b.router = router_parameter({moe.experts, h});
      if (adapted.router) b.router_adapter = low_rank_of(b.router, 1, Module::router);
    };
    if (!facts.experts_first) router();
    if (moe.sigmoid_scores || facts.router == model::Router::sigmoid) {
      b.score_correction = p_.make({moe.experts}, DType::f32, Role::buffer, at(Module::router));
      s_.buffers.push_back(b.score_correction);
    }
    if (facts.router == model::Router::corrected)
      b.score_correction =
          frozen({1, moe.experts}, casts_routers() ? dtype_ : DType::f32, Module::router);
    if (moe.biased) b.router_bias = parameter({moe.experts}, Module::router);
    const std::int64_t both = 2 * moe.intermediate;
    const std::int64_t here = local_experts();
    const auto weights = [&](std::int64_t out, std::int64_t in) {
      const V v =
          parameter(moe.input_first ? Shape{here, in, out} : Shape{here, out, in}, Module::experts);
      s_.parameters.back().expert = config_.layout.ep > 1;
      return v;
    };
    b.experts_gate_up = weights(both, h);
    if (moe.biased) b.experts_gate_up_bias = parameter({moe.experts, both}, Module::experts);
    b.experts_down = weights(h, moe.intermediate);
    if (moe.biased) b.experts_down_bias = parameter({moe.experts, h}, Module::experts);
    if (adapted.gate) b.gate_up_adapter = low_rank_of(b.experts_gate_up, 2, Module::experts);
    if (adapted.down) b.down_adapter = low_rank_of(b.experts_down, 1, Module::experts);
    if (facts.experts_first) router();
    if (moe.shared_intermediate > 0 && facts.shared == model::SharedMlp::fused) {
      b.gate_up = linear_parameters(h, 2 * moe.shared_intermediate, false, Module::gate_up_proj);
      b.down = linear_parameters(moe.shared_intermediate, h, false, Module::down_proj);
    } else if (moe.shared_intermediate > 0) {
      b.gate = linear_parameters(h, moe.shared_intermediate, false, Module::gate_proj);
      b.up = linear_parameters(h, moe.shared_intermediate, false, Module::up_proj);
      b.down = linear_parameters(moe.shared_intermediate, h, false, Module::down_proj);
      if (moe.shared_gate) b.shared_gate = linear_parameters(h, 1, false, Module::mlp);
    }
  } else if (spec_.fused_gate_up) {
    b.gate_up = linear_parameters(h, 2 * wide, spec_.mlp_bias, Module::gate_up_proj);
    b.down = linear_parameters(wide, h, spec_.mlp_bias, Module::down_proj);
  } else {
    const auto down = [&] {
      b.down = linear_parameters(wide, h, spec_.mlp_bias, Module::down_proj);
    };
    if (!spec_.plain_mlp) b.gate = linear_parameters(h, wide, spec_.mlp_bias, Module::gate_proj);
    if (forms_.down_before_up) down();
    b.up = linear_parameters(h, wide, spec_.mlp_bias, Module::up_proj);
    if (!forms_.down_before_up) down();
  }
  if (norms == model::NormOrder::last) first_norm();
  if (after) b.post_attention_norm = parameter({h}, Module::post_attention_norm);
  if (norms == model::NormOrder::last || norms == model::NormOrder::after_each) second_norm();
  if (after) b.post_mlp_norm = parameter({h}, Module::post_mlp_norm);
  m_.blocks[static_cast<std::size_t>(index)] = b;
  block_ = -1;
}

/// A pipeline's ranks are given the whole batch, of which micro-batches are views
/// (torch/distributed/pipelining/microbatch.py, v2.11).
void Lowering::declare_inputs() {
  const bool piped = config_.layout.pp > 1;
  const Shape tokens{(piped ? config_.run.grad_accum : 1) * config_.run.batch,
                     config_.run.seq - config_.adapters.prompt_tokens()};
  const bool resized = model::rings_by_automodel(config_);
  const auto batch = [&](DType type) {
    if (!resized) {
      s_.inputs.push_back(p_.make(tokens, type, Role::input, at(Module::root)));
      return s_.inputs.back();
    }
    const Shape whole{tokens[0], tokens[1] * config_.layout.cp};
    s_.inputs.push_back(p_.make(whole, type, Role::input, at(Module::root)));
    return p_.on_storage_of(s_.inputs.back(), tokens, type, false);
  };
  m_.ids = batch(DType::i64);
  m_.labels = batch(DType::i64);
  if (is_packed()) declare_row();
  if (config_.run.position_ids) {
    // prepare_context_parallel_input makes them in 32 bits
    const bool ring = config_.layout.cp > 1 && !config_.layout.ulysses();
    m_.position_ids = batch(ring && !resized ? DType::i32 : DType::i64);
  }
  if (resized) declare_frame_of_ring(tokens);
  if (!piped) return;
  for (V* given : of_micro_batch(m_))
    if (*given != ir::no_id) *given = p_.narrow(*given, 0, 0, config_.run.batch);
}

/// torch.distributed.tensor.experimental.context_parallel (v2.11) resizes what it is given in
/// place; until it ends its frame has a copy of the positions as they were, this rank's parts of
/// all three, and the last of them once more.
void Lowering::declare_frame_of_ring(const Shape& part) {
  const auto kept = [&](std::int64_t parts) {
    s_.inputs.push_back(
        p_.make({part[0], part[1] * parts}, DType::i64, Role::input, at(Module::root)));
  };
  kept(config_.layout.cp);
  for (int copies = 0; copies < 4; ++copies) kept(1);
}

/// What a collator that flattens its batch gives beside tokens and labels (TRL 1.16's
/// DataCollatorForLanguageModeling, transformers' DataCollatorWithFlattening); stages of a pipeline
/// are given a row of each a micro-batch. NeMo AutoModel 0.5.0 (datasets/llm/packed_sequence.py,
/// datasets/utils.py, default_collater): lengths of documents, and a mask of padding, which
/// transformers' layers do not read.
void Lowering::declare_row() {
  const auto given = [&](std::int64_t size, DType type) {
    const Shape shape = config_.layout.pp > 1 ? Shape{config_.run.grad_accum, size} : Shape{size};
    const V y = p_.make(shape, type, Role::input, at(Module::root));
    s_.inputs.push_back(y);
    return y;
  };
  m_.position_ids = given(config_.run.seq, DType::i64);
  if (config_.verl()) return;
  if (infers_documents(config_)) {
    for (int padded = 0; padded < 2; ++padded) given(config_.run.packing, DType::i64);
    given(config_.run.seq, DType::u8);
    return;
  }
  m_.cu_seqlens_q = given(config_.run.packing + 1, DType::i32);
  m_.cu_seqlens_k = given(config_.run.packing + 1, DType::i32);
}

/// One kind of rotary table's frequencies and their copy (`original_inv_freq`).
ir::ValueId Lowering::declare_frequencies() {
  for (int copy = 0; copy < 2; ++copy)
    s_.buffers.push_back(
        p_.make({spec_.rotary_dim / 2}, DType::f32, Role::buffer, at(Module::rotary)));
  return s_.buffers[s_.buffers.size() - 2];
}

void Lowering::declare() {
  if (config_.litgpt()) return declare_litgpt();
  declare_inputs();
  s_.ties_embedding = spec_.tied_embeddings;
  s_.stages = stages_of_rank(spec_, config_);
  const bool embeds = s_.stages.front().embedding, heads = s_.stages.back().head;
  const std::int64_t words = part(spec_.vocab);
  if (config_.run.images > 0) declare_tower();
  if (embeds) m_.embed = parameter({words, spec_.hidden}, Module::embed);
  if (spec_.position_table > 0)
    m_.positions = parameter({spec_.position_table, spec_.hidden}, Module::embed);
  if (spec_.embedding_norm && embeds) {
    m_.embed_norm = parameter({spec_.hidden}, Module::embed);
    m_.embed_norm_bias = parameter({spec_.hidden}, Module::embed);
  }
  const bool norm_first = model::class_facts(spec_.family).head_norm_first;
  if (config_.adapters.method == AdapterMethod::vera) declare_shared();
  if (heads && norm_first) declare_final_norm();
  m_.blocks.resize(static_cast<std::size_t>(spec_.layers));
  for (const StageBlocks& stage : s_.stages)
    for (std::int64_t i = stage.first; i < stage.end; ++i)
      declare_block(static_cast<std::int16_t>(i));
  if (heads && !norm_first) declare_final_norm();
  if (heads) declare_head(words);
  // Of each stage's model, one pair a kind of layer.
  const std::int64_t tables =
      spec_.makes_angles() && !forms_.keeps_table() ? spec_.rotary_tables : 0;
  if (forms_.keeps_table()) {
    const bool each = forms_.table_of_adapted && config_.adapters.used();
    const std::size_t own_tables = each ? static_cast<std::size_t>(spec_.layers) : s_.stages.size();
    for (std::size_t i = 0; i < own_tables; ++i) declare_table();
  }
  for (std::size_t stage = 0; stage < s_.stages.size(); ++stage)
    for (std::int64_t i = 0; i < tables; ++i) {
      const V frequencies = declare_frequencies();
      if (stage == 0) m_.inv_freq.push_back(frequencies);
    }
  if (spec_.scaled_embedding && embeds) {
    m_.embed_scale = p_.make({}, dtype_, Role::buffer, at(Module::embed));
    s_.buffers.push_back(m_.embed_scale);
  }
  if (config_.adapters.of_another_method() &&
      model::row(config_.adapters.method).place == model::AdapterPlace::embedding)
    declare_prompt();
  s_.blocks = static_cast<std::int32_t>(spec_.layers);
}

void Lowering::declare_final_norm() {
  m_.final_norm = parameter({spec_.hidden}, Module::final_norm);
  if (spec_.norms_have_bias()) m_.final_norm_bias = parameter({spec_.hidden}, Module::final_norm);
}

/// TRL v0.24, models/modeling_value_head.py, ValueHead: nn.Linear(hidden, 1), in fp32.
void Lowering::declare_value_head() {
  m_.value_head.weight = trained({1, spec_.hidden}, DType::f32, Module::lm_head);
  m_.value_head.bias = trained({1}, DType::f32, Module::lm_head);
}

void Lowering::declare_head(std::int64_t words) {
  if (config_.task.of_critic) {  // GenericForTokenClassification: nn.Linear(hidden_size, 1)
    m_.value_head.weight = parameter({1, spec_.hidden}, Module::lm_head);
    m_.value_head.bias = parameter({1}, Module::lm_head);
    return;
  }
  if (config_.value_head()) declare_value_head();
  if (config_.task.kind == Task::reward &&
      !config_.value_head()) {  // nn.Linear(hidden_size, 1, bias=False)
    m_.lm_head = parameter({1, spec_.hidden}, Module::lm_head);
    if (config_.adapters.used())  // modules_to_save: a copy that is trained beside the frozen one
      m_.lm_head = trained({1, spec_.hidden}, config_.adapters.dtype, Module::lm_head);
    return;
  }
  // A pipeline's last stage has a copy of a tied embedding. Two units of FSDP2's gather the shard
  // of one for themselves, and add to its gradient one after the other.
  if (spec_.tied_embeddings && m_.embed != ir::no_id) {
    m_.lm_head = m_.embed;
    if (forms_.ties_shards && config_.layout.gathers() &&
        config_.layout.fsdp_unit == FsdpUnit::torchtitan) {
      m_.lm_head = parameter({words, spec_.hidden}, Module::lm_head);
      s_.parameters.back().tied = m_.embed;
    }
  } else if (config_
                 .value_head()) {  // it wants a gradient, and no loss that counts reads its logits
    m_.lm_head = frozen({words, spec_.hidden}, config_.precision.param_dtype, Module::lm_head);
    p_.value(m_.lm_head).requires_grad = !config_.adapters.used();
  } else if (reads_head_of_shards(config_))
    m_.lm_head = frozen({words, spec_.hidden}, config_.precision.param_dtype, Module::lm_head);
  else
    m_.lm_head = parameter({words, spec_.hidden}, Module::lm_head);
  if (spec_.head_bias) m_.lm_head_bias = parameter({spec_.vocab}, Module::lm_head);
}

namespace {

using model::ModelSpec;

constexpr std::int64_t most = std::int64_t{1} << 31, most_ranks = 1 << 20, most_layers = 4096;

bool outside(std::int64_t value, std::int64_t limit) { return value < 1 || value > limit; }

std::string option(const char* name, std::int64_t value) {
  return std::string(name) + " " + std::to_string(value);
}

bool gathers(const StepConfig& c) { return c.layout.fsdp(); }

constexpr Exclusion exclusions_of_declare[] = {
    {"--batch N", "must be between 1 and 2147483648", "give a size in that range",
     [](const ModelSpec&, const StepConfig& c) { return outside(c.run.batch, most); },
     [](const ModelSpec&, const StepConfig& c) { return option("--batch", c.run.batch); }},
    {"--seq N", "must be between 1 and 2147483648", "give a size in that range",
     [](const ModelSpec&, const StepConfig& c) { return outside(c.run.seq, most); },
     [](const ModelSpec&, const StepConfig& c) { return option("--seq", c.run.seq); }},
    {"--grad-accum N", "must be between 1 and 2147483648", "give a number in that range",
     [](const ModelSpec&, const StepConfig& c) { return outside(c.run.grad_accum, most); },
     [](const ModelSpec&, const StepConfig& c) {
       return option("--grad-accum", c.run.grad_accum);
     }},
    {"--world N", "must be between 1 and 1048576", "give a number in that range",
     [](const ModelSpec&, const StepConfig& c) { return outside(c.layout.world, most_ranks); },
     [](const ModelSpec&, const StepConfig& c) { return option("--world", c.layout.world); }},
    {"--batch B --seq S", "more than 2^31 tokens on one rank", "use a smaller --batch or --seq",
     [](const ModelSpec&, const StepConfig& c) {
       return ir::checked_mul(c.rows(), c.run.seq) > most;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return option("--batch", c.run.batch) + " " + option("--seq", c.run.seq);
     }},
    {"--seq N, a model with a table of positions", "its table has no more rows",
     "give a --seq of at most its positions, with the tokens of a learned prompt",
     [](const ModelSpec& m, const StepConfig& c) {
       return (m.position_table > 0 || m.rotation == model::Rotation::table) &&
              c.run.seq + c.adapters.prompt_tokens() > m.max_positions;
     },
     [](const ModelSpec& m, const StepConfig& c) {
       return option("--seq", c.run.seq) + " of " + std::to_string(m.max_positions) + " positions";
     }},
    {"--autocast, NemotronLayerNorm1P", "it casts what it is given itself: not planned yet",
     "add --autocast none",
     [](const ModelSpec& m, const StepConfig& c) {
       return c.precision.autocast && m.norm == model::Norm::layer_plus_one;
     }},
    {"MODEL of more than 4096 blocks", "at most 4096", "give a model of fewer blocks",
     [](const ModelSpec& m, const StepConfig&) { return m.layers > most_layers; },
     [](const ModelSpec& m, const StepConfig&) { return option("num_hidden_layers", m.layers); }},
    {"--compute-dtype fp32 --param-dtype bf16 or fp16",
     "computing in more bits than are stored gains nothing", "use --param-dtype fp32",
     [](const ModelSpec&, const StepConfig& c) {
       return is_half(c.precision.param_dtype) && c.precision.compute_dtype == DType::f32;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return std::string("--compute-dtype fp32 --param-dtype ") +
              to_option(c.precision.param_dtype);
     }},
    {"--autocast, --shard other than none or ddp",
     "sharded parameters have a mixed precision of their own",
     "use --param-dtype fp32 --compute-dtype bf16 without --autocast",
     [](const ModelSpec&, const StepConfig& c) {
       return c.precision.autocast && !c.layout.whole();
     },
     [](const ModelSpec&, const StepConfig& c) {
       return std::string("--autocast ") + autocast_option(c) + " --shard " + shard_option(c);
     }},
    {"--autocast --compute-dtype fp32", "autocast computes matrix products in bf16 or fp16",
     "drop one of them",
     [](const ModelSpec&, const StepConfig& c) {
       return c.precision.autocast && c.precision.compute_dtype == DType::f32;
     }},
    {"--autocast, --loss lc-ce or chunked:TOKENS", "they cast by rules of their own",
     "use --loss ce",
     [](const ModelSpec&, const StepConfig& c) {
       return c.precision.autocast &&
              (c.memory.loss == LossKind::lc_ce || c.memory.loss == LossKind::chunked);
     },
     [](const ModelSpec&, const StepConfig& c) {
       return std::string("--autocast ") + autocast_option(c) + " --loss " + loss_option(c);
     }},
    {"--autocast, a mixture of experts",
     "transformers' grouped products are outside of autocast, and are not planned in fp32 yet",
     "use --param-dtype bf16, or --shard fsdp2 --param-dtype fp32",
     [](const ModelSpec& m, const StepConfig& c) {
       return c.precision.autocast && m.moe && !m.moe->every_expert &&
              c.precision.param_dtype == DType::f32;
     }},
    {"--param-dtype fp32 --compute-dtype bf16 or fp16, neither fsdp1, fsdp2 nor hsdp:N",
     "only their gathered copies are in the compute dtype",
     "use --autocast, or --shard fsdp1, fsdp2 or hsdp:N",
     [](const ModelSpec&, const StepConfig& c) {
       return c.precision.param_dtype != c.precision.compute_dtype && !gathers(c) &&
              !c.precision.autocast;
     },
     [](const ModelSpec&, const StepConfig& c) {
       return std::string("--param-dtype ") + to_option(c.precision.param_dtype) +
              " --compute-dtype " + to_option(c.precision.compute_dtype);
     }},
};

bool always(const StepConfig&) { return true; }

void run(StepProgram& step, const ModelSpec& spec, const StepConfig& config) {
  // torch.distributed.pipelining divides gradients instead (pipeline/pipeline.cpp, scale).
  if (!config.scales_gradients())
    step.loss_scale = 1.0 / static_cast<double>(config.run.grad_accum);
  const StepConfig fed = as_fed(config);
  Lowering lowering(spec, fed, step);
  lowering.declare();
  lowering.declare_task();
}

}  // namespace

extern const Pass declare_pass;
const Pass declare_pass{"declare",       Stage::before, "parameters, inputs and rotary buffers",
                        always,          run,           exclusions_of_declare,
                        Of::transformers};

}  // namespace ac_advisor::passes
