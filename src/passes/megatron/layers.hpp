#pragma once

#include <initializer_list>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ac_advisor/model/spec.hpp"
#include "ac_advisor/model/step_config.hpp"
#include "ac_advisor/passes/step_program.hpp"
#include "passes/emission.hpp"

namespace ac_advisor::passes {

/// Writes the forward of one micro-batch as Megatron-core launches it (core_v0.16,
/// megatron/core/models/gpt, transformer, tensor_parallel), with its own layers ("local") or with
/// those of Transformer Engine (v2.9, transformer_engine/pytorch/module). Hidden states are
/// [sequence, batch, hidden]; with sequence parallelism each rank has its part of the sequence.
class MegatronLayers : private Emission {
 public:
  MegatronLayers(const model::ModelSpec& spec, const StepConfig& config, StepProgram& step);

  /// Parameters: what exists before the step, once for all micro-batches. Fills `step.model`.
  void declare();
  /// The forward of one micro-batch of one stage, and on the last one the loss.
  void forward();

 private:
  using Block = BlockValues;

  /// What a layer that is split over tensor-parallel ranks does with its input and output; an
  /// expert's leaves both to those that move tokens.
  enum class Split : std::uint8_t { columns, rows, none };

  // declare.cpp
  void declare_memory_buffer();
  V parameter(const ir::Shape& shape, ir::Module leaf, bool partial);
  LinearValues linear_parameters(std::int64_t in, std::int64_t out, bool bias, ir::Module leaf,
                                 Split split);
  void declare_norm(V& weight, V& bias, std::int64_t width, ir::Module leaf);
  void declare_block(std::int16_t index);

  // forward.cpp
  void get_batch();
  V embedding();
  V block(const Block& b, std::int16_t index, V x);
  V mlp(const Block& b, V wide);  ///< after its first product
  /// A norm, which may be one function with the product after it.
  struct NormOf {
    V weight, bias;
    ir::Module leaf;
  };
  V dense_mlp(const Block& b, V x, const NormOf& before);
  V sparse_mlp(const Block& b, V x, const NormOf& before);
  [[nodiscard]] ir::Module first_of_mlp() const {
    return spec_.plain_mlp ? ir::Module::up_proj : ir::Module::gate_up_proj;
  }
  V norm(V x, V weight, V bias, ir::Module leaf);
  V bias_dropout_add(V x, V bias, V residual);
  V activate(V x, V bias);

  // parts.cpp
  [[nodiscard]] bool recomputes(LayerPart part) const;
  [[nodiscard]] ir::OpId next_op() const { return static_cast<ir::OpId>(p_.ops.size()); }
  /// Ops from `begin` to here are recomputed by themselves, where the configuration names them.
  void checkpoint(LayerPart part, ir::OpId begin);
  /// What was written from `begin` to here, whose `outputs` are let go of later.
  [[nodiscard]] RecomputedPart written(ir::OpId begin, std::vector<V> outputs) const {
    return {begin, next_op(), ir::no_id, std::move(outputs), ir::no_id};
  }
  void let_go(LayerPart part, RecomputedPart of, V hook);

  // router.cpp
  /// What the router chose, of this rank's tokens.
  struct Routing {
    V weights{};  ///< [tokens, experts]
    V chosen{};   ///< [tokens, experts], booleans
  };
  Routing route(const Block& b, V x);
  V router_logits(V x, V weight);
  Routing by_sinkhorn(V logits);
  Routing by_top_k(V logits);
  V chosen_by_groups(V scores);
  Routing by_sigmoid(const Block& b, V logits);
  V with_aux_loss(V weights, V logits);
  V with_aux_loss_of_sigmoids(V weights, V logits);
  void count_loads(const Block& b, V chosen);
  Routing put_in_place(V probabilities, V indices, V logits);

