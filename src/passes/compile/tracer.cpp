#include "tracer.hpp"

#include <algorithm>
#include <memory>

namespace ac_advisor::passes::compile {

using ir::Shape;

Shape with_last(Shape shape, std::int64_t size) {
  shape.set(shape.rank() - 1, size);
  return shape;
}

namespace {

Shape as_matrix(const Shape& shape) { return {shape.numel() / shape.back(), shape.back()}; }

}  // namespace

Tensor Tracer::placeholder(ir::ValueId value, const Shape& shape, DType dtype, bool requires_grad,
                           bool parameter) {
  Node made;
  made.target = Target::placeholder;
  made.shape = shape;
  made.dtype = dtype;
  made.value = value;
  made.parameter = parameter;
  graph_.nodes.push_back(made);
  pending_.push_back(-1);
  placeholders_.push_back(
      {graph_.size() - 1, static_cast<std::int32_t>(pending_.size()) - 1, requires_grad});
  return placeholders_.back();
}

/// Whether an op's output has heads and tokens the other way round in memory: as its first full
/// operand (TensorIterator's order of strides); what is made new (cat, full) is contiguous.
bool Tracer::swapped(Target target, const NodeList& inputs, const Shape& shape) const {
  if (inputs.empty() || shape.rank() != 4) return false;
  switch (target) {
    case Target::cat:
    case Target::view:
    case Target::clone:
    case Target::expand:
    case Target::unsqueeze:
    case Target::slice_scatter:
      return false;
    case Target::permute:
      return !node(inputs[0]).swapped;
    case Target::getitem:
      return node(inputs[0]).swapped;
    default:
      break;
  }
  for (NodeId in : inputs)
    if (node(in).shape.numel() == shape.numel() || target == Target::slice) return node(in).swapped;
  return false;
}

NodeId Tracer::emit(Target target, NodeList inputs, Shape shape, DType dtype, std::int64_t index,
                    double number) {
  NodeId& known = known_.find(graph_, target, inputs, shape, dtype, index, number);
  if (known >= 0) return known;
  known = graph_.size();
  const NodeId made = emit_new(target, std::move(inputs), shape, dtype);
  graph_.node(made).index = index;
  graph_.node(made).number = number;
  return made;
}

/// As emit, whatever is there already: fx_graph_cse leaves alone what an output is a view of.
NodeId Tracer::emit_new(Target target, NodeList inputs, Shape shape, DType dtype) {
  Node made;
  made.target = target;
  made.shape = shape;
  made.dtype = dtype;
  made.swapped = swapped(target, inputs, shape);
  made.inputs = std::move(inputs);
  made.module = module_;
  made.region = forward_ ? region_ : -1;
  made.recomputed = made.region >= 0;
  graph_.nodes.push_back(std::move(made));
  return graph_.size() - 1;
}

void Tracer::keep_node(NodeId n) {
  graph_.node(n).kept = true;
  graph_.node(n).recomputed = false;
}

void Tracer::leave_checkpoint(NodeId n) {
  graph_.node(n).recomputed = false;
  graph_.node(n).region = -1;
}

Tensor Tracer::made(NodeId n, bool requires_grad, Rule rule) {
  const auto id = static_cast<std::int32_t>(pending_.size());
  pending_.push_back(-1);
  if (requires_grad) tape_.push_back({id, std::move(rule), module_});
  return {n, id, requires_grad};
}

void Tracer::give(Tensor to, NodeId gradient) {
  if (!to.requires_grad) return;
  gradient = settled(to, gradient);
  NodeId& pending = pending_[static_cast<std::size_t>(to.id)];
  pending = pending < 0 ? gradient : binary(Target::add, pending, gradient);
}

NodeId Tracer::binary(Target target, NodeId a, NodeId b) {
  const Node &x = node(a), &y = node(b);
  const NodeId larger = x.shape.numel() >= y.shape.numel() ? a : b;
  const DType type = x.dtype == DType::f32 ? x.dtype : y.dtype;
  return emit(target, {a, b}, node(larger).shape, type);
}

/// sum_to_size: a gradient that is wider than its tensor.
NodeId Tracer::summed_to(NodeId gradient, Shape to) {
  const Shape from = node(gradient).shape;
  if (from.numel() == to.numel()) return gradient;
  Shape kept = from;
  const std::size_t added = from.rank() - to.rank();
  for (std::size_t i = 0; i < from.rank(); ++i)
    if (i < added || to[i - added] == 1) kept.set(i, 1);
  const NodeId sum = emit(Target::sum, {gradient}, kept, node(gradient).dtype);
  return kept == to ? sum : view_node(sum, to);
}

NodeId Tracer::view_node(NodeId x, Shape shape) {
  if (node(x).shape == shape) return x;
  if (node(x).target == Target::view && node(node(x).inputs[0]).shape == shape)
    return node(x).inputs[0];                // joint_graph.py: pointless_view_pair
  if (node(x).swapped && shape.rank() != 4)  // reshape: not a view of that memory
    x = like(Target::clone, {x}, x);
  return emit(Target::view, {x}, shape, node(x).dtype);
}

NodeId Tracer::permute_node(NodeId x, bool heads) {
  Shape shape = node(x).shape;
  const std::size_t a = heads ? 1 : 0, b = a + 1;
  const std::int64_t first = shape[a];
  shape.set(a, shape[b]);
  shape.set(b, first);
  return emit(Target::permute, {x}, shape, node(x).dtype,
              heads ? permuted::heads : permuted::matrix);
}

/// A function's input, which the decomposition of its backward casts by itself, once more.
NodeId Tracer::widened_twice(NodeId x) {
  const NodeId wide = convert_node(x, DType::f32);
  if (wide != x) graph_.node(wide).of_two = true;
  return wide;
}

NodeId Tracer::convert_node(NodeId x, DType to) {
  return node(x).dtype == to ? x : emit(Target::convert, {x}, node(x).shape, to);
}

NodeId Tracer::slice_node(NodeId x, std::int64_t start, std::int64_t size) {
  if (node(x).shape.back() == size) return x;
  return emit(Target::slice, {x}, with_last(node(x).shape, size), node(x).dtype, start);
}

Tensor Tracer::convert(Tensor x, DType to) {
  if (dtype(x) == to) return x;
  const DType from = dtype(x);
  return made(convert_node(x.node, to), x.requires_grad,
              [=, this](NodeId g) { give(x, convert_node(g, from)); });
}

Tensor Tracer::pow(Tensor x, double exponent) {
  return made(like(Target::pow, {x.node}, x.node, exponent), x.requires_grad, [=, this](NodeId g) {
    const NodeId lower = like(Target::pow, {x.node}, x.node, exponent - 1.0);
    give(x, binary(Target::mul, g, like(Target::mul, {lower}, lower, exponent)));
  });
}

Tensor Tracer::mean(Tensor x) {
  const Shape wide = shape(x);
  const NodeId y = emit(Target::mean, {x.node}, with_last(wide, 1), dtype(x));
  return made(y, x.requires_grad, [=, this](NodeId g) {
    const NodeId spread = emit(Target::expand, {g}, wide, node(g).dtype);
    give(x, like(Target::div, {spread}, spread, static_cast<double>(wide.back())));
  });
}

Tensor Tracer::rsqrt(Tensor x) {
  const NodeId y = like(Target::rsqrt, {x.node}, x.node);
  return made(y, x.requires_grad, [=, this](NodeId g) {
    const NodeId cube = like(Target::pow, {y}, y, 3);
    give(x, binary(Target::mul, like(Target::mul, {g}, g, -0.5), cube));
  });
}

Tensor Tracer::neg(Tensor x) {
  return made(like(Target::neg, {x.node}, x.node), x.requires_grad,
              [=, this](NodeId g) { give(x, like(Target::neg, {g}, g)); });
}

/// threshold_backward: where(result <= 0, 0, gradient)
Tensor Tracer::relu(Tensor x) {
  const NodeId y = like(Target::relu, {x.node}, x.node);
  return made(y, x.requires_grad, [=, this](NodeId g) {
    const NodeId none = emit(Target::compare, {y}, node(y).shape, DType::u8);
    const NodeId zero = emit(Target::full, {}, Shape{}, node(g).dtype);
    give(x, like(Target::where, {none, zero, g}, g));
  });
}

Tensor Tracer::add_number(Tensor x, double number) {
  return made(like(Target::add, {x.node}, x.node, number), x.requires_grad,
              [=, this](NodeId g) { give(x, g); });
}

Tensor Tracer::mul_number(Tensor x, double number) {
  return made(like(Target::mul, {x.node}, x.node, number), x.requires_grad,
              [=, this](NodeId g) { give(x, like(Target::mul, {g}, g, number)); });
}

Tensor Tracer::div_number(Tensor x, double number) {
  return made(like(Target::div, {x.node}, x.node, number), x.requires_grad,
              [=, this](NodeId g) { give(x, like(Target::div, {g}, g, number)); });
}

Tensor Tracer::add(Tensor a, Tensor b) {
  return made(binary(Target::add, a.node, b.node), a.requires_grad || b.requires_grad,
              [=, this](NodeId g) {
                give(b, g);
                give(a, g);
              });
}

/// The products are made for the second operand first, and then summed.
Tensor Tracer::mul(Tensor a, Tensor b) {
  return made(binary(Target::mul, a.node, b.node), a.requires_grad || b.requires_grad,
              [=, this](NodeId g) {
                const NodeId of_b = b.requires_grad ? binary(Target::mul, g, a.node) : -1;
                NodeId of_a = a.requires_grad ? binary(Target::mul, g, b.node) : -1;
                if (of_a >= 0) of_a = settled(a, of_a);
                if (of_b >= 0) give(b, of_b);
                if (of_a >= 0) give(a, of_a);
              });
}

Tensor Tracer::cat(std::span<const Tensor> parts) {
  std::vector<NodeId> nodes;
  std::int64_t width = 0;
  bool trained = false;
  for (Tensor part : parts) {
    if (shape(part).back() > 0) nodes.push_back(part.node);
    width += shape(part).back();
    trained = trained || part.requires_grad;
  }
  // Inductor's joint_graph.remove_no_ops: nothing is joined where all but one are empty.
  const NodeId y = nodes.size() == 1 ? nodes[0]
                                     : emit(Target::cat, nodes, with_last(shape(parts[0]), width),
                                            dtype(parts[0]));
  return made(y, trained,
              [=, this, all = std::vector<Tensor>(parts.begin(), parts.end())](NodeId g) {
                std::int64_t start = 0;
                std::vector<NodeId> gradients;
                for (Tensor part : all) {
                  gradients.push_back(slice_node(g, start, shape(part).back()));
                  start += shape(part).back();
                }
                for (std::size_t i = 0; i < all.size(); ++i) give(all[i], gradients[i]);
              });
}

/// decompositions.py: silu as x / (1 + exp(-x)), silu_backward with sigmoid as a reciprocal.
Tensor Tracer::silu(Tensor x) {
  const DType type = dtype(x);
  const NodeId wide = widened_twice(x.node);
  const NodeId one_plus =
      like(Target::add, {like(Target::exp, {like(Target::neg, {wide}, wide)}, wide)}, wide, 1);
  const NodeId y = convert_node(binary(Target::div, wide, one_plus), type);
  return made(y, x.requires_grad, [=, this](NodeId g) {
    const NodeId wide_g = convert_node(g, DType::f32);
    const NodeId inverse = like(Target::reciprocal, {one_plus}, one_plus);
    const NodeId sigmoid = like(Target::mul, {inverse}, inverse, 1);
    const NodeId scaled = binary(Target::mul, wide_g, sigmoid);
    const NodeId rest = binary(Target::mul, wide, like(Target::sub, {sigmoid}, sigmoid, 1));
    const NodeId both = binary(Target::mul, scaled, like(Target::add, {rest}, rest, 1));
    give(x, convert_node(both, type));
  });
}

/// torch/_refs/nn/functional: gelu, and decompositions.py: gelu_backward, with approximate="tanh".
Tensor Tracer::gelu_tanh(Tensor x) {
  constexpr double root = 0.7978845608028654, cubic = 0.044715;
  const DType type = dtype(x);
  const NodeId wide = widened_twice(x.node);
  const auto times = [this](NodeId n, double number) { return like(Target::mul, {n}, n, number); };
  const auto plus = [this](NodeId n, double number) { return like(Target::add, {n}, n, number); };
  const NodeId square = binary(Target::mul, wide, wide);
  const NodeId cube = binary(Target::mul, square, wide);
  const NodeId inner = times(binary(Target::add, wide, times(cube, cubic)), root);
  const NodeId half = times(wide, 0.5);
  const NodeId bent = like(Target::tanh, {inner}, inner);
  const NodeId one_plus = plus(bent, 1);
  const NodeId y = convert_node(binary(Target::mul, half, one_plus), type);
  return made(y, x.requires_grad, [=, this](NodeId g) {
    const NodeId wide_g = convert_node(g, DType::f32);
    const NodeId left = times(one_plus, 0.5);
    const NodeId bent_square = binary(Target::mul, bent, bent);
    const NodeId slope = like(Target::sub, {bent_square}, bent_square, 1);
    const NodeId inner_slope = times(plus(times(square, 3 * cubic), 1), root);
    const NodeId right = binary(Target::mul, binary(Target::mul, half, slope), inner_slope);
    const NodeId both = binary(Target::mul, wide_g, binary(Target::add, left, right));
    give(x, convert_node(both, type));
  });
}

Tensor Tracer::clone(Tensor x) {
  return made(like(Target::clone, {x.node}, x.node), x.requires_grad,
              [=, this](NodeId g) { give(x, g); });
}

Tensor Tracer::view(Tensor x, const Shape& to) {
  const Shape from = shape(x);
  if (from == to) return x;
  return made(view_node(x.node, to), x.requires_grad,
              [=, this](NodeId g) { give(x, view_node(g, from)); });
}

Tensor Tracer::transpose(Tensor x) {
  return made(permute_node(x.node, false), x.requires_grad,
              [=, this](NodeId g) { give(x, permute_node(g, false)); });
}

Tensor Tracer::heads_with_tokens(Tensor x) {
  return made(permute_node(x.node, true), x.requires_grad,
              [=, this](NodeId g) { give(x, permute_node(g, true)); });
}

Tensor Tracer::unsqueeze(Tensor x, std::size_t dim) {
  const Shape from = shape(x);
  std::vector<std::int64_t> sizes(from.sizes().begin(), from.sizes().end());
  sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(dim), 1);
  const NodeId y = emit(Target::unsqueeze, {x.node}, Shape(sizes), dtype(x));
  return made(y, x.requires_grad, [=, this](NodeId g) { give(x, view_node(g, from)); });
}

