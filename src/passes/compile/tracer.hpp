#pragma once

#include <array>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "joint_graph.hpp"
#include "known_nodes.hpp"

namespace ac_advisor::passes::compile {

/// The shape with another last dimension.
[[nodiscard]] ir::Shape with_last(ir::Shape shape, std::int64_t size);

/// What autograd sees of a node: views of one tensor that are one node are several of these.
struct Tensor {
  NodeId node = -1;
  std::int32_t id = -1;
  bool requires_grad = false;
};

/// Traces a forward with its backward into a joint graph, as AOTAutograd does under Inductor's
/// decompositions (v2.11: torch/_decomp/decompositions.py, torch/_inductor/decomposition.py; the
/// order of gradients is that of tools/autograd/derivatives.yaml's formulas). A node that is there
/// already is not made again (fx_graph_cse).
class Tracer {
 public:
  Tensor placeholder(ir::ValueId value, const ir::Shape& shape, DType dtype, bool requires_grad,
                     bool parameter);
  /// In memory the dimensions 1 and 2 of that placeholder are the other way round.
  void swap(Tensor placeholder) { graph_.node(placeholder.node).swapped = true; }
  /// Of what follows, for launches and --ac.
  void set_module(ir::ModulePath module) { module_ = module; }
  /// The checkpoint that what follows is in; -1: none.
  void set_checkpoint(std::int32_t region) { region_ = region; }

  Tensor convert(Tensor x, DType dtype);
  Tensor pow(Tensor x, double exponent);
  Tensor mean(Tensor x);
  Tensor rsqrt(Tensor x);
  Tensor neg(Tensor x);
  Tensor relu(Tensor x);
  Tensor add_number(Tensor x, double number);
  Tensor mul_number(Tensor x, double number);
  Tensor div_number(Tensor x, double number);
  Tensor add(Tensor a, Tensor b);
  Tensor mul(Tensor a, Tensor b);
  Tensor cat(std::span<const Tensor> parts);
  Tensor silu(Tensor x);
  Tensor gelu_tanh(Tensor x);
  Tensor clone(Tensor x);
  Tensor view(Tensor x, const ir::Shape& shape);
  Tensor transpose(Tensor x);          ///< a matrix's
  Tensor heads_with_tokens(Tensor x);  ///< dimensions 1 and 2 of four
  Tensor unsqueeze(Tensor x, std::size_t dim);
  Tensor slice_last(Tensor x, std::int64_t start, std::int64_t size);
  std::vector<Tensor> split_last(Tensor x, std::int64_t size);
  /// `input_first`: the weight is [in, out], as GPT-2's Conv1D has it.
  Tensor linear(Tensor x, Tensor weight, const Tensor* bias, bool input_first, bool keep);
  /// `mask`: what is added to the scores; null: none.
  Tensor sdpa(Tensor q, Tensor k, Tensor v, const Tensor* mask, bool cudnn,
              const ir::Sdpa& attributes, bool keep);
  Tensor sdpa_efficient(Tensor q, Tensor k, Tensor v, Tensor mask, const ir::Sdpa& attributes,
                        bool keep);

  // Of blocks of other kinds (tracer_layers.cpp).
  Tensor layer_norm(Tensor x, Tensor weight, Tensor bias, double epsilon);
  Tensor sub(Tensor a, Tensor b);
  Tensor tanh(Tensor x);
  Tensor gelu(Tensor x);
  Tensor alias(Tensor x);
  Tensor every_second(Tensor x, std::int64_t start);
  Tensor interleaved(Tensor a, Tensor b);
  Tensor first_half_twice(Tensor x);
  Tensor of_positions(Target target, Tensor x);  ///< [1, S], which no gradient reaches
  Tensor dropout(Tensor x, double probability, std::int64_t draws);

  /// torch.nn.RMSNorm's one op.
  Tensor fused_rms_norm(Tensor x, Tensor weight, double epsilon);
  Tensor as_complex(Tensor x);                 ///< fp32, its last dimension as pairs
  Tensor complex_mul(Tensor x, Tensor table);  ///< of what as_complex made; fp32 once more