  // dispatch.cpp
  void declare_experts(Block& b);
  V moe(const Block& b, V x);
  V by_all_gather(const Block& b, V x, const Routing& routing);
  V by_all_to_all(const Block& b, V x, const Routing& routing);
  /// Rows in the order of experts, and which of the input's they are.
  struct Permuted {
    V rows{}, weights{}, places{};
  };
  Permuted permute(V x, V weights, V chosen, std::int64_t rows, std::int64_t experts);
  V unpermute(V rows, V places, std::int64_t tokens);
  V exchange(ir::OpKind kind, V x, std::int64_t rows, bool buffered = false);
  V by_places(V x, V places, V y, std::int32_t launches);
  Permuted permute_fused(V x, V weights, V chosen, std::int64_t rows);
  V unpermute_fused(V rows, V places, std::int64_t tokens);
  V exchange_lists(ir::OpKind kind, V x, std::int64_t rows);
  V reordered(V x, V places = ir::no_id);
  V cast(V x, DType type);

  // experts.cpp
  V experts(const Block& b, V rows, V weights);
  V grouped_experts(const Block& b, V rows, V weights);
  V sequential_experts(const Block& b, V rows, V weights);
  V expert_mlp(const LinearValues& up, const LinearValues& down, V rows, V weights);
  V weighted_activation(V x, V weights);
  /// `keeps_input`: in 8 bits its columns are not saved but made of the input in backward
  /// (set_save_original_input).
  V grouped_linear(V x, const std::vector<LinearValues>& layers, bool keeps_input = false);

  // experts_float8.cpp
  [[nodiscard]] std::int64_t rows_in_fp8(std::int64_t rows) const;
  V padded(V x, std::int64_t rows);
  V filled_up(V x, std::int64_t rows);
  V first_rows(V x, std::int64_t rows);
  void declare_experts_in_fp8(Block& b);
  /// Operands of an expert's product each, [rows, in] by [out, in].
  struct Grouped {
    std::int64_t rows, in, out;
    std::vector<V> by_rows, columns, scales, weights;
    bool keeps_input;
  };
  [[nodiscard]] ir::Generated casts(std::int32_t experts) const;
  Grouped grouped_rows(V x, const std::vector<LinearValues>& layers, bool keeps_input);
  [[nodiscard]] ir::CompiledGraph grouped_backward(V x, const Grouped& n,
                                                   std::vector<V>& given) const;
  V grouped_linear_in_fp8(V x, const std::vector<LinearValues>& layers, bool keeps_input);

  // attention.cpp
  V attention(const Block& b, V x);         ///< and the norm before it
  V attention_of(const Block& b, V mixed);  ///< after its first product
  V rotated(V x);
  V rotated_by_parts(V x);
  V full_mask();
  V unfused_core(V q, V k, V v);
  /// Queries, keys and values; whether they are no views of the projection's output.
  struct Heads {
    V q{}, k{}, v{};
    bool own_q = false, own_k = false, own_v = false;
  };
  V by_sequence(V x, bool contiguous);
  Heads by_sequence(const Heads& heads);
  V by_token(V mixed, std::int64_t width);
  V fused_core(const Heads& heads);
  V scaled_softmax(V scores);

  // latent.cpp
  void declare_latent(Block& b);
  void declare_latent_angles();
  std::pair<V, V> split_at(V x, std::int64_t first);
  V gathered(V x);
  /// `up`: what is recomputed as mla_up_proj; `frame`: what the module's forward has names for.
  Heads latent_heads(const Block& b, V x, RecomputedPart& up, std::vector<V>& frame);
  V latent_attention(const Block& b, V x);

  // ring.cpp
  V ring_core(const Heads& heads);

  // float8.cpp
  /// A tensor in 8 bits by rows, and the other way round; the inverse of its scale.
  struct Eight {
    V inverse{}, rows{}, columns{};
  };
  struct Normed {
    V mean = ir::no_id, scale = ir::no_id;
    Eight eight;
  };
  [[nodiscard]] bool in_fp8() const;
  [[nodiscard]] bool delayed() const { return config_.precision.fp8 == Fp8Recipe::delayed; }
  V buffer(const ir::Shape& size, DType type, ir::Module leaf);
  void declare_in_fp8(LinearValues& l, ir::Module leaf);
  void declare_copies(LinearValues& l, ir::Module leaf);
  void declare_scales(std::int64_t products, ir::Module leaf);
  Eight make_eight(ir::Shape s, bool saved);
  Eight quantized(V x, bool saved);
  void cast_weight(const LinearValues& l);
  Normed norm_in_fp8(V x, V weight, V bias, bool turned);
  V linear_in_fp8(V x, const NormOf* norm, const LinearValues& l, V bias, Split split,
                  ir::Module leaf);
  V normed_linear(V x, const NormOf& norm, const LinearValues& l, V bias, ir::Module leaf);