/// slice_backward: zeros, and the gradient scattered into them.
Tensor Tracer::slice_last(Tensor x, std::int64_t start, std::int64_t size) {
  if (shape(x).back() == size) return x;
  const Shape wide = shape(x);
  return made(slice_node(x.node, start, size), x.requires_grad, [=, this](NodeId g) {
    const NodeId zeros = emit(Target::full, {}, wide, node(g).dtype);
    give(x, emit(Target::slice_scatter, {zeros, g}, wide, node(g).dtype, start));
  });
}

std::vector<Tensor> Tracer::split_last(Tensor x, std::int64_t size) {
  const Shape wide = shape(x);
  const NodeId all = emit(Target::split, {x.node}, wide, dtype(x), size);
  graph_.node(all).has_tensor = false;
  struct Gradients {
    std::vector<NodeId> parts;
    std::size_t missing;
  };
  const auto count = static_cast<std::size_t>(wide.back() / size);
  auto gradients = std::make_shared<Gradients>(Gradients{std::vector<NodeId>(count, -1), count});
  std::vector<Tensor> parts;
  for (std::size_t i = 0; i < count; ++i) {
    const NodeId part =
        emit(Target::getitem, {all}, with_last(wide, size), dtype(x), static_cast<std::int64_t>(i));
    parts.push_back(made(part, x.requires_grad, [=, this](NodeId g) {  // one autograd node
      gradients->parts[i] = g;
      if (--gradients->missing > 0) return;
      give(x, emit(Target::cat, gradients->parts, wide, node(g).dtype));
    }));
  }
  return parts;
}

