// A block's ops as torch.compile sees them: with the views that the program leaves out.
#include "trace_block.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>

#include "ac_advisor/ir/op_table.hpp"
#include "ac_advisor/model/class_facts.hpp"
#include "ac_advisor/model/layers.hpp"
#include "tokens.hpp"
#include "trace_experts.hpp"
#include "tracer.hpp"

namespace ac_advisor::passes::compile {
namespace {

using ir::no_id;
using ir::Op;
using ir::OpId;
using ir::OpKind;
using ir::Shape;
using ir::ValueId;

class Trace {
 public:
  Trace(const ir::Program& program, OpId first, OpId end, const TraceOptions& options)
      : p_(program), first_(first), end_(end), options_(options) {}

  JointGraph run(std::span<const ValueId> outputs) {
    for (OpId id = first_; id < end_; ++id)
      if (p_.op(id).kind == OpKind::masked_fill)
        masks_[p_.root(p_.input(p_.op(id), 0))] = p_.value(p_.output(p_.op(id), 0)).shape;
    for (OpId id = first_; id < end_; ++id)
      if (p_.op(id).kind != OpKind::hold)
        for (ValueId v : p_.inputs(p_.op(id))) declare(p_.root(v));
    tracer_.misplace_parameters(options_.checkpointed);
    tracer_.set_checkpoint(options_.checkpointed ? 0 : -1);
    wait_for_given();
    for (OpId id = first_; id < end_; ++id)
      if (p_.op(id).kind == OpKind::ring_attention) ring_ = id;
    for (OpId id = first_; id < end_; ++id) draws_ += p_.op(id).kind == OpKind::dropout ? 1 : 0;
    for (OpId id = first_; id < end_; ++id) {
      if (options_.by_region) tracer_.set_checkpoint(p_.op(id).region);
      if (!within_ring(id)) trace(id);
    }
    std::vector<Tensor> results;
    for (ValueId v : outputs) results.push_back(tracer_.view(of(v), p_.value(v).shape));
    JointGraph joint = tracer_.joint(results);
    if (options_.by_region) save_between_checkpoints(joint);
    mark_tokens(joint);
    return joint;
  }

  JointGraph run_model(ValueId logits, ValueId labels) {
    whole_ = true;
    std::vector<bool> needed(p_.values.size(), false);
    needed[static_cast<std::size_t>(p_.root(logits))] = true;
    std::vector<OpId> ops;
    for (OpId id = end_; id-- > first_;) {
      const Op& op = p_.op(id);
      const auto outputs = p_.outputs(op);
      if (op.kind == OpKind::hold || std::none_of(outputs.begin(), outputs.end(), [&](ValueId v) {
            return needed[static_cast<std::size_t>(p_.root(v))];
          }))
        continue;
      for (ValueId v : p_.inputs(op)) needed[static_cast<std::size_t>(p_.root(v))] = true;
      ops.push_back(id);
    }
    std::reverse(ops.begin(), ops.end());
    for (OpId id : ops)
      for (ValueId v : p_.inputs(p_.op(id))) declare(p_.root(v));
    declare(labels);
    for (OpId id : ops) {
      tracer_.set_checkpoint(p_.op(id).region);
      trace(id);
    }
    tracer_.set_checkpoint(-1);
    tracer_.set_module({-1, ir::Module::loss});
    const Tensor returned = of(logits);
    const Tensor results[] = {tracer_.cross_entropy(returned, of(labels)), returned};
    JointGraph joint = tracer_.joint(results);
    joint.returns_loss = true;
    save_between_checkpoints(joint);
    return joint;
  }

 private:
  /// partitioners.py: cleanup_recompute_tags
  static void save_between_checkpoints(JointGraph& graph) {
    for (NodeId n = 0; n < graph.size(); ++n) {
      Node& node = graph.node(n);
      if (!node.recomputed) continue;
      node.kept = std::any_of(node.users.begin(), node.users.end(), [&](NodeId user) {
        return graph.node(user).recomputed && graph.node(user).region > node.region;
      });
      if (node.kept) node.recomputed = false;
    }
  }

  [[nodiscard]] bool outside(ValueId v) const {
    const OpId producer = p_.value(v).producer;
    return producer == no_id || producer < first_;
  }

