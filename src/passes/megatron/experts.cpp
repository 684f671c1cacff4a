// Megatron-core's experts on the tokens that came to them (core_v0.16, transformer/moe/experts.py,
// transformer/mlp.py): one MLP after another, or Transformer Engine's GroupedLinear (v2.11,
// pytorch/module/grouped_linear.py). Tokens are spread evenly: every expert has as many.
#include "layers.hpp"

namespace ac_advisor::passes {

using ir::CompiledGraph;
using ir::Module;
using ir::OpKind;
using ir::Shape;

void MegatronLayers::declare_experts(Block& b) {
  const model::MoeSpec& moe = *spec_.moe;
  const std::int64_t h = spec_.hidden, wide = moe.intermediate / config_.layout.expert_tp();
  b.router = parameter({moe.experts, h}, Module::router, true);
  if (moe.megatron->expert_bias)
    for (V* v : {&b.tokens_per_expert, &b.score_correction}) {
      *v = p_.make({moe.experts}, DType::f32, ir::Role::buffer, at(Module::router));
      s_.buffers.push_back(*v);
    }
  const auto weight = [&](std::int64_t in, std::int64_t out) {
    LinearValues l;
    l.in = in;
    l.out = out;
    l.weight = fused(parameter({out, in}, Module::experts, false));
    s_.parameters.back().expert = config_.layout.ep > 1;
    return l;
  };
  const auto add_up = [&] { b.first_of_expert.push_back(weight(h, up_width(wide))); };
  const auto add_down = [&] { b.second_of_expert.push_back(weight(wide, h)); };
  const bool grouped = moe.megatron->grouped;
  for (std::int64_t i = 0; i < local_experts(); ++i) {
    add_up();
    if (!grouped) add_down();
  }
  for (std::int64_t i = 0; grouped && i < local_experts(); ++i) add_down();
  if (in_fp8()) declare_experts_in_fp8(b);
}

/// The activation, and its product with the weight of each row, which is in the router's dtype. Of
/// SwiGLU both are one compiled function (WeightedSwiGLUFunction), which saves what it reads.
ir::ValueId MegatronLayers::weighted_activation(V x, V weights) {
  const DType type = dtype(weights);
  Shape narrow = shape(x);
  if (!spec_.plain_mlp) {
    leaf_ = Module::activation;
    narrow.set(narrow.rank() - 1, narrow.back() / 2);
    const V y = plain(narrow, dtype_);
    p_.emit(OpKind::generated, phase_, at(leaf_), std::vector<V>{x, weights}, std::vector<V>{y},
            ir::Generated{});
    // x, weights, gradient
    CompiledGraph g;
    g.made = {{shape(x), dtype_, -1}, {shape(weights), type, -1}};
    g.launches = {{OpKind::generated, ir::Generated{}, leaf_, {2, 0, 1}, {3, 4}}};
    g.results = {3, 4};
    return node(OpKind::autograd_function, {x, weights}, y, std::move(g));
  }
  const V active = activate(x, ir::no_id), product = plain(narrow, type);
  leaf_ = Module::activation;
  emit(OpKind::mul, {active, weights}, {product});
  V y = product;
  if (type != dtype_) {
    y = plain(narrow, dtype_);
    emit(OpKind::cast, {product}, {y});
  }
  // active, weights, gradient: that of the weights first
  CompiledGraph g;
  std::int32_t next = 3, incoming = 2;
  const auto make = [&](const Shape& s, DType made) {
    g.made.push_back({s, made, -1});
    return next++;
  };
  if (type != dtype_) {
    incoming = make(narrow, type);
    g.launches.push_back({OpKind::cast, {}, leaf_, {2}, {incoming}});
  }
  const std::int32_t by_row = make(narrow, type), of_active = make(narrow, type),
                     of_weights = make(shape(weights), type);
  g.launches.push_back({OpKind::mul, {}, leaf_, {incoming, 0}, {by_row}});
  g.launches.push_back({OpKind::mul, {}, leaf_, {incoming, 1}, {of_active}});
  g.launches.push_back({OpKind::sum, ir::Sum{}, leaf_, {by_row}, {of_weights}});
  g.results = {of_active, of_weights};
  if (type != dtype_) {
    g.results[0] = make(narrow, dtype_);
    g.launches.push_back({OpKind::cast, {}, leaf_, {of_active}, {g.results[0]}});
  }
  return node(OpKind::autograd_function, {active, weights}, y, std::move(g));
}

/// All experts' products in one call, and one gradient of all rows; a gradient of each weight,
/// which are there together.
ir::ValueId MegatronLayers::grouped_linear(V x, const std::vector<LinearValues>& layers,
                                           bool keeps_input) {
  if (in_fp8()) return grouped_linear_in_fp8(x, layers, keeps_input);
  leaf_ = Module::experts;
  const auto count = static_cast<std::int32_t>(layers.size());
  const std::int64_t rows = shape(x)[0], in = layers.front().in, out = layers.front().out;
  const V y = plain({rows, 1, out}, dtype_);
  std::vector<V> given{x};
  for (const LinearValues& layer : layers) given.push_back(layer.weight);
  p_.emit(OpKind::grouped_mm, phase_, at(leaf_), given, std::vector<V>{y},
          ir::Product{static_cast<std::int32_t>(in)});
  std::vector<GradientPlace> places;
  for (const LinearValues& layer : layers) places.push_back(gradient_place(given, layer.weight));
  const auto gradient = static_cast<std::int32_t>(given.size()), of_x = gradient + 1;
  CompiledGraph g;
  g.made = {{shape(x), dtype_, -1}};
  g.results = {of_x};
  std::vector<std::int32_t> read{gradient}, made;
  for (std::int32_t i = 0; i < count; ++i) {
    const GradientPlace place = places[static_cast<std::size_t>(i)];
    const V weight = layers[static_cast<std::size_t>(i)].weight;
    g.made.push_back(of_weight(weight, place));
    read.push_back(1 + i);
    made.push_back(of_x + 1 + i);
    g.results.push_back(result_of_weight(g, gradient, weight, place, made.back(), leaf_));
  }
  g.results.resize(given.size(), -1);
  g.launches = {{OpKind::grouped_mm,
                 ir::Product{static_cast<std::int32_t>(out), ir::Form::nn},
                 leaf_,
                 read,
                 {of_x}},
                {OpKind::grouped_mm,
                 ir::Product{static_cast<std::int32_t>(rows / count), ir::Form::tn},
                 leaf_,
                 {gradient, 0},
                 made}};
  return node(OpKind::autograd_function, given, y, std::move(g));
}

ir::ValueId MegatronLayers::expert_mlp(const LinearValues& up, const LinearValues& down, V rows,
                                       V weights) {
  const V wide = linear(rows, up, Split::none, Module::experts);
  return linear(weighted_activation(wide, weights), down, Split::none, Module::experts);
}

/// TEGroupedMLP.forward, whose variables hold what its products read.
ir::ValueId MegatronLayers::grouped_experts(const Block& b, V rows, V weights) {
  const std::int64_t all = shape(rows)[0], count = local_experts(),
                     needed = rows_in_fp8(all / count) * count;
  rows = padded(rows, needed);
  weights = padded(weights, needed);
  const V wide = grouped_linear(rows, b.first_of_expert);
  const ir::OpId begin = next_op();
  const V active = weighted_activation(wide, weights);
  RecomputedPart of_activation = written(begin, {active});
  const V made =
      grouped_linear(active, b.second_of_expert, recomputes(LayerPart::moe_act) && !delayed());
  let_go(LayerPart::moe_act, std::move(of_activation), made);
  const V y = padded(made, all);
  hold({rows, weights, wide, recomputes(LayerPart::moe_act) ? ir::no_id : active, made});
  return y;
}

ir::ValueId MegatronLayers::sequential_experts(const Block& b, V rows, V weights) {
  const std::int64_t count = local_experts(), all = shape(rows)[0];
  const std::int64_t each = all / count, needed = rows_in_fp8(each);
  const auto expert = [&](std::size_t i, V x, V by) {
    const V y = expert_mlp(b.first_of_expert[i], b.second_of_expert[i], filled_up(x, needed),
                           filled_up(by, needed));
    return first_rows(y, each);
  };
  if (count == 1) return expert(0, rows, weights);
  leaf_ = Module::experts;
  const auto parts = [&](V whole) {
    std::vector<V> made;
    Shape one = shape(whole);
    one.set(0, each);
    for (std::int64_t i = 0; i < count; ++i) {
      made.push_back(p_.on_storage_of(whole, one, dtype(whole), false));
      p_.value(made.back()).requires_grad = true;
    }
    p_.emit(OpKind::split, phase_, at(leaf_), std::vector<V>{whole}, made);
    return made;
  };
  const std::vector<V> rows_of = parts(rows), weights_of = parts(weights);
  std::vector<V> outs;
  for (std::size_t i = 0; i < rows_of.size(); ++i)
    outs.push_back(expert(i, rows_of[i], weights_of[i]));
  leaf_ = Module::experts;
  const V joined = bf16(shape(rows));
  p_.emit(OpKind::cat, phase_, at(leaf_), outs, std::vector<V>{joined});
  hold_all(outs);
  return joined;
}

/// `rows` [rows, 1, hidden] in the order of experts, their weights [rows, 1, 1].
ir::ValueId MegatronLayers::experts(const Block& b, V rows, V weights) {
  return spec_.moe->megatron->grouped ? grouped_experts(b, rows, weights)
                                      : sequential_experts(b, rows, weights);
}

}  // namespace ac_advisor::passes
