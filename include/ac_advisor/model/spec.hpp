#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ac_advisor::graph {
struct Graph;
}

namespace ac_advisor::model {

/// The function between an MLP's gate and its product with `up`, or between its two projections.
/// gelu_new is gelu_tanh, op by op (transformers' NewGELUActivation); gelu_recomputed too, in an
/// autograd function whose backward computes it again from its input (bloom).
enum class Activation : std::uint8_t {
  silu,
  gelu_tanh,
  gelu,
  gelu_new,
  relu,
  relu2,
  gelu_recomputed
};

/// What a block's norms are. written_out: cohere's LayerNorm without a bias, op by op; rms_nested:
/// RMSNorm whose division is a function of its own (llama4).
enum class Norm : std::uint8_t { rms, layer, layer_plus_one, written_out, rms_nested };

/// How a projection of q, k and v together lies: q's heads, k's, v's (phi3); each head's three
/// (gpt_neox); the same as the first, split in one op (gpt2); the queries of each head of keys and
/// values before that head's two (internlm2); each head's three, taken one by one (bloom); all
/// queries before one head of keys and one of values (falcon); as grouped, keys and values repeated
/// for every query's head (falcon's new decoder); thirds that are stacked (baichuan).
enum class QkvLayout : std::uint8_t {
  sliced,
  by_head,
  split,
  grouped,
  by_head_apart,
  one_pair,
  grouped_repeated,
  stacked
};

/// How q and k are rotated. halves: x cos + rotate_half(x) sin; halves_apart: each half by itself,
/// with tables of half the width (gpt_oss); pairs_apart: even and odd elements by themselves
/// (deepseek_v3); complex: pairs as complex numbers in fp32, q and k cast back one by one
/// (deepseek_v2) or both at the end (complex_together: llama4); table: neighbours, by rows of a
/// table of angles that every block has (gptj).
enum class Rotation : std::uint8_t {
  halves,
  halves_apart,
  pairs_apart,
  complex,
  complex_together,
  table
};

/// What rotary angles are made of: a position a token; three (time, height, width), whose angles
/// are joined in parts (qwen2_5_vl) or woven into one another (qwen3_vl).
enum class PositionGrids : std::uint8_t { one, joined, woven };

/// Multi-head latent attention: keys and values of all heads from one narrow vector a token, and
/// one rotated part of the key that all heads share (deepseek_v2).
struct LatentAttention {
  std::int64_t q_rank = 0;  ///< width of the queries' vector; 0: they are projected at once
  std::int64_t kv_rank = 0;
  std::int64_t plain_dim = 0;    ///< of a head's q and k, not rotated: qk_nope_head_dim
  std::int64_t rotated_dim = 0;  ///< qk_rope_head_dim
  std::int64_t value_dim = 0;    ///< v_head_dim
  bool operator==(const LatentAttention&) const = default;
};

/// What mixes tokens in attention's place in some blocks: a gated delta net (qwen3_next).
struct DeltaNet {
  std::int64_t key_heads = 0;    ///< each serves the same number of
  std::int64_t value_heads = 0;  ///< heads of values
  std::int64_t key_dim = 0;      ///< of a head's query and key
  std::int64_t value_dim = 0;
  std::int64_t taps = 0;  ///< of the causal convolution of queries, keys and values
  bool operator==(const DeltaNet&) const = default;
};

/// What Megatron-core's arguments choose of a mixture of experts; of transformers' families those
/// that Megatron-Bridge gives them.
struct MegatronExperts {
  bool sinkhorn = false;       ///< moe_router_load_balancing_type: Sinkhorn's algorithm chooses
  bool aux_loss = false;       ///< … and the loss that balances loads is computed
  bool pre_softmax = false;    ///< moe_router_pre_softmax: scores are of all experts
  bool wide_router = false;    ///< moe_router_dtype fp32
  bool grouped = false;        ///< moe_grouped_gemm: all experts' products in one call
  bool all_to_all = false;     ///< moe_token_dispatcher_type; otherwise all-gather
  bool fused_permute = false;  ///< moe_permute_fusion: Transformer Engine's kernels of Triton
  bool sequence_loss = false;  ///< the balancing loss is of each sequence (seq_aux_loss)
  bool expert_bias = false;    ///< moe_router_enable_expert_bias: what scores are corrected by
  bool operator==(const MegatronExperts&) const = default;
};

/// Mixture-of-experts MLP (Hugging Face: mixtral, qwen3_moe).
struct MoeSpec {
  std::int64_t experts = 0;
  std::int64_t top_k = 0;
  std::int64_t intermediate = 0;         ///< width of one expert
  bool normalize_top_k = false;          ///< routing weights are divided by their sum
  bool wide_weights = false;             ///< routing weights stay in fp32 (mixtral)
  std::int64_t shared_intermediate = 0;  ///< width of what every token passes as well; 0: none
  bool shared_gate = false;              ///< which is weighted by a gate of its own (qwen2_moe)
  bool sigmoid_scores = false;           ///< scores by sigmoid, in fp32, corrected (glm4_moe),
  double scaling = 1.0;                  ///< and multiplied by this: routed_scaling_factor
  bool wide_scores = false;              ///< scores by softmax, in fp32, scaled (deepseek_v2)
  std::int64_t groups = 1;               ///< of experts, of which
  std::int64_t top_groups = 1;           ///< so many are chosen from
  bool softmax_of_top = false;  ///< weights: softmax of the chosen logits, not widened (gpt_oss)
  bool biased = false;          ///< router and experts have biases (gpt_oss)
  bool input_first = false;     ///< experts' weights are [experts, in, out] (gpt_oss)
  bool clamped_gate = false;    ///< (up + 1) * gate * sigmoid(a * gate), both clamped (gpt_oss)
  bool sparse_mixer = false;    ///< two experts by sampling, one after the other (phimoe)
  bool input_jitter = false;    ///< what router and experts read is multiplied by noise (phimoe)
  bool every_expert = false;    ///< each runs on each token, times its score or 0 (llama4)
  bool unbalanced = false;      ///< router_aux_loss_coef is 0: TRL leaves the auxiliary loss out
  bool returns_logits = false;  ///< output_router_logits: the model adds the auxiliary loss itself
  std::optional<MegatronExperts> megatron;
  bool operator==(const MoeSpec&) const = default;
};

/// How rotary frequencies are stretched (transformers v5.23, modeling_rope_utils.py). It changes
/// values, not memory.
struct RopeScaling {
  std::string type;  ///< "linear", "llama3"; others are planned, but not run
  double factor = 1.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  double original_positions = 8192.0;  ///< original_max_position_embeddings
  bool operator==(const RopeScaling&) const = default;
};

/// A torch.nn.Linear of an encoder, which adapters name and bitsandbytes quantizes.
struct EncoderLinear {
  std::string name;  ///< the end of its path, "self_attn.q_proj"
  std::int64_t in = 0;
  std::int64_t out = 0;
  bool bias = false;
  bool operator==(const EncoderLinear&) const = default;
};

/// Tensors of the same shapes and linear layers, `times` over.
struct TensorGroup {
  std::int64_t times = 1;
  std::vector<std::vector<std::int64_t>> shapes;
  std::vector<EncoderLinear> linears;
  bool operator==(const TensorGroup&) const = default;
};

/// Whose forward an encoder of images has: CLIP's vision model, of images of one size, and LLaVA's
/// projector of what one of its layers puts out; Qwen2.5-VL's and Qwen3-VL's, of images of any
/// size, whose patches are rows of one matrix and whose merger is inside.
enum class TowerForm : std::uint8_t { clip, qwen2_5, qwen3 };

/// How an encoder of images runs.
struct TowerRun {
  std::int64_t hidden = 0;
  std::int64_t intermediate = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t image = 0;  ///< pixels a side
  std::int64_t patch = 0;
  std::int64_t channels = 3;
  std::int64_t layers_read = 0;  ///< after so many the projector reads; the others run for nothing
  bool class_token = false;      ///< the projector is given it, too
  bool sigmoid_gelu = true;      ///< x * sigmoid(1.702 x), op by op; else a gelu
  bool projector_bias = true;
  TowerForm form = TowerForm::clip;
  // Of images of any size:
  std::int64_t frames = 1;                 ///< temporal_patch_size: that a patch is deep
  std::int64_t merge = 1;                  ///< patches a side that become one token
  std::int64_t out = 0;                    ///< width of the merger's output
  std::int64_t positions = 0;              ///< rows of a learned table; 0: none
  std::int64_t window = 0;                 ///< pixels a side of an attention window; 0: none
  std::vector<std::int64_t> whole_layers;  ///< that attend to whole images all the same
  std::vector<std::int64_t> taps;          ///< layers that a merger of their own reads, DeepStack
  [[nodiscard]] bool any_size() const { return form != TowerForm::clip; }
  /// Of an image of the encoder's one size.
  [[nodiscard]] std::int64_t patches() const { return (image / patch) * (image / patch); }
  bool operator==(const TowerRun&) const = default;
};

/// An encoder of images beside the decoder, with its projector. A step without images holds its
/// parameters, and no gradients or optimizer states of them.
struct Tower {
  std::string encoder;  ///< "siglip_vision_model", …
  std::vector<TensorGroup> groups;
  std::optional<TowerRun> run;  ///< none: steps with images are not planned
  bool operator==(const Tower&) const = default;
};

/// What a configuration's file says and the plan does not follow, in words for the user.
struct Reading {
  bool as = false;                   ///< read as a family that it does not name: --as
  std::vector<std::string> ignored;  ///< fields that change neither shapes nor ops
  std::vector<std::string> unknown;  ///< fields that nothing is known of
  std::vector<std::string> warnings;
  std::string dtype;  ///< of the published weights: "bfloat16", …; empty: not told
  /// Files that are read to the same figures are the same model, whatever else they say.
  bool operator==(const Reading& /*other*/) const { return true; }
};

/// One decoder-only transformer as its Hugging Face `config.json` describes it, with the family's
/// modelling code reduced to facts that change what a training step launches and holds.
struct ModelSpec {
  std::string name;    ///< folder or file stem, for tables
  std::string family;  ///< `model_type`: llama, mistral, qwen2, …