  /// The embedding of ranks that share it: what they reduced, nobody has waited for.
  void wait_for_given() {
    for (std::size_t v = 0; v < tensors_.size(); ++v) {
      const OpId producer = p_.values[v].producer;
      if (!tensors_[v] || producer == no_id) continue;
      if (p_.op(producer).kind == OpKind::tp_reduce_scatter)
        tensors_[v] = tracer_.wait(*tensors_[v]);
    }
  }

  void declare(ValueId v) {
    if (!outside(v) || known(v)) return;
    ir::Value value = p_.value(v);
    // A mask is given as it is for each sequence.
    if (const auto mask = masks_.find(v); mask != masks_.end()) value.shape = mask->second;
    const ir::Role role = p_.storage(value.storage).role;
    const bool parameter = role == ir::Role::parameter || role == ir::Role::gathered ||
                           (whole_ && role == ir::Role::buffer);
    const Tensor given =
        tracer_.placeholder(v, value.shape, value.dtype, value.requires_grad, parameter);
    if (value.permuted && value.shape.rank() == 4) tracer_.swap(given);
    set(v, given);
  }

  [[nodiscard]] bool known(ValueId v) const {
    return static_cast<std::size_t>(v) < tensors_.size() &&
           tensors_[static_cast<std::size_t>(v)].has_value();
  }
  void set(ValueId v, Tensor t) {
    if (static_cast<std::size_t>(v) >= tensors_.size()) tensors_.resize(p_.values.size());
    tensors_[static_cast<std::size_t>(v)] = t;
  }

  /// Whether a value is a part of [B, S, groups, …], as one projection makes queries, keys and
  /// values: tokens come before heads there.
  [[nodiscard]] bool of_groups(ValueId v) const {
    const OpId producer = p_.value(v).producer;
    if (producer == no_id) return false;
    const Op& op = p_.op(producer);
    return op.module.leaf == ir::Module::qkv_proj && p_.value(v).shape.rank() == 4 &&
           (op.kind == OpKind::slice || op.kind == OpKind::clone) && !p_.value(v).permuted;
  }

  /// A value's tensor in the shape that the program gives it; free views are made where they are
  /// first read.
  Tensor of(ValueId v) {
    if (known(v)) return with_heads_first(v);
    const ir::Value& value = p_.value(v);
    if (value.base == no_id) throw std::logic_error("a value of a block that nothing made");
    Tensor t = of(value.base);
    const OpId producer = p_.value(value.base).producer;
    if (producer != no_id && p_.op(producer).kind == OpKind::tp_all_gather) {  // of one sequence
      t = tracer_.tokens_together(t, ir::attributes<ir::TpGather>(p_.op(producer)).ranks);
      set(v, t);
      return t;
    }
    if (value.narrow_dim >= 0)
      t = tracer_.slice_last(t, value.narrow_start, value.shape.back());
    else if (value.permuted && value.shape.rank() == 4 && of_groups(value.base))
      t = tracer_.heads_with_tokens(t);  // a part of each group's heads
    else if (p_.value(value.base).shape.rank() == 4 && value.shape.rank() == 3 &&
             !of_groups(value.base))
      t = tracer_.view(tracer_.heads_with_tokens(t), value.shape);  // heads merged
    else if (value.shape.rank() == 2 && tracer_.shape(t).rank() == 1 && value.shape.back() == 1)
      t = tracer_.unsqueeze(t, 1);  // a weight a row
    else
      t = tracer_.view(t, value.shape);
    set(v, t);
    return t;
  }

  /// A head's norm reads projections as [B, S, heads, D]; what comes after has them transposed.
  Tensor with_heads_first(ValueId v) {
    const Tensor t = *tensors_[static_cast<std::size_t>(v)];
    if (in_norm_ || tokens_first_.erase(v) == 0) return t;
    const Tensor moved = tracer_.heads_with_tokens(t);
    set(v, moved);
    return moved;
  }

  /// Of what sees a projection's heads as they are projected, tokens before them.
  [[nodiscard]] bool before_transposition(ir::Module leaf) const {
    return leaf == ir::Module::q_norm || leaf == ir::Module::k_norm ||
           (options_.turns_by_token && leaf == ir::Module::rope);
  }
  [[nodiscard]] bool read_before_transposition(OpId id, ValueId v) const {
    for (OpId next = id + 1; next < end_; ++next) {
      const Op& op = p_.op(next);
      if (op.kind == OpKind::hold) continue;
      const auto in = p_.inputs(op);
      if (std::find(in.begin(), in.end(), v) != in.end())
        return before_transposition(op.module.leaf);
    }
    return false;
  }

