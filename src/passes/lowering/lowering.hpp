#pragma once

#include <array>
#include <functional>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "ac_advisor/model/layers.hpp"
#include "ac_advisor/model/spec.hpp"
#include "ac_advisor/model/step_config.hpp"
#include "ac_advisor/passes/step_program.hpp"
#include "passes/emission.hpp"

namespace ac_advisor::passes {

/// BitsAndBytesConfig's bnb_4bit_compute_dtype, as its users set it (the default is that of the
/// first input).
inline constexpr DType four_bit_compute = DType::bf16;
/// Elements of a head that flash attention's kernels take come in so many, and are so many at most.
inline constexpr std::int64_t flash_head_multiple = 8, widest_flash_head = 256;

/// Writes the forward of one micro-batch, op by op, as transformers' modelling code launches it
/// (v5.23, modeling_<family>.py). Methods are named after the module or function they lower; a
/// `hold` op stands where a Python local dies, if it outlives its last use.
class Lowering : private Emission {
 public:
  Lowering(const model::ModelSpec& spec, const StepConfig& config, StepProgram& step)
      : Lowering(spec, config, step, ir::Owner::policy) {}
  /// `owner`: whose forward it is; `config` is what is fed to that model.
  Lowering(const model::ModelSpec& spec, const StepConfig& config, StepProgram& step,
           ir::Owner owner)
      : Lowering(spec, config, step, owner,
                 owner == ir::Owner::policy ? step.model : step.reference) {}
  /// `model`: whose parameters it runs over.
  Lowering(const model::ModelSpec& spec, const StepConfig& config, StepProgram& step,
           ir::Owner owner, ModelValues& model)
      : Emission(step, model, owner),
        spec_(spec),
        config_(config),
        eager_attention_(
            config.run.attention == Attention::eager ||
            (config.run.attention == Attention::automatic && spec.eager_attention_only)),
        dropout_(config.run.dropout > 0.0 ? config.run.dropout : spec.attention_dropout),
        forms_(model::layer_forms(spec, config)),
        balances_(owner == ir::Owner::policy && !config.task.scores() &&
                  model::balances_experts(spec, config)),
        dtype_(config.precision.autocast ? config.precision.param_dtype
                                         : config.precision.compute_dtype) {}

  /// Parameters, inputs and buffers: what exists before the step, once for all micro-batches. Fills
  /// `step.model`.
  void declare();
  /// Of a task: what its collator gives beside tokens and labels, and the reference. Fills
  /// `step.reference`.
  void declare_task();
  /// The forward of one micro-batch of one stage, and on the last one the loss.
  void forward();

 private:
  using Linear = LinearValues;
  using Block = BlockValues;
  struct Rotary {
    V cos{}, sin{};
  };

  /// What a router makes, (tokens, top k) but for the logits.
  struct Routed {
    V logits{}, weights{}, experts{};
    std::vector<V> locals;  ///< what the MLP's frame holds of it beside these
  };

  // declare.cpp
  V parameter(const ir::Shape& shape, ir::Module leaf);
  V trained(const ir::Shape& shape, DType dtype, ir::Module leaf);
  V frozen(const ir::Shape& shape, DType dtype, ir::Module leaf);
  void quantized(Linear& l, ir::Module leaf);
  Linear linear_parameters(std::int64_t in, std::int64_t out, bool bias, ir::Module leaf);
  void declare_lora(Linear& l, ir::Module leaf);
  void declare_latent(Block& b);
  void declare_delta(Block& b);
  V router_parameter(const ir::Shape& shape);
  [[nodiscard]] bool casts_routers() const;
  void declare_inputs();
  void declare_row();
  void declare_frame_of_ring(const ir::Shape& part);
  V declare_frequencies();
  void declare_final_norm();
  void declare_value_head();
  void declare_head(std::int64_t words);
  void declare_block(std::int16_t index);

  // model.cpp
  void backbone();
  void loss();
  void next_token_loss();
  V as_leaf(V x);
  [[nodiscard]] bool hooks_patches() const;
  [[nodiscard]] DType frozen_dtype() const;
  V embedding();
  V position_embedding();
  V block_dropout(V x);
  V side_by_side(const Block& b, std::int16_t index, V x, const Rotary& rotary);
  Rotary rotary_embedding(V inv_freq);
  Rotary rotary_of_grids(V inv_freq);
  void measure_positions();
  V block(const Block& b, std::int16_t index, V x, const Rotary& rotary);
  V residual_add(V residual, V x);