  std::int64_t hidden = 0;
  std::int64_t intermediate = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t vocab = 0;
  std::int64_t max_positions = 0;  ///< max_position_embeddings; 0 when absent
  double rms_norm_eps = 1e-6;
  double attention_dropout = 0.0;
  std::int64_t pad_token_id = -1;  ///< -1: none
  double rope_theta = 10000.0;
  double local_rope_theta = 10000.0;  ///< of blocks with a window, where they have their own table
  std::optional<RopeScaling> rope_scaling;
  double attention_scale = 1.0;  ///< of the scores: head_dim^-0.5, or the configuration's

  bool tied_embeddings = false;
  bool qkv_bias = false;
  bool output_bias = false;  ///< bias of the attention's output projection
  bool mlp_bias = false;
  bool qk_norm = false;               ///< RMSNorm over head_dim on q and k (qwen3, gemma3)
  bool fused_qkv = false;             ///< one projection for q, k and v (phi3)
  bool fused_gate_up = false;         ///< one projection for gate and up (phi3)
  bool sandwich_norms = false;        ///< four norms a block (gemma2, gemma3)
  bool unit_offset_norm = false;      ///< Gemma's RMSNorm: multiplies by (1 + weight), in fp32
  bool scaled_embedding = false;      ///< embedding times sqrt(hidden) (gemma)
  bool eager_attention_only = false;  ///< no SDPA in transformers (gemma2's soft-capped scores)
  bool kv_sharing = false;            ///< some blocks reuse another block's keys and values
  std::optional<double> attention_softcap;
  std::optional<double> final_softcap;
  std::optional<double> embedding_multiplier;  ///< granite: of the embedding,
  std::optional<double> residual_multiplier;   ///< of what attention and MLP add to the residual,
  std::optional<double> logits_divisor;        ///< and of the logits
  Activation activation = Activation::silu;
  bool qk_norm_whole = false;       ///< q's and k's norms are over all heads together (olmo2)
  bool post_norms_only = false;     ///< norms after attention and MLP, none before (olmo2)
  bool wide_norm_scale = false;     ///< RMSNorm's weight multiplies in fp32 (olmo2)
  bool wide_rotary = false;         ///< rotation in fp32, its result cast back (olmo2)
  bool joined_rotary_part = false;  ///< heads' rotated part is joined with their rest (phi3)
  Norm norm = Norm::rms;
  bool plain_mlp = false;            ///< two projections, no gate (starcoder2, gpt2)
  bool side_by_side = false;         ///< attention and MLP both read the block's input (gpt_neox),
  bool shared_norm = false;          ///< the same norm of it (phi, cohere),
  bool branches_first = false;       ///< and are added before the residual is (gpt_neox, phi)
  bool keeps_attention_out = false;  ///< a block's frame has it to its end (gpt2, stablelm)
  bool dropout_in_block = false;     ///< residual_dropout is the block's, not its parts' (opt)
  bool turned_first = false;         ///< q and k are both rotated before they are joined (gpt_neox)
  bool norms_after_heads = false;    ///< q's and k's norms follow all projections (glm4_moe)
  bool norms_first = false;          ///< a block's norms are registered before the rest (gpt2)
  bool head_bias = false;            ///< of the LM head (phi)
  QkvLayout qkv_layout = QkvLayout::sliced;
  bool input_first = false;         ///< weights are [in, out] (gpt2's Conv1D)
  bool scaled_queries = false;      ///< queries are scaled before attention (opt)
  bool masked_positions = false;    ///< positions are counted along a mask of ones (opt)
  bool flat_mlp = false;            ///< tokens are rows of a matrix from the second norm on (opt)
  bool interleaved_rotary = false;  ///< pairs are neighbours (cohere, glm4),
  bool rotary_in_block = false;     ///< whose cos and sin each block interleaves (glm4)
  bool unfused_rotary = false;      ///< Megatron-core's --no-rope-fusion
  bool widened_rotary = false;      ///< q and k are cast to fp32 for the rotation (cohere)
  std::int64_t position_table = 0;  ///< rows of learned positions; 0: rotary ones
  double residual_dropout = 0.0;    ///< of what attention and MLP put out
  double embedding_dropout = 0.0;
  std::optional<double> logits_multiplier;  ///< cohere
  std::optional<LatentAttention> latent;    ///< head_dim is that of q and k then
  Rotation rotation = Rotation::halves;
  PositionGrids position_grids = PositionGrids::one;
  bool position_scaled_queries = false;  ///< by a function of their position (ministral3)
  bool no_packed_check = false;          ///< masks are made without positions (gpt_oss, qwen2_5_vl)
  std::optional<double> hidden_divisor;  ///< of what the LM head reads (minicpm)
  bool attention_sinks = false;          ///< a learned logit a head beside the scores (gpt_oss)
  bool embedding_norm = false;           ///< a norm of the embedding (bloom)
  bool alibi = false;            ///< scores have a bias by distance, q and k no rotation (bloom)
  bool fp32_scores = false;      ///< q and k are widened to fp32 for their product (gptj)
  bool always_masked = false;    ///< SDPA is given a causal mask (falcon)
  bool residual_inside = false;  ///< attention and MLP add the residual themselves (bloom)
  bool norms_together = false;   ///< both of a block's norms run before attention (falcon)
  bool adds_in_place = false;    ///< the MLP's output takes the attention's in place (falcon)
  bool repeats_keys = false;     ///< QkvLayout::grouped_repeated, by the configuration (falcon)
  bool keeps_block_outputs = false;  ///< the loop has a block's outputs until the next one's (gptj)
  bool measured_positions = false;   ///< the rotary table asks for the last position (phimoe)
  bool unweighted_qk_norm = false;   ///< rotated q and k are divided by their length (llama4)
  bool tuned_temperature = false;    ///< queries without rotation grow with their position (llama4)
  bool narrow_softmax = false;       ///< eager attention's is in the scores' dtype (llama4)
  bool normalized_head = false;      ///< the LM head's rows are divided by their length (baichuan)
  bool gated_attention = false;    ///< queries' projection makes a gate of its output (qwen3_next)
  std::int64_t rotary_dim = 0;     ///< rotated part of head_dim (partial_rotary_factor)
  std::int64_t rotary_tables = 1;  ///< cos/sin tables made a forward (gemma3: local and global)