  void trace(OpId id) {
    const Op& op = p_.op(id);
    if (op.kind == OpKind::hold) return;
    tracer_.set_module(op.module);
    in_norm_ = !options_.norms_of_heads && before_transposition(op.module.leaf);
    if (op.kind == OpKind::split) return split(op);
    if (of_parallel_layers(op)) return;
    if (trace_experts(tracer_, p_, op, values_)) return;
    const ValueId result = p_.output(op, 0);
    // A dropout's mask, which is made with its numbers.
    if (op.kind == OpKind::empty && p_.value(result).dtype == DType::u8) return;
    if (op.kind == OpKind::sdpa) return set(result, attention(op));
    if (op.kind == OpKind::ring_attention) return set(result, ring(op));
    if (op.kind == OpKind::bmm) return set(result, product_of_heads(op));
    if (op.kind == OpKind::float8_linear) return set(result, float8_linear(op));
    if (op.kind == OpKind::mm_quantized) return set(result, four_bit_linear(op));
    if (within_product(op)) return;
    if (!whole_ && op.kind == OpKind::fill) return;  // a mask's two numbers
    if (op.kind == OpKind::eye)
      return set(result, tracer_.identity(p_.value(result).shape[0], p_.value(result).dtype));
    if (op.kind == OpKind::vector_norm)
      return set(result, tracer_.norm_of_rows(of(p_.input(op, 0))));
    if (op.kind == OpKind::masked_fill)
      return set(result, tracer_.additive(of(p_.input(op, 0)), p_.value(result).dtype,
                                          p_.value(result).shape));
    // Keys and values of each query's head: expanded, and copied.
    if (op.kind == OpKind::expand || (op.kind == OpKind::clone && copied_for_product(op)))
      return set(result, of(p_.input(op, 0)));
    if (op.kind == OpKind::clone && p_.value(result).shape.rank() == 5) {
      const Shape wide = p_.value(result).shape;
      return set(result, tracer_.repeat_heads(of(p_.input(op, 0)), wide[1] * wide[2]));
    }
    if (whole_ && op.kind == OpKind::arange) return make_positions(op, result);
    if (op.kind == OpKind::view && p_.value(result).shape.rank() == 2)
      return set(result, tracer_.flattened(of(p_.input(op, 0)), p_.value(result).shape));
    if (op.kind == OpKind::view &&
        p_.value(result).shape.rank() == 3)  // thirds, moved to the front
      return set(result, tracer_.alias(of(p_.input(op, 0))));
    if (op.kind == OpKind::view && !p_.value(result).permuted)  // a group's queries, key and value
      return set(result, tracer_.view(of(p_.input(op, 0)), p_.value(result).shape));
    if (op.kind == OpKind::view) {
      const Tensor x = by_head(op);
      set(result, x);
      tokens_first_.insert(result);
      in_norm_ = !options_.norms_of_heads && read_before_transposition(id, result);
      if (!in_norm_) (void)with_heads_first(result);
      return;
    }
    set(result, pointwise_or_product(op));
    if (in_norm_) tokens_first_.insert(result);
    // The transposition that follows a head's norm comes right after it.
    if (in_norm_ && !read_before_transposition(id, result)) {
      in_norm_ = false;
      (void)with_heads_first(result);
    }
  }

  /// What ranks that share layers send each other: whether the op is of that.
  bool of_parallel_layers(const Op& op) {
    const auto result = [&] { return p_.output(op, 0); };
    switch (op.kind) {
      case OpKind::tp_all_gather:
        set(result(),
            tracer_.all_gather(of(p_.input(op, 0)), ir::attributes<ir::TpGather>(op).ranks));
        return true;
      case OpKind::tp_reduce_scatter:
        set(result(), tracer_.reduce_scatter(of(p_.input(op, 0)),
                                             ir::attributes<ir::TpScatter>(op).ranks, op.kept));
        return true;
      case OpKind::clone: {
        const auto* moved = std::get_if<ir::Rearrange>(&op.attributes);
        if (moved == nullptr) return false;
        const bool together = moved->what == ir::Moved::tokens_together;
        if (!together && moved->what != ir::Moved::tokens_apart) return false;
        const Tensor x = of(p_.input(op, 0));
        set(result(), together ? tracer_.tokens_together(x, moved->ranks)
                               : tracer_.tokens_apart(x, moved->ranks));
        return true;
      }
      default:
        return false;
    }
  }