  // linear.cpp
  V linear(V x, const Linear& l);
  V base_linear(V x, const Linear& l);
  V product_of_layer(V x, const Linear& l);
  V biased_in_place(V x, V weight, V bias, V y, const ir::Product& product);
  V low_rank(V x, const Linear& l);
  V adapted(V x, const Linear& l);
  V adapted_quantized(V x, const Linear& l);
  V nf4_linear(V x, const Linear& l);
  V int8_linear(V x, const Linear& l);
  [[nodiscard]] bool is_float8(const Linear& l) const;
  V float8_linear(V x, const Linear& l);
  V float8_linear_as_one(V x, const Linear& l, bool rowwise);
  V mx_linear(V x, const Linear& l);
  void gathered_in_fp8(Linear& l);

  // automodel.cpp
  [[nodiscard]] bool adapts_as_automodel() const;
  [[nodiscard]] bool fuses_adapted_mlp(const Block& b) const;
  V product_of_pair(V x, const Linear& l);
  V pair_function(V x, const Linear& l, V residual);
  V adapted_by_automodel(V x, const Linear& l);
  V summed_pair(V x, const Linear& l);
  V adapted_mlp_by_automodel(const Block& b, V x);

  // dora.cpp
  [[nodiscard]] bool drops_saved() const;
  V whole_weight(const Linear& l, DType type);
  std::array<V, 3> adapters_product(const Linear& l);
  V dora(V in, V base, const Linear& l);

  // adapter_layers.cpp
  void declare_adapter(Linear& l, ir::Module leaf);
  void declare_shared();
  V adapted_by_method(V x, const Linear& l);
  V ia3(V x, const Linear& l);
  V loha_weight(const Linear& l);
  V lokr_weight(const Linear& l);
  V by_weight(V x, const Linear& l);
  V vera(V x, const Linear& l);
  V miss(V x, const Linear& l);
  V glora(V x, const Linear& l);
  V delora(V x, const Linear& l);

  // adapter_rotations.cpp
  V oft(V x, const Linear& l);
  V block_rotations(V vectors, std::int64_t blocks, std::int64_t width, const Linear& l);
  V road(V x, const Linear& l);

  // adalora.cpp
  V adalora(V x, const Linear& l);
  void orthogonality();

  // prompt.cpp
  void declare_prompt();
  V with_prompt(V words);
  V looked_up(const ir::Shape& size);
  V with_tokens(V weight);
  void make_prefix();
  V after_prefix(V x, std::size_t place);

  // norm.cpp
  V rms_norm(V x, V weight, ir::Module leaf);
  V gemma_rms_norm(V x, V weight, ir::Module leaf);
  V nested_rms_norm(V x, V weight, ir::Module leaf);
  V divided_by_length(V x, ir::Module leaf);
  V layer_norm(V x, V weight, V bias, ir::Module leaf);
  V native_layer_norm(V x, V weight, V bias, double epsilon);
  V written_out_norm(V x, V weight, ir::Module leaf);
  V norm(V x, V weight, V bias, ir::Module leaf);

  // attention.cpp
  V attention(const Block& b, std::int16_t index, V x, const Rotary& rotary);
  std::array<V, 3> projected_heads(const Block& b, std::int16_t index, V x, const Rotary& rotary);
  std::pair<V, V> rotate(V q, V k, const Rotary& rotary);
  V joined_turn(V negated, V other, V x);
  V rotate_part(V x, const Rotary& rotary, std::vector<ir::OpId>& chain);
  std::pair<V, V> rotate_interleaved(V q, V k, const Rotary& rotary);
  std::pair<V, V> rotate_whole_interleaved(V q, V k, const Rotary& own);
  std::array<V, 3> fused_heads(V x, const Block& b);
  std::array<V, 3> split_in_three(V x);
  V by_head(V flat, std::int64_t n, std::int64_t width);
  V by_token(V flat, std::int64_t n, std::int64_t width);
  V scaled_by_position(V q);
  V tuned_queries(V q);
  std::array<V, 3> stacked_thirds(V qkv);
  [[nodiscard]] bool neither_flash_nor_cudnn(V q) const;
  [[nodiscard]] bool not_cudnn(V q, V v) const;
  [[nodiscard]] bool attends_by_products(V q, V k, V mask) const;
  [[nodiscard]] bool pads_heads(V q) const;
  V padded_heads(V x);
  V sdpa(V q, V k, V v, std::int64_t window);
  V attended(V q, V k, V v, V mask, ir::Sdpa attributes);
  void asks_for_documents();
  V inferred_starts();
  V flash_varlen(V q, V k, V v, std::int64_t window);
  V flash_of_package(V q, V k, V v, std::int64_t window);
  V eager_core(V q, V k, V v, V mask, V sinks);
  V sink_softmax(V scores, V sinks, std::vector<V>& locals);
  V repeat_kv(V x);
  V repeated_heads(V x);
  V heads_last(V x);
  V folded(V x);
  V unfolded(V product);
  V weighted(V weights, V value);