  /// Per block: the sliding window in tokens, 0 for full attention. Size `layers`.
  std::vector<std::int64_t> window;
  /// Whether some block's window has at most so many tokens.
  [[nodiscard]] bool window_within(std::int64_t tokens) const {
    for (const std::int64_t w : window)
      if (w > 0 && w <= tokens) return true;
    return false;
  }
  /// Windows are chunks of so many tokens, which see nothing before them (llama4); 0: they slide.
  std::int64_t attention_chunk = 0;
  /// Per block: q and k are not rotated (smollm3). Empty where all are.
  std::vector<bool> unrotated_block;
  std::optional<MoeSpec> moe;
  std::optional<DeltaNet> delta;
  /// Per block: a delta net in attention's place. Empty where none has one.
  std::vector<bool> delta_block;
  /// Per block: has experts (qwen3_moe's `mlp_only_layers`, `decoder_sparse_step`). Empty when
  /// dense.
  std::vector<bool> sparse_block;

  std::optional<Tower> tower;

  /// A step that was captured of a PyTorch model: then it is planned, and of the figures above only
  /// `name`, `family` ("graph") and `layers` (its blocks) say anything.
  std::shared_ptr<const graph::Graph> graph;
  std::string graph_digest;  ///< of its file; empty: none

  Reading reading;