  /// (B, S, n, D) of a flat projection.
  Tensor by_head(const Op& op) {
    const Shape s = p_.value(p_.output(op, 0)).shape;
    return tracer_.view(of(p_.input(op, 0)), {s[0], s[2], s[1], s[3]});
  }

  void split(const Op& op) {
    const auto parts =
        tracer_.split_last(of(p_.input(op, 0)), p_.value(p_.output(op, 0)).shape.back());
    for (std::size_t i = 0; i < parts.size(); ++i) set(p_.output(op, i), parts[i]);
  }

  Tensor attention(const Op& op) {
    const Tensor q = of(p_.input(op, 0)), k = of(p_.input(op, 1)), v = of(p_.input(op, 2));
    const ir::Sdpa& attributes = ir::attributes<ir::Sdpa>(op);
    if (!whole_) {
      const bool masked = p_.inputs(op).size() > 3;
      const Tensor mask = masked ? of(p_.input(op, 3)) : Tensor{};
      if (attributes.kernel == ir::SdpaKernel::efficient)
        return tracer_.sdpa_efficient(q, k, v, mask, attributes, op.kept);
      return tracer_.sdpa(q, k, v, masked ? &mask : nullptr, options_.cudnn, attributes, op.kept);
    }
    // transformers' sdpa_attention_forward: with a mask keys and values are repeated.
    const std::int64_t heads = tracer_.shape(q)[1];
    const Tensor keys = tracer_.repeat_heads(k, heads), values = tracer_.repeat_heads(v, heads),
                 added = tracer_.additive(*mask_, tracer_.dtype(q), tracer_.shape(*mask_));
    return tracer_.sdpa(q, keys, values, &added, options_.cudnn, attributes, op.kept);
  }

  /// Of what lowering has written of the ring that is traced whole.
  [[nodiscard]] bool within_ring(OpId id) const {
    return ring_ != no_id && id < ring_ &&
           id >= ring_ - ir::attributes<ir::RingAttention>(p_.op(ring_)).ops;
  }
  Tensor ring(const Op& op) {
    const auto& how = ir::attributes<ir::RingAttention>(op);
    const Tensor q = of(p_.input(op, 0)), k = of(p_.input(op, 1)), v = of(p_.input(op, 2));
    return tracer_.ring_attention(
        q, k, v, {how.ranks, how.rank, how.scale, how.kernel, options_.cudnn, options_.by_policy});
  }
  /// Whether rows of a table are complex numbers.
  [[nodiscard]] bool multiplied(ValueId rows) const {
    return std::any_of(p_.ops.begin() + first_, p_.ops.begin() + end_, [&](const Op& op) {
      return op.kind == OpKind::complex_mul && p_.root(p_.input(op, 1)) == p_.root(rows);
    });
  }
  Tensor rows_of_table(const Op& op) {
    const ValueId rows = p_.output(op, 0);
    const Tensor table = of(p_.root(p_.input(op, 0))), positions = of(p_.input(op, 1));
    return tracer_.rows_of_table(table, positions, p_.value(rows).shape, multiplied(rows));
  }

  /// arange, from which transformers makes the mask before the tables of angles.
  void make_positions(const Op& op, ValueId result) {
    const Tensor positions = tracer_.iota(p_.value(result).shape[0]);
    set(result, positions);
    if (op.module.leaf == ir::Module::root)
      mask_ = tracer_.causal_mask(tracer_.add_number(positions, 0), batch_);
  }

  Tensor product(const Op& op) {
    const bool biased = op.kind == OpKind::addmm;
    const std::size_t at = biased ? 1 : 0;
    const Tensor x = of(p_.input(op, at)), w = of(p_.input(op, at + 1));
    const bool input_first = ir::attributes<ir::Product>(op).form == ir::Form::nn;
    if (!biased) return tracer_.linear(x, w, nullptr, input_first, op.kept);
    const Tensor bias = of(p_.input(op, 0));
    return tracer_.linear(x, w, &bias, input_first, op.kept);
  }