  // tower.cpp
  void declare_tower();
  V with_images(V text);
  V tower_embeddings();
  V tower_attention(const TowerLayerValues& l, V x);
  V tower_activation(V x);
  V tower_layer(const TowerLayerValues& l, V x);
  V tower_projection(V features);
  V image_mask(V features);
  void keep_saved(ir::OpId id, std::vector<V>& kept) const;
  void tower_region(ir::OpId first);

  // tower_parameters.cpp
  V tower_tensor(const ir::Shape& size, bool trained);
  Linear tower_linear(const char* name, std::int64_t in, std::int64_t out, bool trained);
  void declare_patches();
  MergerValues declare_merger(std::int64_t normed);

  // patches.cpp
  /// Of all images of a micro-batch, a patch a row; where tokens of a window, or of an image, end.
  struct PatchRows {
    std::int64_t rows = 0;
    std::vector<std::int64_t> images, windows;  ///< patches of each
    std::vector<V> locals;                      ///< of the encoder's forward
    V positions{};                              ///< (patches, 2)
    V image_ends = ir::no_id, window_ends = ir::no_id;
    V order = ir::no_id;                      ///< of merged patches, window by window
    V taps = ir::no_id, weights = ir::no_id;  ///< places in the learned table, and their weights
    Rotary rotary;
  };
  V images_of_any_size(V text);
  PatchRows patch_rows();
  void patch_positions(PatchRows& rows);
  V repeated_by(V x, V counts, std::int64_t total);
  void chunk_ends(PatchRows& rows);
  void interpolation(PatchRows& rows);
  std::pair<V, V> axis_taps(V index, V size);
  void patch_angles(PatchRows& rows);
  V in_order(V x, V order);
  V embedded_patches(PatchRows& rows);
  V patch_norm(V x, V weight, V bias);
  V patch_attention(const TowerLayerValues& l, V x, const PatchRows& rows, bool windowed);
  V patch_mlp(const TowerLayerValues& l, V x);
  V patch_layer(const TowerLayerValues& l, V x, const PatchRows& rows, bool windowed);
  V merged(const MergerValues& merger, V x, bool merged_first);

  // image_positions.cpp
  /// Positions are those of images' rows and columns, which are no text's that may be packed.
  [[nodiscard]] bool counts_grids() const {
    return config_.run.images > 0 && spec_.tower->run->any_size();
  }
  V grid_positions();
  V with_deep_features(V hidden, std::size_t layer);

  // scores.cpp
  V fp32_core(V q, V k, V v);
  V alibi_core(V q, V k, V v);
  V lower_triangle(DType type);
  V math_core(V q, V k, V v, V mask);
  V alibi_bias();
  V head_by_index(V from, const ir::Shape& size);
  std::array<V, 3> one_pair_heads(V qkv);
  std::array<V, 3> repeated_pairs(V qkv);
  void end_frame();

  // own_layers.cpp
  V torch_rms_norm(V x, V weight, ir::Module leaf);
  V own_norm(V x, V weight, ir::Module leaf);
  void declare_table();
  Rotary table_of_step(V table);
  [[nodiscard]] bool casts_tables() const;
  Rotary table_of_block();
  V repeated_by_token(V x);
  V mask_of_block(bool windowed);
  V capped_core(V q, V k, V v, bool windowed);
  V capped_hidden(V x);
  V rows_of_positions(V table);
  std::array<V, 3> heads_of_tokens(const Block& b, V x, const Rotary& table);
  V half_turned(V x, const Rotary& halves);
  Rotary cast_halves(V table, DType type);
  V turned_in_pairs(V x, V table);