/// F.linear: view, t, mm or addmm, view; Conv1D: addmm of a weight as it is. Of mm's backward the
/// weight's product is made first, as (gᵀ x), then the input's, g times the weight transposed
/// twice; of addmm's the input's, the weight's, the bias' sum.
Tensor Tracer::linear(Tensor x, Tensor weight, const Tensor* bias, bool input_first, bool keep) {
  const Shape wide = shape(x), columns = as_matrix(wide);
  const std::int64_t width = shape(weight)[input_first ? 1 : 0];
  const NodeId w = input_first ? weight.node : permute_node(weight.node, false);
  const NodeId flat = view_node(x.node, columns);
  const Shape product{columns[0], width};
  const NodeId y = bias != nullptr ? emit(Target::addmm, {bias->node, flat, w}, product, dtype(x))
                                   : emit(Target::mm, {flat, w}, product, dtype(x));
  if (keep) keep_node(y);
  const bool trained = x.requires_grad || weight.requires_grad;
  const Tensor with_bias = bias != nullptr ? *bias : Tensor{};
  return made(view_node(y, with_last(wide, width)), trained, [=, this](NodeId g) {
    const NodeId flat_g = view_node(g, product);
    const auto give_weight = [&] {
      if (!weight.requires_grad) return;
      const NodeId a = input_first ? flat : flat_g, b = input_first ? flat_g : flat;
      const NodeId turned = permute_node(a, false);
      give(weight, emit(Target::mm, {turned, b}, node(weight.node).shape, node(g).dtype));
    };
    if (with_bias.node < 0) give_weight();
    if (x.requires_grad) {
      const NodeId back = permute_node(w, false);
      const NodeId gx = emit(Target::mm, {flat_g, back}, columns, node(g).dtype);
      give(x, view_node(gx, wide));
    }
    if (with_bias.node < 0) return;
    give_weight();
    if (with_bias.requires_grad) {
      // A parameter's gradient is a view of it; what autocast made of one is cast once more.
      const bool own = node(with_bias.node).target == Target::placeholder;
      const NodeId sum = own ? emit_new(Target::sum, {flat_g}, {1, width}, node(g).dtype)
                             : emit(Target::sum, {flat_g}, {1, width}, node(g).dtype);
      give(with_bias, view_node(sum, node(with_bias.node).shape));
    }
  });
}