  /// Scores, keys turned, or values by their weights.
  Tensor product_of_heads(const Op& op) {
    const Tensor a = of(p_.input(op, 0)), b = of(p_.input(op, 1));
    const bool turns = ir::attributes<ir::Product>(op).form == ir::Form::nt;
    return tracer_.matmul(a, turns ? tracer_.turned(b) : b, op.kept);
  }
  /// What torch.matmul copies, as a product of heads traces for itself.
  [[nodiscard]] bool copied_for_product(const Op& op) const {
    const ValueId copy = p_.output(op, 0);
    for (auto id = static_cast<OpId>(&op - p_.ops.data()) + 1; id < end_; ++id) {
      const auto in = p_.inputs(p_.op(id));
      if (p_.op(id).kind == OpKind::bmm && std::find(in.begin(), in.end(), copy) != in.end())
        return true;
    }
    return false;
  }

  Tensor float8_linear(const Op& op) {
    const Tensor x = of(p_.input(op, 0));
    if (op.inputs == 1)  // before ranks gather it, or its gradient
      return p_.value(p_.output(op, 0)).dtype == DType::f8
                 ? tracer_.float8_input(x, options_.by_policy)
                 : tracer_.float8_gradient(x);
    const Tensor w = of(p_.input(op, 1));
    const bool gathered = op.inputs > 2;
    const Tensor scale = gathered ? of(p_.input(op, 2)) : Tensor{};
    using Sharing = Tracer::Float8Sharing;
    const Tracer::Float8Layer layer{ir::attributes<ir::Float8>(op).rowwise, op.kept,
                                    options_.by_policy,
                                    !options_.shared_layers               ? Sharing::none
                                    : ir::split_by_inputs(op.module.leaf) ? Sharing::of_inputs
                                                                          : Sharing::of_outputs};
    return tracer_.float8_linear(x, w, gathered ? &scale : nullptr, layer);
  }

  /// Of what bitsandbytes' op makes for itself of a weight: whether the op is of that.
  bool within_product(const Op& op) {
    const bool of_one = op.inputs > 0 && dequantized_.contains(p_.input(op, 0));
    if (op.kind != OpKind::dequantize && !of_one) return false;
    dequantized_.insert(p_.output(op, 0));
    return true;
  }

  Tensor four_bit_linear(const Op& op) {
    // x, the weight that it makes, codes, scales; of scales in 8 bits theirs and the offset; bias
    const auto& how = ir::attributes<ir::QuantizedProduct>(op);
    const Tensor x = of(p_.input(op, 0));
    Tracer::FourBitWeight weight{of(p_.input(op, 2)), of(p_.input(op, 3))};
    weight.nests = how.of.nested;
    weight.by_policy = options_.by_policy;
    if (weight.nests) weight.nested = of(p_.input(op, 4)), weight.offset = of(p_.input(op, 5));
    const Tensor bias = how.biased ? of(p_.input(op, op.inputs - 1)) : Tensor{};
    return tracer_.four_bit_linear(x, weight, how.biased ? &bias : nullptr,
                                   p_.value(p_.output(op, 0)).shape.back());
  }

  Tensor layer_norm(const Op& op) {
    const ValueId given = p_.input(op, 0);
    Tensor x = of(given);
    if (options_.flat_mlp && op.module.leaf == ir::Module::norm2) {
      const Shape wide = tracer_.shape(x);
      x = tracer_.view(x, {wide.numel() / wide.back(), wide.back()});
      set(given, x);  // what it is added to, too
    }
    const Tensor weight = of(p_.input(op, 1)), bias = of(p_.input(op, 2));
    return tracer_.layer_norm(x, weight, bias, ir::attributes<ir::LayerNorm>(op).epsilon);
  }

  /// A part of the last dimension. What is left of a head that is rotated whole is empty.
  Tensor slice(const Op& op) {
    const ValueId given = p_.input(op, 0);
    const Tensor x = of(given);
    const std::int64_t size = p_.value(p_.output(op, 0)).shape.back(),
                       start = ir::attributes<ir::Slice>(op).start;
    if (size == 0) {
      set(given, tracer_.alias(x));
      return tracer_.slice_last(x, start, 0);
    }
    const bool halves = options_.neighbours && op.module.leaf == ir::Module::rope &&
                        2 * size == tracer_.shape(x).back() && joined_as_pairs(op);
    return halves ? tracer_.every_second(x, start > 0 ? 1 : 0) : tracer_.slice_last(x, start, size);
  }
  /// Whether a half becomes a column of pairs, by itself or negated.
  [[nodiscard]] bool joined_as_pairs(const Op& op) const {
    ValueId half = p_.output(op, 0);
    const auto first = static_cast<OpId>(&op - p_.ops.data()) + 1;
    for (OpId id = first; id < end_; ++id) {
      const Op& next = p_.op(id);
      if (next.kind == OpKind::hold) continue;
      for (ValueId v : p_.inputs(next)) {
        if (p_.root(v) != p_.root(half) && v != half) continue;
        if (next.kind == OpKind::cat) return p_.value(p_.output(next, 0)).shape.rank() == 5;
        if (next.kind == OpKind::neg) half = p_.output(next, 0);
      }
    }
    return false;
  }