  // experts_of_torchtitan.cpp
  void declare_padded_experts(Block& b);
  V counted_tokens(V experts);
  Routed corrected_softmax_router(const Block& b, V flat);
  std::pair<V, V> padded_places(V counts, std::int64_t padded);
  /// Rows for grouped products, where they are to be found, and how many each expert has.
  struct PaddedRows {
    V rows{}, places{}, sizes{};
  };
  PaddedRows padded_rows(V rows_of, V counts);
  V grouped_products(const Block& b, const PaddedRows& x);
  V unpadded_rows(V made, V places, ir::Shape like);
  V padded_experts(const Block& b, V rows_of, V counts);
  void keep_route(V places);
  std::pair<V, V> rows_by_rank(V rows_of, V counts);
  V padded_experts_of_ranks(const Block& b, V rows_of, V counts);
  V padded_moe(const Block& b, V x);

  // litgpt.cpp
  V litgpt_norm(V x, V weight, V bias, ir::Module leaf);
  V litgpt_rotated(V x, const Rotary& rotary, std::vector<V>& frame);
  V litgpt_attention(const Block& b, V x, const Rotary& rotary);
  V litgpt_mlp(const Block& b, V x);
  V litgpt_block(const Block& b, std::int16_t index, V x, const Rotary& rotary);
  void forward_litgpt();
  void carry_outputs(const std::vector<V>& made);

  // litgpt_linear.cpp
  /// How many of q, k and v (or 1) have rows of A, and how many rows of B there are.
  struct LitgptAdapter {
    std::int64_t inputs = 0, outputs = 0;
  };
  Linear litgpt_parameters(std::int64_t in, std::int64_t out, bool bias, ir::Module leaf,
                           const LitgptAdapter& adapter);
  void declare_litgpt();
  void declare_litgpt_embedding();
  V litgpt_linear(V x, const Linear& l);
  [[nodiscard]] std::vector<std::int64_t> adapted_widths_of_qkv() const;
  V pointwise_conv(V x, V weight, std::int64_t groups);
  V litgpt_qkv(V x, const Linear& l);

  // litgpt_loss.cpp
  std::vector<V> litgpt_logits();
  V without_last(V logits);
  void litgpt_loss(const std::vector<V>& logits);

  // rotation.cpp
  std::pair<V, V> split_at(V x, std::int64_t first);
  std::pair<V, V> rotate_halves_apart(V q, V k, const Rotary& rotary);
  V turned(V a, V b, const Rotary& rotary, V like);
  std::pair<V, V> rotate_pairs_apart(V q, V k, const Rotary& rotary);
  std::pair<V, V> rotate_complex(V q, V k, const Rotary& rotary);
  Rotary complex_table(V inv_freq);
  std::pair<V, V> rotate_by_table(V angles, V q, V k);

  // latent.cpp
  std::array<V, 3> latent_heads(const Block& b, V x, const Rotary& rotary);
  std::pair<V, V> expanded_keys(const Block& b, V latent, V rotated);

  // gated_attention.cpp
  std::array<V, 3> gated_heads(const Block& b, V x, const Rotary& rotary, V& gate);
  V gated_output(V merged, V gate);

  // delta_net.cpp
  /// A block's queries and keys (B, S, key heads, key_dim) or by_head, values by_head; in fp32 the
  /// logarithms of decay, and in the compute dtype the rates of writing, (B, S, value heads).
  struct DeltaInputs {
    V queries{}, keys{}, values{}, decay{}, rate{};
  };
  /// What a block's projections make: queries, keys and values side by side, (B, S, channels), and
  /// of each head of values gates and both rates. `until_mixed`: what the frame names until all are
  /// mixed; `frame`: to its end.
  struct DeltaParts {
    V mixed{}, gate{}, rate{}, decay{};
    std::vector<V> until_mixed = {}, frame = {};
  };
  V delta_net(const Block& b, V x);
  DeltaParts joint_parts(const Block& b, V x);
  DeltaParts parts_apart(const Block& b, V x);
  V by_channel(V x);
  V causal_conv(V x, V weight);
  V gated_norm(V x, V gate, V weight);

  // delta_rule.cpp
  /// What the chunks of a sequence have, one chunk beside the other: (B, heads, chunks, 64, …).
  struct DeltaChunks {
    V values{}, keys_of_state{}, queries{}, keys{}, attention{}, decay{};
  };
  V delta_rule(const DeltaInputs& in);
  DeltaChunks delta_chunks(const DeltaInputs& in, std::vector<V>& frame);
  V delta_scan(const DeltaChunks& c, std::vector<V>& frame);
  V unit_length(V x);
  V in_chunks(V x);
  V wide_heads(V x);
  V padded(V x, std::size_t dim);
  V chunk_of(V x, std::int64_t index);
  V product_of(V a, V b, const ir::Shape& size, ir::Form form);
  V decayed(V x, V by);

