// What mixtures of experts have beside dense blocks: routing, rows sorted by expert, grouped
// products, rows put back (transformers 5.23: integrations/moe.py, grouped_mm_experts_forward).
#include "tracer.hpp"

namespace ac_advisor::passes::compile {

using ir::Shape;

namespace {

constexpr std::int64_t asked_for = 1;  // of a view whose first size was -1: another to CSE
/// ir.py, Reduction.create; config.py: unroll_reductions_threshold. Fewer are written out.
constexpr std::int64_t least_reduction = 8;

}  // namespace

/// What is added into. Inductor clones it for each (lowering.py: index_put, scatter), so that no
/// two share one.
NodeId Tracer::zeros_node(const Shape& size, DType type) {
  return emit_new(Target::full, {}, size, type);
}

Tensor Tracer::flattened(Tensor x, const Shape& to) {
  const Shape from = shape(x);
  return made(emit(Target::view, {x.node}, to, dtype(x), asked_for), x.requires_grad,
              [=, this](NodeId g) { give(x, view_node(g, from)); });
}

/// A row's sum, [..., 1]. Of few columns its terms are written out (`index`).
NodeId Tracer::row_sum_node(NodeId x) {
  const std::int64_t columns = node(x).shape.back();
  return emit(Target::sum, {x}, with_last(node(x).shape, 1), node(x).dtype,
              columns < least_reduction ? columns : 0);
}

/// decompositions.py: _softmax, _softmax_backward_data.
Tensor Tracer::softmax(Tensor x) {
  const DType type = dtype(x);
  const NodeId wide = convert_node(x.node, DType::f32);
  const Shape all = node(wide).shape;
  const NodeId most = emit(Target::amax, {wide}, with_last(all, 1), DType::f32,
                           all.back() < least_reduction ? all.back() : 0);
  const NodeId power = like(Target::exp, {binary(Target::sub, wide, most)}, wide);
  const NodeId sum = row_sum_node(power);
  const NodeId y = convert_node(binary(Target::div, power, sum), type);
  return made(y, x.requires_grad, [=, this](NodeId g) {
    const NodeId product = binary(Target::mul, g, y);
    const NodeId total = row_sum_node(product);
    const NodeId minus = like(Target::neg, {y}, y);
    give(x, like(Target::fma, {minus, total, product}, product));
  });
}

/// decompositions.py: sigmoid_backward, in fp32.
Tensor Tracer::sigmoid(Tensor x) {
  const DType type = dtype(x);
  const NodeId y = like(Target::sigmoid, {x.node}, x.node);
  return made(y, x.requires_grad, [=, this](NodeId g) {
    const NodeId wide_g = convert_node(g, DType::f32), wide = convert_node(y, DType::f32);
    const NodeId slope = binary(Target::mul, wide, like(Target::sub, {wide}, wide, 1));
    give(x, convert_node(binary(Target::mul, wide_g, slope), type));
  });
}

/// The products are made for the second operand first, -g * ((a / b) / b), as in mul.
Tensor Tracer::divided(Tensor a, Tensor b) {
  const NodeId y = binary(Target::div, a.node, b.node);
  return made(y, a.requires_grad || b.requires_grad, [=, this](NodeId g) {
    NodeId of_b = -1;
    if (b.requires_grad) {
      const NodeId again = binary(Target::div, y, b.node);
      of_b = binary(Target::mul, like(Target::neg, {g}, g), again);
    }
    NodeId of_a = a.requires_grad ? binary(Target::div, g, b.node) : -1;
    if (of_a >= 0) of_a = settled(a, of_a);
    if (of_b >= 0) give(b, shape(b).back() == 1 ? row_sum_node(of_b) : of_b);
    if (of_a >= 0) give(a, of_a);
  });
}

Tensor Tracer::row_sum(Tensor x, const Shape& to) {
  const Shape wide = shape(x);
  if (to.rank() < wide.rank())  // of a group's best, which no gradient reaches
    return made(emit(Target::sum, {x.node}, to, dtype(x), wide.back()), false, {});
  return made(row_sum_node(x.node), x.requires_grad,
              [=, this](NodeId g) { give(x, emit(Target::expand, {g}, wide, node(g).dtype)); });
}

Tracer::Best Tracer::topk(Tensor x, std::int64_t k) {
  const Shape chosen = with_last(shape(x), k), wide = shape(x);
  const NodeId both = emit(Target::topk, {x.node}, chosen, dtype(x), k);
  graph_.node(both).has_tensor = false;
  const NodeId values = emit(Target::getitem, {both}, chosen, dtype(x), 0);
  const NodeId places = emit(Target::getitem, {both}, chosen, DType::i64, 1);
  const Tensor at = made(places, false, {});
  return {made(values, x.requires_grad,
               [=, this](NodeId g) {
                 const NodeId zeros = zeros_node(wide, node(g).dtype);
                 give(x, emit(Target::scatter, {zeros, places, g}, wide, node(g).dtype));
               }),
          at};
}

Tracer::Best Tracer::sort(Tensor x) {
  const Shape all = shape(x);
  const NodeId both = emit(Target::sort, {x.node}, all, dtype(x));
  graph_.node(both).has_tensor = false;
  const NodeId values = emit(Target::getitem, {both}, all, dtype(x), 0);
  const NodeId places = emit(Target::getitem, {both}, all, DType::i64, 1);
  return {made(values, false, {}), made(places, false, {})};
}

Tensor Tracer::floor_divide(Tensor x, std::int64_t by) {
  return made(like(Target::floor_divide, {x.node}, x.node, static_cast<double>(by)), false, {});
}

/// Its gradient is added into zeros, row by row.
Tensor Tracer::rows_at(Tensor x, Tensor places) {
  const Shape from = shape(x);
  Shape to = from;
  to.set(0, shape(places)[0]);
  const NodeId y = emit(Target::index, {x.node, places.node}, to, dtype(x));
  return made(y, x.requires_grad, [=, this](NodeId g) {
    const NodeId zeros = zeros_node(from, node(g).dtype);
    give(x, emit(Target::index_put, {zeros, places.node, g}, from, node(g).dtype, 1));
  });
}

Tensor Tracer::gather(Tensor x, Tensor places) {
  const Shape from = shape(x);
  const NodeId y = emit(Target::gather, {x.node, places.node}, shape(places), dtype(x));
  return made(y, x.requires_grad, [=, this](NodeId g) {
    const NodeId zeros = zeros_node(from, node(g).dtype);
    give(x, emit(Target::scatter_add, {zeros, places.node, g}, from, node(g).dtype));
  });
}

Tensor Tracer::histc(Tensor x, std::int64_t bins) {
  return made(emit(Target::histc, {x.node}, {bins}, dtype(x)), false, {});
}

Tensor Tracer::cumsum(Tensor x) { return made(like(Target::cumsum, {x.node}, x.node), false, {}); }

Tensor Tracer::grouped_product(Tensor rows, Tensor weight, Tensor offsets) {
  const Shape s = shape(rows), w = shape(weight);
  const NodeId turned = emit(Target::permute, {weight.node}, {w[0], w[2], w[1]}, dtype(weight),
                             permuted::batched_rows);
  const NodeId y =
      emit(Target::grouped_mm, {rows.node, turned, offsets.node}, {s[0], w[1]}, dtype(rows));
  return made(y, rows.requires_grad || weight.requires_grad, [=, this](NodeId g) {
    if (weight.requires_grad) {
      const NodeId columns = permute_node(g, false);
      give(weight, emit(Target::grouped_mm, {columns, rows.node, offsets.node}, w, node(g).dtype));
    }
    if (rows.requires_grad) {
      const NodeId back = emit(Target::permute, {turned}, w, dtype(weight), permuted::batched_rows);
      give(rows, emit(Target::grouped_mm, {g, back, offsets.node}, s, node(g).dtype));
    }
  });
}

Tensor Tracer::empty(const Shape& size, DType type) {
  return made(emit(Target::empty, {}, size, type), false, {});
}

Tensor Tracer::placed(Tensor into, Tensor places, Tensor values) {
  const NodeId y =
      emit(Target::index_put, {into.node, places.node, values.node}, shape(into), dtype(into));
  return made(y, false, {});
}

/// view(tokens, experts of each, hidden).sum(1)
Tensor Tracer::sum_of_experts(Tensor rows, std::int64_t experts) {
  const Shape s = shape(rows);
  const std::int64_t tokens = s[0] / experts;
  const Shape apart{tokens, experts, s[1]};
  const NodeId each = view_node(rows.node, apart);
  const NodeId y = emit(Target::sum, {each}, {tokens, s[1]}, dtype(rows), experts);
  return made(y, rows.requires_grad, [=, this](NodeId g) {
    const NodeId one = emit(Target::unsqueeze, {g}, {tokens, 1, s[1]}, node(g).dtype);
    const NodeId all = emit(Target::expand, {one}, apart, node(g).dtype);
    give(rows, emit(Target::view, {like(Target::clone, {all}, all)}, s, node(g).dtype));
  });
}

/// A number scattered into zeros (fx_passes/post_grad.py: scatter_upon_const_tensor).
Tensor Tracer::one_of(Tensor place, std::int64_t count) {
  const Shape to = with_last(shape(place), count);
  const NodeId numbers = emit(Target::iota, {}, {count}, DType::i64);
  const NodeId across = view_node(numbers, {1, count});
  const NodeId spread = emit(Target::expand, {place.node}, to, DType::i64);
  const NodeId same = emit(Target::compare, {spread, across}, to, DType::u8);
  const NodeId zero = emit(Target::full, {}, Shape{}, DType::f32);
  const NodeId one = emit(Target::full, {}, Shape{}, DType::f32, 0, 1);
  return made(emit(Target::where, {same, one, zero}, to, DType::f32), false, {});
}

/// Of each group's experts what the group has: [tokens, groups] to [tokens, experts].
Tensor Tracer::expanded_groups(Tensor groups, std::int64_t experts) {
  const Shape s = shape(groups), each{s[0], s[1], experts / s[1]};
  const NodeId apart = emit(Target::unsqueeze, {groups.node}, {s[0], s[1], 1}, dtype(groups));
  NodeId all = emit(Target::expand, {apart}, each, dtype(groups));
  if (s[1] > 1) all = like(Target::clone, {all}, all);
  return made(emit(Target::view, {all}, {s[0], experts}, dtype(groups)), false, {});
}

Tensor Tracer::bitwise_not(Tensor x) {
  return made(like(Target::bitwise_not, {x.node}, x.node), false, {});
}

/// Where no gradient is asked for.
Tensor Tracer::masked_fill(Tensor x, Tensor mask, double number) {
  const NodeId filler = emit(Target::full, {}, Shape{}, dtype(x), 0, number);
  return made(like(Target::where, {mask.node, filler, x.node}, x.node), false, {});
}

}  // namespace ac_advisor::passes::compile