  Tensor cat(const Op& op) {
    std::vector<Tensor> parts;
    if (p_.value(p_.output(op, 0)).shape.rank() == 5) {  // columns of pairs, as halves are
      for (ValueId v : p_.inputs(op)) parts.push_back(of(p_.value(v).base));
      return tracer_.interleaved(parts[0], parts[1]);
    }
    for (ValueId v : p_.inputs(op)) parts.push_back(of(v));
    if (op.module.leaf == ir::Module::rotary) return tracer_.twice(parts[0]);
    return tracer_.cat(parts);
  }

  /// cos and sin, [B, S, D], as they meet heads.
  Tensor beside(Tensor t, Tensor other) {
    const bool table = tracer_.shape(t).rank() == 3 && tracer_.shape(other).rank() == 4;
    if (!table || (in_norm_ && !options_.turns_by_token)) return t;
    return tracer_.unsqueeze(t, options_.turns_by_token ? 2 : 1);
  }

  /// Whether what is cast is turned next, as complex numbers.
  [[nodiscard]] bool multiplied_as_complex(const Op& cast) const {
    const ValueId wide = p_.output(cast, 0);
    for (auto id = static_cast<OpId>(&cast - p_.ops.data()) + 1; id < end_; ++id)
      if (p_.op(id).kind == OpKind::complex_mul && p_.input(p_.op(id), 0) == wide) return true;
    return false;
  }

  Tensor pointwise_or_product(const Op& op) {
    const auto in = [&](std::size_t i) { return of(p_.input(op, i)); };
    const auto number = [&] { return ir::attributes<ir::Number>(op).value; };
    switch (op.kind) {
      case OpKind::cast: {
        Tensor x = in(0);  // positions are a column beside the frequencies
        if (whole_ && op.module.leaf == ir::Module::rotary && tracer_.shape(x).rank() == 1)
          x = tracer_.unsqueeze(tracer_.unsqueeze(x, 0), 2);
        if (!whole_ && op.module.leaf == ir::Module::attention && tracer_.shape(x).rank() == 2 &&
            !x.requires_grad)  // a scale of each query
          x = tracer_.unsqueeze(tracer_.unsqueeze(x, 1), 3);
        x = tracer_.convert(x, p_.value(p_.output(op, 0)).dtype);
        return multiplied_as_complex(op) ? tracer_.as_complex(x) : x;
      }
      case OpKind::index:
      case OpKind::gather:
        return rows_of_table(op);
      case OpKind::complex_mul: {
        const Tensor x = in(0), table = in(1);
        return tracer_.complex_mul(x, table);
      }
      case OpKind::fused_rms_norm: {
        const Tensor x = in(0), weight = in(1);
        return tracer_.fused_rms_norm(x, weight, ir::attributes<ir::RmsNorm>(op).epsilon);
      }
      case OpKind::pow:
        return tracer_.pow(in(0), ir::attributes<ir::Power>(op).exponent);
      case OpKind::mean:
        return tracer_.mean(in(0));
      case OpKind::rsqrt:
        return tracer_.rsqrt(in(0));
      case OpKind::neg:
        return tracer_.neg(in(0));
      case OpKind::relu:
        return tracer_.relu(in(0));
      case OpKind::silu:
        return tracer_.silu(in(0));
      case OpKind::gelu_tanh:
        return tracer_.gelu_tanh(in(0));
      case OpKind::add_scalar:
        return tracer_.add_number(in(0), number());
      case OpKind::mul_scalar:
        return tracer_.mul_number(in(0), number());
      case OpKind::sigmoid:  // a gate's
        return tracer_.sigmoid(in(0));
      case OpKind::gelu:
        return tracer_.gelu(in(0));
      case OpKind::tanh:
        return tracer_.tanh(in(0));
      case OpKind::softmax:
        return tracer_.softmax(in(0));
      case OpKind::layer_norm:
        return layer_norm(op);
      case OpKind::dropout:
        return tracer_.dropout(in(0), ir::attributes<ir::Dropout>(op).probability, draws_);
      case OpKind::clone:
        if (options_.neighbours && op.module.leaf == ir::Module::rope)
          return tracer_.first_half_twice(tracer_.unsqueeze(in(0), 1));
        // transpose(1, 2).contiguous() is written where heads are merged.
        if (op.module.leaf == ir::Module::attention_core) return tracer_.alias(in(0));
        return tracer_.clone(in(0));
      case OpKind::slice:
        return slice(op);
      case OpKind::add: {
        const Tensor a = in(0), b = in(1);
        const ir::Add& how = ir::attributes<ir::Add>(op);
        if (how.transposed) return tracer_.add(a, tracer_.detached(tracer_.transpose(b)));
        return how.alpha < 0 ? tracer_.sub(a, b) : tracer_.add(a, b);
      }
      case OpKind::embedding: {
        const Tensor weight = in(0), ids = in(1);
        batch_ = tracer_.shape(ids)[0];
        return tracer_.embedding(weight, ids);
      }
      case OpKind::div:
        if (op.inputs > 1) {
          const Tensor a = in(0), b = in(1);
          return tracer_.divided(a, b);
        }
        if (in(0).requires_grad) return tracer_.div_number(in(0), number());
        return tracer_.of_positions(Target::div, in(0));
      case OpKind::floor:
        return tracer_.of_positions(Target::floor, in(0));
      case OpKind::log:
        return tracer_.of_positions(Target::log, in(0));
      case OpKind::cos:
        return tracer_.cos(in(0));
      case OpKind::sin:
        return tracer_.sin(in(0));
      case OpKind::mul: {
        const Tensor a = in(0), b = in(1);
        if (op.module.leaf == ir::Module::rotary)
          return tracer_.outer(a, b, p_.value(p_.output(op, 0)).shape);
        return tracer_.mul(beside(a, b), beside(b, a));
      }
      case OpKind::cat:
        return cat(op);
      case OpKind::mm:
      case OpKind::addmm:
        return product(op);
      default:
        throw std::logic_error(std::string("--kernels compiled does not trace ") +
                               ir::row(op.kind).name);
    }
  }