  // parallel.cpp
  V gathered(V x);
  V gathered_alike(V x);
  V adapted_in_parts(V x, const Linear& l);
  V adapter_by_rows(V x, const Linear& l);
  V input_in_fp8(V x);
  V gradient_in_fp8(V y);
  V scattered(V x);
  V summed(V x);
  V replicated(V x);
  void wait();
  V whole_vocabulary(V logits);
  V parallel_embedding();
  V scaled_sum(V x);
  V counted(V targets);
  V where_counted(V targets, V value);
  V vocab_parallel_loss(V logits, V labels);
  /// torchao's classes instead of PyTorch's, for one scale a tensor: TorchTitan's choice.
  [[nodiscard]] bool shares_in_fp8() const {
    return splits_sequence() && block_ >= 0 && config_.precision.fp8 == Fp8Recipe::tensorwise;
  }
  /// Norms and the residual stream are of a part of each sequence.
  [[nodiscard]] bool splits_sequence() const {
    return tp_ > 1 && !config_.layout.has_whole_tokens();
  }
  [[nodiscard]] std::int32_t ranks() const { return static_cast<std::int32_t>(tp_); }
  [[nodiscard]] std::int32_t tp_rank() const {
    return static_cast<std::int32_t>(config_.layout.tp_rank);
  }
  /// This rank's part of what is split over tensor-parallel ranks.
  [[nodiscard]] std::int64_t part(std::int64_t whole) const { return whole / tp_; }
  [[nodiscard]] std::int64_t heads() const { return part(spec_.heads); }
  [[nodiscard]] std::int64_t kv_heads() const { return part(spec_.kv_heads); }

  // context.cpp
  V ring_attention(V q, V k, V v, ir::Sdpa attributes);
  V contiguous(V x);

  // ulysses.cpp
  V moved(V x, const ir::Shape& size, ir::Moved what);
  V exchanged(V x, ir::Moved back);
  std::vector<V> gathered_list(V x, const ir::Shape& size);
  std::vector<V> gathered_positions();
  V whole_sequences(V x);
  V heads_first(V x);
  V whole_widths(V x);
  V ulysses_attention(V q, V k, V v);
  V weighted_loss(V loss, V labels);

  // mask.cpp
  V packed_sequence_check();
  [[nodiscard]] bool positions_jump() const;
  V of_tokens(V x, V batch, const ir::Shape& size);
  V allowed_positions(std::optional<std::int64_t> window, V packed);
  V within_chunk(V batch, V queries, V keys);
  V additive_mask(V allowed, DType type, const ir::Shape& size);
  [[nodiscard]] bool masks_window(std::int64_t window) const;
  [[nodiscard]] bool sdpa_makes_masks() const;
  [[nodiscard]] bool is_packed() const { return config_.run.packing > 0; }
  /// By the kernel for variable lengths, which is given where documents begin and needs no mask.
  [[nodiscard]] bool is_varlen() const {
    return is_packed() && config_.run.attention == Attention::flash;
  }
  /// flash_attention_2 of whole rows: what --attn flash is of soft-capped scores.
  [[nodiscard]] bool is_of_package() const {
    return model::caps_in_flash(spec_, config_) && !is_packed();
  }
  void causal_masks();

  // mlp.cpp
  V mlp(const Block& b, V x);
  V plain_mlp(const Block& b, V x);
  V gated_mlp(const Block& b, V x);
  V gelu_new(V x);
  V recomputed_gelu(V x);
  V moe(const Block& b, V x);
  Routed softmax_router(const Block& b, V flat);
  Routed sigmoid_router(const Block& b, V flat);
  Routed wide_softmax_router(const Block& b, V flat);
  Routed top_softmax_router(const Block& b, V flat);
  Routed wide_top_softmax_router(const Block& b, V flat);
  Routed narrow_sigmoid_router(const Block& b, V flat);
  Routed corrected_router(const Block& b, V flat);
  Routed fp32_softmax_router(const Block& b, V flat);
  Routed route(const Block& b, V flat);
  std::array<V, 3> corrected_choice(V scores, V choice);
  V sum_of_choices(V weights);
  Routed sparse_mixer(const Block& b, V flat);
  V every_expert(const Block& b, V x);
  V scattered_scores(const Block& b, V flat);
  std::pair<V, V> sampled_expert(V scores, V masked_scores, bool drawn_twice);
  V jittered(V x, ir::OpKind product);
  std::pair<V, V> best_experts(V scores);
  V sorted_experts(const Block& b, V rows_of, V experts, V weights,
                   std::initializer_list<V> callers);
  V expert_gate(V both);
  V clamped_gate(V both);
  V expert_product(V rows, V weight, V bias, V ids, V offsets, V& biases);
  V divided_in_place(V weights, V total);