  /// LayerNorm with a bias beside its weight.
  [[nodiscard]] bool norms_have_bias() const {
    return norm == Norm::layer || norm == Norm::layer_plus_one;
  }
  /// What attention multiplies the scores by: 1 where queries were scaled before.
  [[nodiscard]] double score_scale() const { return scaled_queries ? 1.0 : attention_scale; }
  /// Whether blocks rotate q and k.
  [[nodiscard]] bool rotates() const { return position_table == 0 && !alibi; }
  /// Whether rotary angles are made from frequencies, once for all blocks.
  [[nodiscard]] bool makes_angles() const { return rotates() && rotation != Rotation::table; }
  /// Whether a pair of a head's elements is rotated as a complex number.
  [[nodiscard]] bool complex_rotation() const {
    return rotation == Rotation::complex || rotation == Rotation::complex_together;
  }
  /// Whether the block has a delta net in attention's place.
  [[nodiscard]] bool has_delta(std::int64_t block) const {
    return !delta_block.empty() && delta_block[static_cast<std::size_t>(block)];
  }
  /// Elements of a head's value.
  [[nodiscard]] std::int64_t value_dim() const { return latent ? latent->value_dim : head_dim; }

  bool operator==(const ModelSpec&) const = default;
};

/// A captured step as a model: what `parse_config` returns of its file.
[[nodiscard]] ModelSpec of_graph(std::shared_ptr<const graph::Graph> graph);

/// Warnings of how the file was read, and one line of what it says without effect.
[[nodiscard]] std::vector<std::string> reading_warnings(const ModelSpec& spec);
[[nodiscard]] std::string reading_note(const ModelSpec& spec);

/// Exact number of parameters, the tower's included; a tied LM head counts once.
[[nodiscard]] std::int64_t parameter_count(const ModelSpec& spec);
/// Those of the tower alone; 0 without one.
[[nodiscard]] std::int64_t tower_parameter_count(const ModelSpec& spec);

/// Reads a Hugging Face configuration. `text` is the JSON, `origin` names it in errors, `name` is
/// the model's display name. `as` is the family of an unknown `model_type` (empty: none). Throws
/// UserError naming the field.
[[nodiscard]] ModelSpec parse_config(const std::string& text, const std::string& origin,
                                     const std::string& name, const std::string& as = {});

/// MODEL of the command line: a config.json, a folder that has one, the name of a sample, "-" for
/// standard input, a folder `models--org--name` of Hugging Face's cache, or "org/name" that is
/// there. Throws UserError (missing, a directory without a config, over 16 MiB, …).
[[nodiscard]] ModelSpec load_model(const std::string& model, const std::string& as = {});

/// Sets what the family's code does and no figure of the configuration says: `qk_norm_whole`,
/// `post_norms_only`, `wide_norm_scale`, `wide_rotary`, `joined_rotary_part`,
/// `moe->wide_weights`, `norm` and others that a row of families.cpp has.
/// A family that is not known has none of it.
void set_family_facts(ModelSpec& spec);

/// Families that `parse_config` knows, in alphabetical order.
[[nodiscard]] const std::vector<std::string>& known_families();
/// Samples that are built in, in alphabetical order.
[[nodiscard]] std::vector<std::string> sample_names();

}  // namespace ac_advisor::model
