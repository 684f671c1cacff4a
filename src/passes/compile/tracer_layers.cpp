// What blocks of other kinds than Llama's have: LayerNorm, activations of plain MLPs, neighbours
// that are rotated together, dropout.
#include <numbers>

#include "tracer.hpp"

namespace ac_advisor::passes::compile {

using ir::Shape;

/// torch/_refs: native_layer_norm; decompositions.py: native_layer_norm_backward.
Tensor Tracer::layer_norm(Tensor x, Tensor weight, Tensor bias, double epsilon) {
  const DType type = dtype(x);
  const Shape wide = shape(x), column = with_last(wide, 1);
  const NodeId in = convert_node(x.node, DType::f32);
  const NodeId both = emit(Target::var_mean, {in}, wide, DType::f32);
  graph_.node(both).has_tensor = false;
  const NodeId variance = emit(Target::getitem, {both}, column, DType::f32, 0);
  const NodeId mean = emit(Target::getitem, {both}, column, DType::f32, 1);
  const NodeId inverse =
      like(Target::rsqrt, {like(Target::add, {variance}, variance, epsilon)}, variance);
  const NodeId normed = binary(Target::mul, binary(Target::sub, in, mean), inverse);
  const NodeId scaled = binary(Target::mul, normed, weight.node);
  const NodeId y = convert_node(binary(Target::add, scaled, bias.node), type);
  const bool trained = x.requires_grad || weight.requires_grad || bias.requires_grad;
  return made(y, trained, [=, this](NodeId g) {
    const NodeId wide_g = convert_node(g, DType::f32),
                 scale = convert_node(weight.node, DType::f32);
    const auto row_sum = [&](NodeId n) { return emit(Target::sum, {n}, column, DType::f32); };
    const auto column_sum = [&](NodeId n) {
      return emit(Target::sum, {n}, node(weight.node).shape, DType::f32);
    };
    const auto columns = static_cast<double>(wide.back());
    const NodeId x_hat = binary(Target::mul, binary(Target::sub, in, mean), inverse);
    const NodeId of_hat = binary(Target::mul, wide_g, scale);
    const NodeId a = like(Target::mul, {of_hat}, of_hat, columns), b = row_sum(of_hat);
    const NodeId c = binary(Target::mul, x_hat, row_sum(binary(Target::mul, of_hat, x_hat)));
    const NodeId inner = binary(Target::sub, binary(Target::sub, a, b), c);
    const NodeId share = like(Target::div, {inverse}, inverse, columns);
    const NodeId of_x = binary(Target::mul, share, inner);
    const NodeId of_weight = column_sum(binary(Target::mul, wide_g, x_hat));
    const NodeId of_bias = column_sum(wide_g);
    give(x, convert_node(of_x, type));
    give(weight, of_weight);
    give(bias, of_bias);
  });
}

/// decompositions.py: _fused_rms_norm, _fused_rms_norm_backward.
Tensor Tracer::fused_rms_norm(Tensor x, Tensor weight, double epsilon) {
  const DType type = dtype(x);
  const Shape wide = shape(x), column = with_last(wide, 1);
  const NodeId in = widened_twice(x.node), square = like(Target::pow, {in}, in, 2);
  const NodeId mean = emit(Target::mean, {square}, column, DType::f32);
  const NodeId inverse = like(Target::rsqrt, {like(Target::add, {mean}, mean, epsilon)}, mean);
  const NodeId x_hat = binary(Target::mul, in, inverse);
  const NodeId y = convert_node(binary(Target::mul, x_hat, weight.node), type);
  return made(y, x.requires_grad || weight.requires_grad, [=, this](NodeId g) {
    const NodeId wide_g = convert_node(g, DType::f32);
    const NodeId of_hat = binary(Target::mul, wide_g, convert_node(weight.node, DType::f32));
    const NodeId both = binary(Target::mul, x_hat, of_hat);
    const NodeId sum = emit(Target::sum, {both}, column, DType::f32);
    const NodeId share = like(Target::div, {x_hat}, x_hat, static_cast<double>(wide.back()));
    const NodeId rest = binary(Target::sub, of_hat, binary(Target::mul, share, sum));
    const NodeId of_x = binary(Target::mul, rest, inverse);
    const NodeId each = binary(Target::mul, wide_g, x_hat);
    const Shape row = node(weight.node).shape;  // a new node may move the others
    const NodeId of_weight = emit(Target::sum, {each}, row, DType::f32);
    give(x, convert_node(of_x, type));
    give(weight, of_weight);
  });
}

namespace {

Shape in_pairs(const Shape& s) { return {s[0], s[1], s[2], s[3] / 2, 2}; }

}  // namespace

/// torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
Tensor Tracer::as_complex(Tensor x) {
  const Shape s = shape(x), pairs = in_pairs(s);
  const NodeId y = emit(Target::as_complex, {view_node(x.node, pairs)}, pairs, DType::f32);
  return made(y, x.requires_grad, [=, this](NodeId g) {
    give(x, view_node(emit(Target::as_real, {g}, pairs, DType::f32), s));
  });
}

/// torch.view_as_real(x * table).flatten(3). The gradient is multiplied by the table's conjugate,
/// a flag on a view until then: a copy of it is made once for both.
Tensor Tracer::complex_mul(Tensor x, Tensor table) {
  const Shape pairs = shape(x), flat{pairs[0], pairs[1], pairs[2], 2 * pairs[3]};
  const auto product = [=, this](NodeId a, NodeId b) {
    return emit(Target::complex_mul, {a, b}, pairs, DType::f32);
  };
  const NodeId y = emit(Target::as_real, {product(x.node, table.node)}, pairs, DType::f32);
  return made(view_node(y, flat), x.requires_grad, [=, this](NodeId g) {
    const NodeId of_y = emit(Target::as_complex, {view_node(g, pairs)}, pairs, DType::f32);
    const NodeId conj = like(Target::conj, {table.node}, table.node);
    const NodeId conjugate = like(Target::conjugate, {conj}, table.node);
    give(x, product(of_y, conjugate));
  });
}

/// As mul, its second operand taken off.
Tensor Tracer::sub(Tensor a, Tensor b) {
  return made(binary(Target::sub, a.node, b.node), a.requires_grad || b.requires_grad,
              [=, this](NodeId g) {
                if (b.requires_grad) give(b, like(Target::neg, {g}, g));
                give(a, g);
              });
}

/// decompositions.py: tanh_backward, in fp32.
Tensor Tracer::tanh(Tensor x) {
  const NodeId y = like(Target::tanh, {x.node}, x.node);
  return made(y, x.requires_grad, [=, this](NodeId g) {
    const NodeId wide_g = convert_node(g, DType::f32), wide = convert_node(y, DType::f32);
    const NodeId square = binary(Target::mul, wide, wide);
    const NodeId slope = like(Target::sub, {square}, square, 1);
    give(x, convert_node(binary(Target::mul, wide_g, slope), dtype(x)));
  });
}

/// torch/_refs/nn/functional: gelu, and decompositions.py: gelu_backward, with erf.
Tensor Tracer::gelu(Tensor x) {
  const DType type = dtype(x);
  const NodeId wide = convert_node(x.node, DType::f32);
  const auto times = [this](NodeId n, double number) { return like(Target::mul, {n}, n, number); };
  const NodeId half = times(wide, 0.5);
  const NodeId scaled = times(wide, std::numbers::sqrt2 / 2);
  const NodeId bent = like(Target::erf, {scaled}, scaled);
  const NodeId one_plus = like(Target::add, {bent}, bent, 1);
  const NodeId y = convert_node(binary(Target::mul, half, one_plus), type);
  return made(y, x.requires_grad, [=, this](NodeId g) {
    const NodeId wide_g = convert_node(g, DType::f32);
    const NodeId left = times(one_plus, 0.5);
    const NodeId exponent = times(binary(Target::mul, wide, wide), -0.5);
    const NodeId density = times(like(Target::exp, {exponent}, exponent),
                                 std::numbers::inv_sqrtpi * std::numbers::sqrt2 / 2);
    const NodeId slope = binary(Target::add, left, binary(Target::mul, wide, density));
    give(x, convert_node(binary(Target::mul, wide_g, slope), type));
  });
}

/// The same tensor to autograd's engine as a node of its own: a slice of all.
Tensor Tracer::alias(Tensor x) {
  return made(x.node, x.requires_grad, [=, this](NodeId g) { give(x, g); });
}

/// x[..., start::2]
Tensor Tracer::every_second(Tensor x, std::int64_t start) {
  const Shape wide = shape(x);
  const NodeId y =
      emit(Target::slice, {x.node}, with_last(wide, wide.back() / 2), dtype(x), start, 2);
  return made(y, x.requires_grad, [=, this](NodeId g) {
    const NodeId zeros = emit(Target::full, {}, wide, node(g).dtype);
    give(x, emit(Target::slice_scatter, {zeros, g}, wide, node(g).dtype, start, 2));
  });
}

/// torch.stack((a, b), dim=-1).flatten(-2)
Tensor Tracer::interleaved(Tensor a, Tensor b) {
  const Shape s = shape(a), column{s[0], s[1], s[2], s[3], 1}, pairs{s[0], s[1], s[2], s[3], 2};
  const NodeId joined = emit(Target::cat,
                             {emit(Target::unsqueeze, {a.node}, column, dtype(a)),
                              emit(Target::unsqueeze, {b.node}, column, dtype(b))},
                             pairs, dtype(a));
  const NodeId y = emit(Target::view, {joined}, with_last(s, 2 * s[3]), dtype(a));
  return made(y, a.requires_grad || b.requires_grad, [=, this](NodeId g) {
    const NodeId apart = emit(Target::view, {g}, pairs, node(g).dtype);
    const NodeId of_a = emit(Target::select, {apart}, s, node(g).dtype, 0);
    const NodeId of_b = emit(Target::select, {apart}, s, node(g).dtype, 1);
    give(a, of_a);
    give(b, of_b);
  });
}

/// x[..., :half].repeat_interleave(2, dim=-1), of a table of angles [B, 1, S, D].
Tensor Tracer::first_half_twice(Tensor x) {
  const Shape s = shape(x);
  const std::int64_t half = s[3] / 2;
  const Shape pairs{s[0], s[1], s[2], half, 2};
  const NodeId apart =
      emit(Target::unsqueeze, {slice_node(x.node, 0, half)}, {s[0], s[1], s[2], half, 1}, dtype(x));
  const NodeId wide = emit(Target::expand, {apart}, pairs, dtype(x));
  return made(emit(Target::view, {like(Target::clone, {wide}, wide)}, s, dtype(x)), false, {});
}

/// Ministral3's scales of queries are made of positions, in fp32.
Tensor Tracer::of_positions(Target target, Tensor x) {
  const Shape row{1, shape(x).numel()};
  return made(emit(target, {x.node}, row, DType::f32), false, {});
}

/// decompositions.py: native_dropout and its backward; fx_passes/replace_random.py: one tensor of
/// seeds a graph, of `draws` numbers, and a lookup for each draw.
Tensor Tracer::dropout(Tensor x, double probability, std::int64_t draws) {
  const DType type = dtype(x);
  const double scale = 1 / (1 - probability);
  const NodeId seeds = emit(Target::seeds, {}, {draws}, DType::i64);
  const NodeId own = emit(Target::seed, {seeds}, Shape{}, DType::i64, drawn_++);
  const NodeId drawn = emit(Target::random, {own}, shape(x), DType::f32);
  const NodeId narrow = convert_node(drawn, type);
  const NodeId kept = emit(Target::greater, {narrow}, shape(x), DType::u8, 0, probability);
  const NodeId masked = emit(Target::mul, {kept, x.node}, shape(x), type);
  return made(like(Target::mul, {masked}, masked, scale), x.requires_grad, [=, this](NodeId g) {
    const NodeId mask = convert_node(kept, type);
    give(x, binary(Target::mul, g, like(Target::mul, {mask}, mask, scale)));
  });
}

}  // namespace ac_advisor::passes::compile