  // expert_adapters.cpp
  /// What experts multiply by, and the factors of those that are adapted; all lives as long as the
  /// wrappers' forward.
  struct ExpertWeights {
    V gate_up{}, down{};
    std::array<V, 2> of_gate_up{ir::no_id, ir::no_id}, of_down{ir::no_id, ir::no_id};
    std::vector<V> held;
  };
  LowRankValues low_rank_of(V weight, std::int64_t fused, ir::Module leaf);
  std::array<V, 2> delta_factors(V weight, const LowRankValues& l);
  V folded(V weight, const std::array<V, 2>& factors);
  V read(V weight, const std::array<V, 2>& factors, std::vector<V>& held);
  ExpertWeights adapted_weights(const Block& b);
  V router_weight(const Block& b, std::vector<V>& held);
  std::pair<V, V> chunk(V x);
  V activate(V x, std::vector<ir::OpId>* chain);

  // balance.cpp
  struct Balance {
    V tokens{}, chances{}, rows = ir::no_id;
  };
  V balance_loss(bool masked);
  void count_tokens(Balance& of, V experts, V mask);
  void sum_chances(Balance& of, V chances, V mask);
  V with_balance(V loss, V balance);

  // dispatch.cpp
  [[nodiscard]] std::int64_t local_experts() const {
    return spec_.moe->experts / config_.layout.ep;
  }
  V all_to_all(V rows);
  V dispatched_experts(const Block& b, V flat, const Routed& routed);
  V local_ids(V received_counts, std::int64_t rows);
  void host_counts(V sent, V received);

  // loss.cpp
  void loss_ce();
  void loss_ce_compiled();
  [[nodiscard]] bool of_titan() const {
    return config_.run.transformer_impl == TransformerImpl::torchtitan;
  }
  V model_logits();
  V head_input(V hidden);
  V head_weight();
  V scaled_logits(V logits);
  V cross_entropy(V logits, V labels, ir::Reduction how = ir::Reduction::mean);
  V compiled_cross_entropy(V logits, V labels, ir::Reduction how);
  V compiled_vocab_parallel_loss(V logits, V labels);
  void emit_compiled_loss(std::vector<V> inputs, std::vector<std::int32_t> read, V loss);
  void loss_lc_ce();
  void loss_chunked();
  void loss_tiled();
  /// What TRL's fused LM head returns, (batch, tokens - 1) each: log-probabilities of the next
  /// tokens in fp32, what the trainer logs of each, which of them are scored; the model's own loss.
  struct Scored {
    V log_probs{}, mask{}, loss{};
    V entropy = ir::no_id, mean_logits = ir::no_id, likeliest = ir::no_id;
    V balance = ir::no_id;  ///< the routers' auxiliary loss
  };
  /// The figures of a token that a trainer asks for beside its log-probability.
  enum class Logged : std::uint8_t { nothing, entropy, means, accuracy, all };
  /// What the policy's own head is asked for, and a reference's.
  [[nodiscard]] Logged logged_by_head(bool of_reference) const;
  Scored fused_head(Logged asked);
  std::vector<V> logits_in_chunks();
  V loss_of_chunk(V logits, V labels);
  V counted_labels(V labels);
  V stacked_labels();
  void loss_chunked_logits();
  /// One a token: the log-sum-exp of its logits and their entropy, in fp32, and whether its target
  /// is the likeliest.
  struct TokenStatistics {
    V log_sum{}, entropy{}, mean_logits = ir::no_id, likeliest = ir::no_id;
  };
  V narrowed(V part, DType type);
  TokenStatistics token_statistics(V rows, V targets, DType type, Logged asked);
  V scattered(V rows, V mask);
  V whole_sum(V x, bool differentiable = false);
  void logged(V mask, V entropy, V likeliest);
  [[nodiscard]] bool by_trainer() const;
  void trainers_loss();
  void engines_loss();
  void widen_output();
  void loss_liger();