  // Of mixtures of experts (tracer_experts.cpp).
  Tensor flattened(Tensor x, const ir::Shape& shape);  ///< view(-1, …): a node of its own
  Tensor softmax(Tensor x);
  Tensor sigmoid(Tensor x);
  Tensor divided(Tensor a, Tensor b);
  Tensor row_sum(Tensor x, const ir::Shape& to);  ///< [..., 1], or without that dimension
  struct Best {
    Tensor values, places;
  };
  Best topk(Tensor x, std::int64_t k);
  Best sort(Tensor x);
  Tensor floor_divide(Tensor x, std::int64_t by);
  Tensor rows_at(Tensor x, Tensor places);  ///< x[places], of the first dimension
  Tensor gather(Tensor x, Tensor places);   ///< along the last dimension
  Tensor histc(Tensor x, std::int64_t bins);
  Tensor cumsum(Tensor x);
  /// Rows sorted by expert times each one's weight, [experts, out, in].
  Tensor grouped_product(Tensor rows, Tensor weight, Tensor offsets);
  Tensor empty(const ir::Shape& shape, DType dtype);
  Tensor placed(Tensor into, Tensor places, Tensor values);  ///< into[places] = values
  Tensor sum_of_experts(Tensor rows, std::int64_t experts);  ///< of each token, after another
  Tensor one_of(Tensor place, std::int64_t count);           ///< 1 there, 0 elsewhere
  Tensor expanded_groups(Tensor groups, std::int64_t experts);
  Tensor bitwise_not(Tensor x);
  Tensor masked_fill(Tensor x, Tensor mask, double number);

  // Of attention that is not one kernel (tracer_scores.cpp).
  Tensor turned(Tensor x);  ///< its last two dimensions
  Tensor matmul(Tensor a, Tensor b, bool keep);

  // Of DoRA's layers (tracer_dora.cpp).
  Tensor identity(std::int64_t size, DType dtype);
  Tensor norm_of_rows(Tensor x);  ///< of a matrix, in its dtype; no gradient passes it
  static Tensor detached(Tensor x) { return {x.node, x.id, false}; }

  // Of ranks that share layers (tracer_parallel.cpp).
  Tensor all_gather(Tensor x, std::int64_t ranks);
  Tensor reduce_scatter(Tensor x, std::int64_t ranks, bool keep);
  Tensor tokens_together(Tensor x, std::int64_t ranks);  ///< [R B, S / R, H] to [B, S, H]
  Tensor tokens_apart(Tensor x, std::int64_t ranks);     ///< and back
  Tensor wait(Tensor x);                                 ///< a collective's result that is given

  // Of ranks that share a sequence (tracer_ring.cpp).
  struct Ring {
    std::int64_t ranks = 1, rank = 0;
    double scale = 1;
    ir::SdpaKernel kernel{};
    bool cudnn = true;
    bool by_policy = false;  ///< TraceOptions::by_policy
  };
  Tensor ring_attention(Tensor q, Tensor k, Tensor v, const Ring& ring);
  /// Rows of a model's table, at positions of its tokens.
  Tensor rows_of_table(Tensor table, Tensor positions, const ir::Shape& shape, bool complex);

  // torchao's linear layers (tracer_float8.cpp).
  /// What ranks that share the layer reduce of its largest magnitudes.
  enum class Float8Sharing : std::uint8_t { none, of_inputs, of_outputs };
  struct Float8Layer {
    bool rowwise = false, keep = false, keep_amax = false;
    Float8Sharing sharing = Float8Sharing::none;
  };
  Tensor float8_linear(Tensor x, Tensor weight, const Tensor* scale, const Float8Layer& layer);
  Tensor float8_input(Tensor x, bool keep_amax);  ///< cast by a scale that ranks share
  Tensor float8_gradient(Tensor y);               ///< whose gradient is cast so
  /// What is free to save where weights are given in fp8; after all placeholders.
  void misplace_parameters(bool checkpointed);

  // bitsandbytes' layers (tracer_four_bits.cpp).
  /// [N, K] in 4 bits: codes, a scale a block; where those are in 8 bits, theirs and their offset.
  struct FourBitWeight {
    Tensor codes, scales, nested{}, offset{};
    bool nests = false;
    bool by_policy = false;  ///< TraceOptions::by_policy
  };
  Tensor four_bit_linear(Tensor x, const FourBitWeight& weight, const Tensor* bias,
                         std::int64_t width);

  // Of a graph of the whole model (tracer_model.cpp).
  Tensor embedding(Tensor weight, Tensor ids);
  Tensor iota(std::int64_t count);
  Tensor cos(Tensor x);
  Tensor sin(Tensor x);
  Tensor outer(Tensor column, Tensor row, const ir::Shape& shape);
  Tensor twice(Tensor x);  ///< beside itself along the last dimension
  Tensor causal_mask(Tensor positions, std::int64_t batch);  ///< [B, 1, S, S], boolean
  Tensor additive(Tensor mask, DType type, const ir::Shape& shape);
  Tensor repeat_heads(Tensor x, std::int64_t heads);
  Tensor cross_entropy(Tensor logits, Tensor labels);

  /// The graph of `outputs` and of the placeholders' gradients, without dead code.
  [[nodiscard]] JointGraph joint(std::span<const Tensor> outputs);
  [[nodiscard]] const ir::Shape& shape(Tensor t) const { return graph_.node(t.node).shape; }
  [[nodiscard]] DType dtype(Tensor t) const { return graph_.node(t.node).dtype; }