  const ir::Program& p_;
  OpId first_, end_;
  TraceOptions options_;
  Tracer tracer_;
  TracedValues values_{[this](ValueId v) { return of(v); },
                       [this](ValueId v, Tensor t) { set(v, t); }};
  std::vector<std::optional<Tensor>> tensors_;
  std::set<ValueId> dequantized_;   ///< within a product of bitsandbytes'
  std::set<ValueId> tokens_first_;  ///< so far [B, S, heads, D], which the program has heads first
  bool in_norm_ = false;
  OpId ring_ = no_id;               ///< the block's attention, where ranks share its sequence
  std::int64_t draws_ = 0;          ///< random tensors of the block
  std::map<ValueId, Shape> masks_;  ///< that are given: as attention is
  bool whole_ = false;              ///< the model, not one of its blocks
  std::int64_t batch_ = 0;          ///< sequences
  std::optional<Tensor> mask_;      ///< the whole model's, boolean
};

}  // namespace

TraceOptions trace_options(const model::ModelSpec& spec, const StepConfig& config) {
  TraceOptions options;
  options.turns_by_token = model::layer_forms(spec, config).keeps_table();
  options.neighbours = spec.interleaved_rotary;
  const bool after_rotation = model::class_facts(spec.family).norms_after_rotation;
  const bool after_heads = spec.norms_after_heads && spec.post_norms_only;  // exaone4's
  options.norms_of_heads = spec.qk_norm && (spec.unit_offset_norm || after_rotation || after_heads);
  options.flat_mlp = spec.flat_mlp;
  return options;
}

JointGraph trace_block(const ir::Program& program, OpId first, OpId end,
                       std::span<const ValueId> outputs, const TraceOptions& options) {
  return Trace(program, first, end, options).run(outputs);
}

JointGraph trace_model(const ir::Program& program, OpId first, OpId end, ValueId logits,
                       ValueId labels, const TraceOptions& options) {
  return Trace(program, first, end, options).run_model(logits, labels);
}

}  // namespace ac_advisor::passes::compile