  /// Of a program that only scores: nothing has a gradient.
  void without_gradients(std::size_t first);
  void task_inputs();
  void task_loss();

  // preference.cpp
  [[nodiscard]] const model::ModelSpec& second_spec() const;
  void declare_waiting();
  void declare_beside_worker();
  V scored_labels();
  V sum_of_sequence(V log_probs);
  std::array<V, 2> halves(V of_pairs);
  V reference_log_probs(std::vector<V>& held);
  void apart(ir::Owner owner, const std::function<void(Lowering&)>& run);
  V log_probs_of(ir::Owner owner, V labels);
  V reference_forward();
  void score_by_reference();
  V mean_loss(V of_pairs);
  V sigmoid_loss_of_pairs(const std::array<V, 2>& policy, const std::array<V, 2>& reference,
                          std::vector<V>& held);
  void loss_dpo();

  // kto.cpp
  V mismatched_log_probs(ir::Owner owner);
  V loss_of_sides(V said, V reference, V mismatched, std::vector<V>& held);
  void loss_kto();

  // llamafactory.cpp
  /// One number a row: what its targets' log-probabilities add up to, and how many they are.
  struct RowSums {
    V total{}, count{};
  };
  struct Answers {
    V total{}, logits{};
  };
  void clone_batch();
  void drop_copies();
  RowSums row_sums(V logits);
  V wide_logits();
  void mean_to_host(V x);
  Answers answers_of(ir::Owner owner);
  V sigmoid_loss(V chosen, V rejected, const std::array<V, 2>& reference);
  void loss_of_pairs();
  std::array<V, 2> logits_by_answer(V logits);
  std::array<V, 2> reference_answers();
  void loss_of_answers();
  V unread_loss(V logits);
  V loss_without_reference(V chosen, V rejected);
  void loss_of_values();
  void loss_llamafactory();

  // ms_swift.cpp
  [[nodiscard]] bool by_swift() const;
  void keep_scored_rows();
  V log_sum_of_row(V logits);
  V chosen_logits(V logits, V targets);
  V log_probs_by_row(V logits, V targets);
  V totals_by_swift();
  V loss_of_pairs_by_swift(V said, V reference);
  void loss_by_swift();

  // trl_before_tiles.cpp
  /// Of each token, in fp32: the log-probability of its target, the entropy of its logits.
  struct TokenScores {
    V log_probs{}, entropy{};
  };
  /// What TRL 1.14 has of a forward: whole logits, and of each next token.
  struct WholeScores {
    V logits{}, balance = ir::no_id;
    TokenScores of_tokens;
  };
  [[nodiscard]] bool makes_whole_logits() const;
  WholeScores whole_scores();
  V whole_total_apart(ir::Owner owner, std::vector<V>& held);
  V sum_of_row(V log_probs);
  void mean_of_logits(V logits, std::int64_t tokens);
  void logged_entropy(const WholeScores& own);
  void logged_accuracy(V logits);
  void loss_dpo_of_logits();
  void loss_kto_of_logits();

  // reward.cpp
  void loss_reward();

  // grpo.cpp
  V last_tokens(V of_all);
  V logged_mean(V of_tokens);
  void least(V of_rows);
  void logged_clipping(V ratio, V entropy);
  void loss_grpo();
  [[nodiscard]] std::int64_t generation_bytes() const;

  // rloo.cpp
  void logged_ratio(V ratio, V entropy);
  void loss_rloo();

  // distillation.cpp
  /// A model's final states of the tokens that are compared, (N, its width), and its head.
  struct HeadOf {
    V rows{}, weight{};
  };
  /// A number a token in fp32, (N), each, and the tiles of logits; the student's first.
  struct Divergence {
    std::array<V, 2> most{};  ///< the largest logits
    std::array<V, 7> sums{};  ///< the last two of a beta below 1
    std::array<V, 2> buffers{};
    [[nodiscard]] V exponentials() const { return sums[0]; }
    [[nodiscard]] V products() const { return sums[1]; }  ///< of exponentials and logits
    [[nodiscard]] V teachers_exponentials() const { return sums[2]; }
    [[nodiscard]] V gaps() const { return sums[4]; }  ///< between logits, weighted
  };
  V teacher_states();
  V last_states(V hidden, std::int64_t width);
  V compared_rows(V states, V valid);
  [[nodiscard]] DType product_dtype(const HeadOf& of) const;
  Divergence divergence_of(std::int64_t tokens);
  V log_sum(V most, V exponentials, std::int64_t start, std::int64_t n);
  void fold_tiles(const std::array<HeadOf, 2>& heads, const std::array<V, 2>& rows,
                  const Divergence& d);
  V divergence(const std::array<HeadOf, 2>& heads);
  void loss_distillation();