 private:
  using Rule = std::function<void(NodeId gradient)>;
  /// A tensor in fp8, and what it was multiplied by: one number, or one of each row or column.
  struct Float8Node {
    NodeId data = -1, scale = -1;
  };
  enum class Float8Scale : std::uint8_t { of_all, of_rows, of_columns };

  // Shapes by value, since a node's own moves when another is made; so what is an argument beside
  // one is made before the call.
  NodeId emit(Target target, NodeList inputs, ir::Shape shape, DType dtype, std::int64_t index = 0,
              double number = 0);
  NodeId like(Target target, NodeList inputs, NodeId of, double number = 0) {
    return emit(target, std::move(inputs), node(of).shape, node(of).dtype, 0, number);
  }
  [[nodiscard]] bool swapped(Target target, const NodeList& inputs, const ir::Shape& shape) const;
  [[nodiscard]] const Node& node(NodeId n) const { return graph_.node(n); }
  NodeId emit_new(Target target, NodeList inputs, ir::Shape shape, DType dtype);
  void keep_node(NodeId n);         ///< --ac selective has it
  void leave_checkpoint(NodeId n);  ///< which does not recompute it
  Tensor made(NodeId n, bool requires_grad, Rule rule);
  void give(Tensor to, NodeId gradient);
  NodeId view_node(NodeId x, ir::Shape shape);
  NodeId permute_node(NodeId x, bool heads);
  NodeId turned_node(NodeId x);
  NodeId folded_node(NodeId x, bool expanded);
  NodeId binary(Target target, NodeId a, NodeId b);
  NodeId summed_to(NodeId gradient, ir::Shape shape);
  /// A gradient in its tensor's shape and dtype (engine.cpp: validate_outputs).
  NodeId settled(Tensor to, NodeId gradient) {
    // A weight that was gathered in fp8 passes for one of its own dtype.
    if (dtype(to) == DType::f8 || node(gradient).dtype == DType::f8) return gradient;
    return convert_node(summed_to(gradient, shape(to)), dtype(to));
  }
  Float8Node float8_node(NodeId x, Float8Scale by, bool gradient, bool keep, bool shared);
  /// The scale of what was cast before ranks gathered it.
  [[nodiscard]] NodeId float8_scale_of(NodeId x) const { return float8_scales_.at(x); }
  NodeId float8_product(const Float8Node& a, const Float8Node& b, bool fast, bool keep);
  NodeId collective(Target target, NodeId x, const ir::Shape& shape, bool keep = false);
  struct Attended {
    NodeId out = -1, log_sum = -1, seed = -1, offset = -1;
  };
  NodeId chunk_node(NodeId x, std::int64_t which);
  NodeId contiguous_node(NodeId x);
  NodeId updated_chunk(NodeId whole, NodeId part, std::int64_t which, bool add);
  NodeId joined_flat(NodeId key, NodeId value);
  NodeId part_of_flat(NodeId flat, std::int64_t start, const ir::Shape& shape);
  Attended attend(NodeId q, NodeId k, NodeId v, const Ring& ring);
  NodeId added_in_place(NodeId flat, NodeId gk, NodeId gv);
  void merge(Attended& sum, const Attended& block, bool partial);
  std::array<NodeId, 3> attend_backward(NodeId g, NodeId q, const std::array<NodeId, 2>& kv,
                                        const Attended& of, const Ring& ring);
  std::array<NodeId, 3> ring_backward(NodeId g, NodeId q,
                                      const std::vector<std::array<NodeId, 2>>& seen,
                                      const Attended& whole, const Ring& ring);
  void keep_float8_scale(NodeId from, NodeId to);
  NodeId joined_parts(NodeId x, std::int64_t ranks, std::size_t from, std::size_t to);
  NodeId together_node(NodeId x, std::int64_t ranks);
  NodeId apart_node(NodeId x, std::int64_t ranks);
  NodeId turned_copy(NodeId x);
  NodeId row_sum_node(NodeId x);
  NodeId zeros_node(const ir::Shape& shape, DType dtype);
  NodeId slice_node(NodeId x, std::int64_t start, std::int64_t size);
  NodeId convert_node(NodeId x, DType dtype);
  NodeId widened_twice(NodeId x);

  JointGraph graph_;
  KnownNodes known_;
  struct Recorded {
    std::int32_t tensor;
    Rule rule;
    ir::ModulePath module;
  };
  std::vector<Recorded> tape_;
  std::vector<NodeId> pending_;  ///< by tensor: its gradient so far
  std::vector<Tensor> placeholders_;
  ir::ModulePath module_;
  std::int32_t region_ = -1;
  std::int64_t drawn_ = 0;  ///< random tensors so far
  std::map<NodeId, NodeId> float8_scales_;
  bool forward_ = true;
};

}  // namespace ac_advisor::passes::compile