Tensor Tracer::sdpa(Tensor q, Tensor k, Tensor v, const Tensor* mask, bool cudnn,
                    const ir::Sdpa& attributes, bool keep) {
  const Shape s = shape(q);
  const auto asked = static_cast<std::int64_t>(attributes.kernel);
  const double scale = attributes.scale;
  NodeList inputs{q.node, k.node, v.node};
  const NodeId bias = mask != nullptr ? mask->node : -1;
  if (bias >= 0) inputs.push_back(bias);
  const NodeId all = emit(cudnn ? Target::sdpa_cudnn : Target::sdpa_flash, std::move(inputs), s,
                          dtype(q), asked, scale);
  Node& kernel = graph_.node(all);
  kernel.has_tensor = false;
  kernel.swapped = node(q.node).swapped;
  if (keep) keep_node(all);
  const NodeId y = emit(Target::getitem, {all}, {s[0], s[1], s[2], shape(v)[3]}, dtype(q), 0);
  const Shape rows = cudnn ? Shape{s[0], s[1], s[2], 1} : Shape{s[0], s[1], s[2]};
  const NodeId log_sum = emit(Target::getitem, {all}, rows, DType::f32, 1);
  const Shape seed_shape = cudnn ? Shape{} : Shape{2};
  const NodeId seed = emit(Target::getitem, {all}, seed_shape, DType::i64, 6);
  NodeList state{seed};  // of random numbers: flash-attn's own op returns both in one tensor
  if (attributes.kernel != ir::SdpaKernel::flash_attn)
    state.push_back(emit(Target::getitem, {all}, Shape{}, DType::i64, 7));
  if (keep) {
    keep_node(y);
    keep_node(log_sum);
    for (NodeId n : state) keep_node(n);
  }
  const bool trained = q.requires_grad || k.requires_grad || v.requires_grad;
  return made(y, trained, [=, this](NodeId g) {
    NodeList read{g, q.node, k.node, v.node, y, log_sum};
    for (NodeId n : state) read.push_back(n);
    if (bias >= 0) read.push_back(bias);
    const NodeId backward = emit(cudnn ? Target::sdpa_cudnn_backward : Target::sdpa_flash_backward,
                                 std::move(read), s, node(y).dtype, asked, scale);
    graph_.node(backward).has_tensor = false;
    std::int64_t index = 0;
    std::vector<NodeId> parts;
    for (Tensor t : {q, k, v}) {
      parts.push_back(emit(Target::getitem, {backward}, shape(t), dtype(t), index++));
      graph_.node(parts.back()).swapped = node(t.node).swapped;
    }
    give(v, parts[2]);
    give(k, parts[1]);
    give(q, parts[0]);
  });
}