  // weight_gradients.cpp
  void fuse(Parameter& parameter);
  V fused(V weight);
  /// What a product in backward writes its weight's gradient to, of what the function was given:
  /// the main gradient, and what stands for it; -1: a tensor of its own.
  struct GradientPlace {
    std::int32_t main = -1, stand_in = -1;
  };
  void find_fused();
  [[nodiscard]] GradientPlace gradient_place(std::vector<V>& given, V weight) const;
  [[nodiscard]] ir::CompiledGraph::Made of_weight(V weight, GradientPlace place) const;
  [[nodiscard]] std::int32_t result_of_weight(ir::CompiledGraph& g, std::int32_t gradient, V weight,
                                              GradientPlace place, std::int32_t made,
                                              ir::Module leaf) const;

  // linear.cpp
  V linear(V x, const LinearValues& l, Split split, ir::Module leaf);
  V linear(V x, V weight, V bias, Split split, ir::Module leaf);
  V scatter_to_sequence(V x);

  // loss.cpp
  void loss(V hidden);
  V vocab_parallel_cross_entropy(V logits, V labels);
  V fused_cross_entropy(V logits, V labels);

  // Emission.
  V bf16(const ir::Shape& shape) { return out(shape, dtype_, true); }
  V plain(const ir::Shape& shape, DType dtype) { return out(shape, dtype, false); }
  V in_place(ir::OpKind kind, V target, std::initializer_list<V> inputs,
             const ir::Attributes& attributes = {});
  [[nodiscard]] bool has_experts(std::int64_t block) const {
    return spec_.moe && spec_.sparse_block[static_cast<std::size_t>(block)];
  }
  /// Of this rank's residual stream.
  [[nodiscard]] std::int64_t own_tokens() const { return seq_ * batch_ / (sequence_ ? tp_ : 1); }
  [[nodiscard]] std::int64_t local_experts() const {
    return spec_.moe->experts / config_.layout.ep;
  }
  /// Rows of a first layer: gate and up are one.
  [[nodiscard]] std::int64_t up_width(std::int64_t wide) const {
    return spec_.plain_mlp ? wide : 2 * wide;
  }
  [[nodiscard]] std::int64_t part(std::int64_t whole) const { return whole / tp_; }
  [[nodiscard]] static ir::Shape with(ir::Shape shape, std::size_t dim, std::int64_t size) {
    shape.set(dim, size);
    return shape;
  }
  [[nodiscard]] std::int32_t ranks() const { return static_cast<std::int32_t>(tp_); }
  [[nodiscard]] bool engine() const {
    return config_.run.transformer_impl == TransformerImpl::transformer_engine;
  }
  /// Megatron-core's own layers gather into a buffer that stays.
  [[nodiscard]] bool gathers_into_buffer(ir::Module leaf) const {
    return !engine() || leaf == ir::Module::lm_head;
  }

  const model::ModelSpec& spec_;
  const StepConfig& config_;
  DType dtype_;
  std::int64_t tp_, batch_, seq_;
  bool sequence_;       ///< sequence parallelism
  std::int64_t words_;  ///< rows of this rank's part of the padded vocabulary
  double attention_dropout_;
  std::unordered_map<V, const Parameter*> fused_;  ///< weights whose products add their gradients
  V tokens_ = ir::no_id, labels_ = ir::no_id, positions_ = ir::no_id, mask_ = ir::no_id,
    loss_mask_ = ir::no_id;
};

}  // namespace ac_advisor::passes