  // verl.cpp
  void verl_inputs();
  V flash_cross_entropy(V logits, V labels, bool apart);
  V compiled_entropy(V logits);
  V of_completions(V values);
  V token_mean(V x);
  V policy_loss(V log_prob, V entropy);
  void loss_verl();
  ir::ValueId value_loss(V values);
  void loss_critic();

  // whole_log_probs.cpp
  TokenScores selected_log_probs(V logits, V targets);
  V returned_logits();
  V chosen_loss(V logits, V labels);
  V log_odds(V chosen, V rejected);
  void loss_of_logits();
  void end_chunks(V total, V flat, V grad_hidden, V grad_weight);
  V soft_cap(V logits, double cap);
  V divided_hidden();
  V shifted_labels(bool keep_padded);

  // Emission.
  V unary(ir::OpKind kind, V x, const ir::Attributes& attributes = {});
  V binary(ir::OpKind kind, V a, V b, const ir::Attributes& attributes = {});
  V cast(V x, DType dtype);
  V autocast(V x);
  void end_autocast();
  /// A view of what `how` selects.
  V sliced(V x, const ir::Shape& size, ir::Slice how);
  V slice_last(V x, std::int64_t size, std::int32_t start);
  [[nodiscard]] ir::OpId last_op() const { return static_cast<ir::OpId>(p_.ops.size()) - 1; }

  const model::ModelSpec& spec_;
  const StepConfig& config_;
  bool eager_attention_;
  double dropout_;
  model::LayerForms forms_;
  bool balances_;  ///< the forward is asked for its routers' logits, and the loss has their term

  /// Of parameters, and of what they and the embedding make outside of matrix products.
  DType dtype_;
  V tokens_ = ir::no_id;         ///< that a recipe of torchtune counts before its forward
  V labels_ = ir::no_id;         ///< with what a learned prompt puts before them
  std::vector<V> prompt_frame_;  ///< PEFT's own forward: its locals
  std::vector<V> cache_;         ///< keys and values of each block, with a learned prefix
  std::vector<std::pair<V, V>> cast_cache_;  ///< autocast: parameters and their casts

  /// What the fused head computed of each scored token: entropy, log-sum-exp, likeliest, mean.
  std::array<V, 4> held_of_head_{ir::no_id, ir::no_id, ir::no_id, ir::no_id};
  V last_block_{};
  V hidden_{}, padded_labels_ = ir::no_id, positions_{}, cache_position_ = ir::no_id;
  std::vector<V> frame_;  ///< what the frame of attention, or of the MLP, holds to its end
  V alibi_ = ir::no_id, alibi_slopes_ = ir::no_id;
  std::int64_t tp_ = config_.layout.tp;
  /// fp32, one a weight: torchao's precompute_float8_dynamic_scale_for_fsdp.
  V float8_scales_ = ir::no_id;
  std::int64_t float8_weights_ = 0;
  V in_flight_ = ir::no_id;        ///< what a reduce-scatter reads until its result is waited for
  bool before_step_ = false;       ///< it scores before the forward that is trained on
  std::vector<V> hidden_states_;   ///< what each block was given, where the output has it
  V given_ids_ = ir::no_id;        ///< of the batch, while a forward runs over a copy of it
  V mismatched_ = ir::no_id;       ///< of KTO: what answers to other prompts are by the policy
  std::vector<V> beside_decoder_;  ///< what holds of the images while the decoder runs
  V image_features_ = ir::no_id;   ///< which LLaVA's output has, too
  V image_mask_ = ir::no_id;
  std::vector<V> deep_features_;  ///< which a block each adds to its output's tokens of images
  V attention_weights_ = ir::no_id, full_mask_ = ir::no_id, window_mask_ = ir::no_id;
  V router_logits_ = ir::no_id;
  std::vector<V> recorded_logits_;  ///< of each block's router, for the auxiliary loss
  V share_of_balance_ = ir::no_id;  ///< that loss times its coefficient, which a Trainer adds
  V left_padding_ = ir::no_id;      ///< of each row, for chunks: zeros
};

}  // namespace ac_advisor::passes