/// attention.cpp (v2.11): scaled_dot_product_attention expands the mask to each head before
/// _scaled_dot_product_efficient_attention; the generator's state is two numbers on the host.
Tensor Tracer::sdpa_efficient(Tensor q, Tensor k, Tensor v, Tensor mask, const ir::Sdpa& attributes,
                              bool keep) {
  constexpr std::int64_t rows_together = 32;
  const Shape s = shape(q), heads_of_mask{s[0], s[1], s[2], shape(k)[2]};
  const auto asked = static_cast<std::int64_t>(attributes.kernel);
  const double scale = attributes.scale;
  const NodeId bias = emit(Target::expand, {mask.node}, heads_of_mask, dtype(q));
  const NodeId all =
      emit(Target::sdpa_efficient, {q.node, k.node, v.node, bias}, s, dtype(q), asked, scale);
  graph_.node(all).has_tensor = false;
  const NodeId y = emit(Target::getitem, {all}, {s[0], s[1], s[2], shape(v)[3]}, dtype(q), 0);
  graph_.node(y).swapped = true;
  const std::int64_t rows = (s[2] + rows_together - 1) / rows_together * rows_together;
  const NodeId log_sum = emit(Target::getitem, {all}, {s[0], s[1], rows}, DType::f32, 1);
  if (keep)
    for (NodeId n : {all, y, log_sum}) keep_node(n);
  const bool trained = q.requires_grad || k.requires_grad || v.requires_grad;
  return made(y, trained, [=, this](NodeId g) {
    const NodeId backward =
        emit(Target::sdpa_efficient_backward, {g, q.node, k.node, v.node, y, log_sum, bias}, s,
             node(y).dtype, asked, scale);
    graph_.node(backward).has_tensor = false;
    std::int64_t index = 0;
    std::vector<NodeId> parts;
    for (Tensor t : {q, k, v}) {
      const Shape own = shape(t);
      Shape wide = own;  // of one head that is expanded to each query's
      wide.set(1, s[1]);
      NodeId part = emit(Target::getitem, {backward}, wide, dtype(t), index++);
      graph_.node(part).swapped = true;
      if (own != wide) {
        const Shape apart{own[0], own[1], s[1] / own[1], own[2], own[3]};
        part = view_node(part, apart);
        part =
            emit(Target::sum, {part}, {own[0], own[1], 1, own[2], own[3]}, dtype(t), s[1] / own[1]);
        part = view_node(part, own);
      }
      parts.push_back(part);
    }
    give(v, parts[2]);
    give(k, parts[1]);
    give(q, parts[0]);
  });
}

JointGraph Tracer::joint(std::span<const Tensor> outputs) {
  forward_ = false;
  for (Tensor output : outputs) {
    graph_.forward_outputs.push_back(output.node);
    if (!output.requires_grad) continue;
    Node gradient;
    gradient.target = Target::tangent;
    gradient.shape = shape(output);
    gradient.dtype = dtype(output);
    gradient.swapped = graph_.node(output.node).swapped;
    graph_.nodes.push_back(gradient);
    give(output, graph_.size() - 1);
  }
  // The engine runs nodes in reverse order of creation (torch/csrc/autograd/engine.cpp).
  for (std::size_t i = tape_.size(); i-- > 0;) {
    const NodeId gradient = pending_[static_cast<std::size_t>(tape_[i].tensor)];
    module_ = tape_[i].module;
    if (gradient >= 0) tape_[i].rule(gradient);
  }
  for (Tensor t : placeholders_)
    graph_.backward_outputs.push_back(pending_[static_cast<std::size_t>(t.id)]);
  return without_pointless_converts(without_dead_code(std::move(graph_)));
}

}  // namespace ac_advisor::passes::compile
