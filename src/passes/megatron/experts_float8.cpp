// Experts in Transformer Engine's FP8 (v2.14: pytorch/module/grouped_linear.py, fp8_padding.py;
// csrc/extensions/cast.cpp, split_quantize; core_v0.16: transformer/moe/experts.py): each expert's
// rows are a tensor in 8 bits of their own, with a scale, and have to be a multiple of 16.
#include <numeric>

#include "layers.hpp"

namespace ac_advisor::passes {

using ir::CompiledGraph;
using ir::Module;
using ir::OpKind;
using ir::Shape;

namespace {

using Indices = std::vector<std::int32_t>;

template <typename T>
std::vector<T> joined(std::initializer_list<std::vector<T>> parts) {
  std::vector<T> all;
  for (const std::vector<T>& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

/// `count` numbers from `first` on.
Indices numbers(std::int32_t first, std::int32_t count) {
  Indices all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), first);
  return all;
}

}  // namespace

/// get_align_size_for_quantization.
std::int64_t MegatronLayers::rows_in_fp8(std::int64_t rows) const {
  constexpr std::int64_t multiple = 16;
  return in_fp8() ? (rows + multiple - 1) / multiple * multiple : rows;
}

/// Fp8Padding and Fp8Unpadding: a copy with each expert's rows filled up, or without what filled
/// them.
ir::ValueId MegatronLayers::padded(V x, std::int64_t rows) {
  if (shape(x)[0] == rows) return x;
  leaf_ = Module::experts;
  const V y = plain(with(shape(x), 0, rows), dtype(x));
  emit(OpKind::generated, {x}, {y}, ir::Generated{});
  CompiledGraph g;  // x, gradient
  g.made = {{shape(x), dtype(x), -1}};
  g.launches = {{OpKind::generated, ir::Generated{}, leaf_, {1}, {2}}};
  g.results = {2};
  return node(OpKind::autograd_function, {x}, y, std::move(g));
}

/// SequentialMLP._pad_tensor_for_quantization: with zeros.
ir::ValueId MegatronLayers::filled_up(V x, std::int64_t rows) {
  const std::int64_t own = shape(x)[0];
  if (own == rows) return x;
  leaf_ = Module::experts;
  const V zeros = plain(with(shape(x), 0, rows - own), dtype(x)),
          y = out(with(shape(x), 0, rows), dtype(x), true);
  emit(OpKind::fill, {}, {zeros}, ir::Number{});
  emit(OpKind::cat, {x, zeros}, {y});
  return y;
}

/// output[:rows], a view unless those are all.
ir::ValueId MegatronLayers::first_rows(V x, std::int64_t rows) {
  if (shape(x)[0] == rows) return x;
  leaf_ = Module::experts;
  const V y = p_.on_storage_of(x, with(shape(x), 0, rows), dtype(x), false);
  p_.value(y).requires_grad = true;
  emit(OpKind::slice, {x}, {y}, ir::Slice{0, 0});
  return y;
}

/// Grouped experts are one layer, whose scales are together.
void MegatronLayers::declare_experts_in_fp8(Block& b) {
  const bool grouped = spec_.moe->megatron->grouped;
  for (std::vector<LinearValues>* layers : {&b.first_of_expert, &b.second_of_expert}) {
    for (LinearValues& l : *layers) {
      declare_copies(l, Module::experts);
      if (!grouped) declare_scales(1, Module::experts);
    }
    if (grouped) declare_scales(local_experts(), Module::experts);
  }
}

/// One kernel casts 64 experts' rows by delayed scaling (multi_cast_transpose.cu), of current
/// scaling three each expert's.
ir::Generated MegatronLayers::casts(std::int32_t experts) const {
  constexpr std::int32_t of_one_kernel = 64;
  return {delayed() ? (experts + of_one_kernel - 1) / of_one_kernel : 3 * experts};
}

MegatronLayers::Grouped MegatronLayers::grouped_rows(V x, const std::vector<LinearValues>& layers,
                                                     bool keeps_input) {
  const auto count = static_cast<std::int64_t>(layers.size());
  Grouped g{shape(x)[0] / count, layers.front().in, layers.front().out, {}, {}, {}, {},
            keeps_input};
  std::vector<V> made;
  for (const LinearValues& l : layers) {
    const Eight eight = make_eight({g.rows, g.in}, !keeps_input);
    g.by_rows.push_back(eight.rows);
    if (!keeps_input) g.columns.push_back(eight.columns);
    g.scales.push_back(eight.inverse);
    made.insert(made.end(), {eight.inverse, eight.rows});
    if (!keeps_input) made.push_back(eight.columns);
    g.weights.push_back(l.weight);
  }
  p_.emit(OpKind::generated, phase_, at(leaf_), std::vector<V>{x}, made,
          casts(static_cast<std::int32_t>(count)));
  return g;
}

/// _GroupedLinear.backward. Given: x, then of each expert the weight, its rows' columns and their
/// scales unless x is cast again, the weight the other way round and its scale, main gradients
/// where products add to them, then the gradient. All that it makes lives to its end.
ir::CompiledGraph MegatronLayers::grouped_backward(V x, const Grouped& n,
                                                   std::vector<V>& given) const {
  const auto count = static_cast<std::int32_t>(n.weights.size());
  const std::int32_t saved = n.keeps_input ? 0 : 2 * count;
  Indices columns = numbers(1 + count, saved);
  const Indices turned = numbers(1 + count + saved, 2 * count);
  std::vector<GradientPlace> places;
  for (const V weight : n.weights) places.push_back(gradient_place(given, weight));
  const auto gradient = static_cast<std::int32_t>(given.size());
  CompiledGraph g;
  const auto make = [&](const Shape& size, DType type) {
    g.made.push_back({size, type, -1});
    return gradient + static_cast<std::int32_t>(g.made.size());
  };
  Indices cast, by_rows, by_columns, of_weights;
  for (std::int32_t i = 0; i < count; ++i) {
    if (delayed()) cast.push_back(make({1}, DType::f32));
    cast.push_back(by_rows.emplace_back(make({n.rows, n.out}, DType::f8)));
    cast.push_back(by_columns.emplace_back(make({n.out, n.rows}, DType::f8)));
    if (!delayed()) cast.push_back(make({1}, DType::f32));
  }
  const std::int32_t of_x = make(shape(x), dtype_);
  Indices cast_again;
  for (std::int32_t i = 0; n.keeps_input && i < count; ++i) {
    cast_again.push_back(make({n.rows, n.in}, DType::f8));
    cast_again.push_back(columns.emplace_back(make({n.in, n.rows}, DType::f8)));
    cast_again.push_back(make({1}, DType::f32));
  }
  for (std::size_t i = 0; i < places.size(); ++i) {
    g.made.push_back(of_weight(n.weights[i], places[i]));
    of_weights.push_back(gradient + static_cast<std::int32_t>(g.made.size()));
  }
  const ir::Product by_weight{static_cast<std::int32_t>(n.out), ir::Form::nn},
      by_row{static_cast<std::int32_t>(n.rows), ir::Form::tn};
  g.launches = {
      {OpKind::generated, casts(count), leaf_, {gradient}, cast},
      {OpKind::grouped_mm, by_weight, leaf_, joined({by_rows, turned}), {of_x}},
  };
  if (n.keeps_input)
    g.launches.push_back({OpKind::generated, casts(count), leaf_, {0}, cast_again});
  g.launches.push_back(
      {OpKind::grouped_mm, by_row, leaf_, joined({by_columns, columns}), of_weights});
  g.results = {of_x};
  for (std::size_t i = 0; i < places.size(); ++i)
    g.results.push_back(
        result_of_weight(g, gradient, n.weights[i], places[i], of_weights[i], leaf_));
  g.results.resize(static_cast<std::size_t>(gradient), -1);
  return g;
}

/// _GroupedLinear.forward: what is cast lives to its end, of the rows their columns further.
ir::ValueId MegatronLayers::grouped_linear_in_fp8(V x, const std::vector<LinearValues>& layers,
                                                  bool keeps_input) {
  leaf_ = Module::experts;
  const Grouped n = grouped_rows(x, layers, keeps_input);
  std::vector<V> weights, turned, weight_scales;
  for (const LinearValues& l : layers) {
    cast_weight(l);
    weights.push_back(l.fp8);
    turned.push_back(l.fp8_turned);
    weight_scales.push_back(l.scales);
  }
  const V y = plain({shape(x)[0], 1, n.out}, dtype_);
  p_.emit(OpKind::grouped_mm, phase_, at(leaf_),
          joined({n.by_rows, weights, n.scales, weight_scales}), std::vector<V>{y},
          ir::Product{static_cast<std::int32_t>(n.in)});
  std::vector<V> given = keeps_input
                             ? joined({{x}, n.weights, turned, weight_scales})
                             : joined({{x}, n.weights, n.columns, n.scales, turned, weight_scales});
  ir::CompiledGraph backward = grouped_backward(x, n, given);
  return node(OpKind::autograd_function, given, y, std::move(backward));
}

}  // namespace ac_advisor::passes
