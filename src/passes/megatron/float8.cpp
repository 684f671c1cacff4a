// Transformer Engine's linear layers in FP8 on Hopper (v2.14: pytorch/module/linear.py,
// layernorm_linear.py, base.py, csrc/quantizer.cpp, csrc/extensions/), whose products read rows
// alone: what a product sums over otherwise is kept the other way round, too. With a norm they are
// one function of it and the product.
#include "layers.hpp"

namespace ac_advisor::passes {

using ir::CompiledGraph;
using ir::Module;
using ir::OpKind;
using ir::Role;
using ir::Shape;

namespace {

Shape turned(const Shape& s) { return {s.back(), s.numel() / s.back()}; }

}  // namespace

bool MegatronLayers::in_fp8() const { return config_.precision.float8(); }

ir::ValueId MegatronLayers::buffer(const Shape& size, DType type, Module leaf) {
  const V v = p_.make(size, type, Role::buffer, at(leaf));
  s_.buffers.push_back(v);
  return v;
}

void MegatronLayers::declare_in_fp8(LinearValues& l, Module leaf) {
  if (!in_fp8()) return;
  declare_copies(l, leaf);
  declare_scales(1, leaf);
}

/// get_weight_workspace: the weight in 8 bits, and once more the other way round, which stay.
void MegatronLayers::declare_copies(LinearValues& l, Module leaf) {
  l.fp8 = buffer({l.out, l.in}, DType::f8, leaf);
  l.fp8_turned = buffer({l.in, l.out}, DType::f8, leaf);
  l.scales = buffer({1}, DType::f32, leaf);
}

/// Of a layer of so many products: three operands forward of each, and two backward. Delayed
/// scaling has a history of all maxima and one tensor of scales, current scaling a maximum and a
/// scale each.
void MegatronLayers::declare_scales(std::int64_t products, Module leaf) {
  constexpr std::int64_t forward = 3, backward = 2;
  for (const std::int64_t operands : {forward * products, backward * products}) {
    if (delayed()) {
      buffer({operands}, DType::f32, leaf);
      buffer({1, operands}, DType::f32, leaf);
    } else {
      for (std::int64_t i = 0; i < 2 * operands; ++i) buffer({1}, DType::f32, leaf);
    }
  }
}

/// By rows for its product, the other way round for its weight's gradient, which sums over tokens.
/// Current scaling finds the largest, and a scale, by kernels of their own.
MegatronLayers::Eight MegatronLayers::quantized(V x, bool saved) {
  const Eight made = make_eight(shape(x), saved);
  std::vector<V> outputs{made.inverse, made.rows};
  if (saved) outputs.push_back(made.columns);
  p_.emit(OpKind::generated, phase_, at(leaf_), std::vector<V>{x}, outputs,
          ir::Generated{delayed() ? 1 : 3});
  return made;
}

MegatronLayers::Eight MegatronLayers::make_eight(Shape s, bool saved) {
  Eight made;
  if (delayed()) made.inverse = plain({1}, DType::f32);
  made.rows = plain(s, DType::f8);
  if (saved) made.columns = plain(turned(s), DType::f8);
  if (!delayed()) made.inverse = plain({1}, DType::f32);
  return made;
}

/// Once a step, before the first micro-batch's product.
void MegatronLayers::cast_weight(const LinearValues& l) {
  if (s_.micro_begin.size() > 1) return;
  p_.emit(OpKind::generated, phase_, at(leaf_), std::vector<V>{l.weight, l.fp8, l.fp8_turned},
          std::vector<V>{}, ir::Generated{delayed() ? 1 : 3});
}

/// `turned`: the other way round, too.
MegatronLayers::Normed MegatronLayers::norm_in_fp8(V x, V weight, V bias, bool turned) {
  Normed n;
  Shape row = shape(x);
  row.set(row.rank() - 1, 1);
  if (bias != ir::no_id) n.mean = plain(row, DType::f32);
  n.scale = plain(row, DType::f32);
  n.eight = make_eight(shape(x), turned);
  std::vector<V> made{n.scale}, read{x, weight};
  if (bias != ir::no_id) made.insert(made.begin(), n.mean), read.push_back(bias);
  std::vector<V> cast{n.eight.rows};
  if (turned) cast.push_back(n.eight.columns);
  if (delayed()) {  // into rows, which a kernel turns over
    made.push_back(n.eight.inverse);
    made.insert(made.end(), cast.begin(), cast.end());
    p_.emit(OpKind::generated, phase_, at(leaf_), read, made, ir::Generated{turned ? 2 : 1});
    return n;
  }
  // In bf16 with its largest, then cast.
  cast.push_back(n.eight.inverse);
  made.insert(made.end(), cast.begin(), cast.end());
  const V wide = plain(shape(x), dtype_);
  made.push_back(wide);
  p_.emit(OpKind::generated, phase_, at(leaf_), read, made, ir::Generated{1});
  cast.insert(cast.begin(), wide);
  p_.emit(OpKind::generated, phase_, at(leaf_), cast, std::vector<V>{}, ir::Generated{2});
  return n;
}

/// Of sequences in parts 8 bits are gathered, by rows alone (distributed.py, _all_gather_fp8): the
/// input's, which are saved as this rank's part and gathered and turned over again in backward, and
/// the output's gradient's.
ir::ValueId MegatronLayers::linear_in_fp8(V x, const NormOf* norm, const LinearValues& l, V bias,
                                          Split split, Module leaf) {
  const Shape s = shape(x);
  const bool gathers = split == Split::columns && sequence_,
             scatters = split == Split::rows && sequence_, sums = tp_ > 1 && !sequence_;
  const Shape whole = gathers ? with(s, 0, s[0] * tp_) : s;
  const Shape made_shape = with(whole, s.rank() - 1, l.out);
  // Megatron-core's set_save_original_input: what attention has saved in any case (attention.py),
  // and the router, unless a checkpoint is around the shared expert (shared_experts.py).
  const bool of_shared = split == Split::columns && !recomputes(LayerPart::shared_experts);
  const bool keeps_input = norm == nullptr && !delayed() && (leaf == Module::o_proj || of_shared);
  const ir::TpGather gather{ir::Joined::tokens, ranks()};
  Normed n;
  leaf_ = norm != nullptr ? norm->leaf : leaf;
  if (norm != nullptr)
    n = norm_in_fp8(x, norm->weight, norm->bias, !gathers);
  else
    n.eight = quantized(x, !keeps_input && !gathers);
  leaf_ = leaf;
  V rows = n.eight.rows;
  if (gathers) {
    rows = plain(whole, DType::f8);
    emit(OpKind::tp_all_gather, {n.eight.rows}, {rows}, gather);
  }
  cast_weight(l);
  const V made = plain(made_shape, dtype_);
  const auto inner = [](std::int64_t k) { return static_cast<std::int32_t>(k); };
  emit(OpKind::fp8_product, {rows, l.fp8, n.eight.inverse, l.scales}, {made},
       ir::Product{inner(l.in)});
  V result = made;
  if (scatters) {
    result = plain(with(made_shape, 0, made_shape[0] / tp_), dtype_);
    emit(OpKind::tp_reduce_scatter, {made}, {result}, ir::TpScatter{ranks()});
  } else if (split == Split::rows && sums) {
    emit(OpKind::tp_all_reduce, {made}, {});
  }

  // Given: what has a gradient, then what else is saved, then the output's gradient.
  std::vector<V> given{x, l.weight};
  const auto take = [&](V v) {
    given.push_back(v);
    return static_cast<std::int32_t>(given.size()) - 1;
  };
  const bool biased = bias != ir::no_id, centred = norm != nullptr && norm->bias != ir::no_id;
  if (biased) take(bias);
  const std::int32_t norm_weight = norm != nullptr ? take(norm->weight) : -1;
  if (centred) take(norm->bias);
  std::int32_t columns =
      keeps_input ? -1 : take(gathers ? n.eight.rows : n.eight.columns);  // gathered: rows as yet
  const std::int32_t inverse = take(keeps_input ? l.scales : n.eight.inverse),
                     weight = take(l.fp8_turned), weight_scale = take(l.scales);
  std::vector<std::int32_t> rows_kept;
  if (centred) rows_kept.push_back(take(n.mean));
  if (norm != nullptr) rows_kept.push_back(take(n.scale));
  const GradientPlace place = gradient_place(given, l.weight);
  const auto gradient = static_cast<std::int32_t>(given.size());

  CompiledGraph g;
  const auto make = [&](const Shape& size, DType type) {
    g.made.push_back({size, type, -1});
    return gradient + static_cast<std::int32_t>(g.made.size());
  };
  const auto launch = [&](OpKind kind, std::vector<std::int32_t> in, std::vector<std::int32_t> out,
                          const ir::Attributes& a, Module of) {
    g.launches.push_back({kind, a, of, std::move(in), std::move(out)});
  };
  const std::int64_t tokens = whole.numel() / whole.back();
  std::vector<std::int32_t> quantized;
  if (biased) quantized.push_back(make(shape(bias), dtype_));
  const std::int32_t of_bias = biased ? quantized.back() : -1;
  if (delayed()) quantized.push_back(make({1}, DType::f32));
  std::int32_t g_rows = make(shape(result), DType::f8), g_columns = -1;
  quantized.push_back(g_rows);
  if (!scatters) quantized.push_back(g_columns = make(turned(made_shape), DType::f8));
  if (!delayed()) quantized.push_back(make({1}, DType::f32));
  launch(OpKind::generated, {gradient}, quantized, ir::Generated{delayed() ? 1 : 4}, leaf);
  if (scatters) {
    const std::int32_t own = g_rows;
    g_rows = make(made_shape, DType::f8);
    g_columns = make(turned(made_shape), DType::f8);
    launch(OpKind::tp_all_gather, {own}, {g_rows}, gather, leaf);
    launch(OpKind::generated, {g_rows}, {g_columns}, ir::Generated{}, leaf);
  }
  if (keeps_input) {
    std::vector<std::int32_t> again{make(s, DType::f8)};
    if (!gathers) again.push_back(make(turned(s), DType::f8));
    columns = again.back();
    again.push_back(make({1}, DType::f32));
    launch(OpKind::generated, {0}, again, ir::Generated{3}, leaf);
  }
  std::int32_t gathered = -1;
  if (gathers) {
    gathered = make(whole, DType::f8);
    launch(OpKind::tp_all_gather, {columns}, {gathered}, gather, leaf);
  }
  const std::int32_t of_whole = make(whole, dtype_);
  launch(OpKind::fp8_product, {g_rows, weight, inverse, weight_scale}, {of_whole},
         ir::Product{inner(l.out), ir::Form::nn}, leaf);
  std::int32_t of_input = of_whole;
  if (gathers) {
    of_input = make(s, dtype_);
    launch(OpKind::tp_reduce_scatter, {of_whole}, {of_input}, ir::TpScatter{ranks()}, leaf);
    columns = make(turned(whole), DType::f8);
    launch(OpKind::generated, {gathered}, {columns}, ir::Generated{}, leaf);
  } else if (split == Split::columns && sums) {
    launch(OpKind::tp_all_reduce, {of_whole}, {}, {}, leaf);
  }
  g.made.push_back(of_weight(l.weight, place));
  const std::int32_t made_weight = gradient + static_cast<std::int32_t>(g.made.size());
  launch(OpKind::fp8_product, {g_columns, columns, inverse}, {made_weight},
         ir::Product{inner(tokens), ir::Form::tn}, leaf);
  if (gathers) launch(OpKind::hold, {gathered}, {}, {}, leaf);  // a tensor in both directions
  g.results = {of_input, result_of_weight(g, gradient, l.weight, place, made_weight, leaf)};
  if (biased) g.results.push_back(of_bias);
  if (norm != nullptr) {
    std::vector<std::int32_t> read{of_input, 0}, out;
    read.insert(read.end(), rows_kept.begin(), rows_kept.end());
    read.push_back(norm_weight);
    out.push_back(make(s, dtype_));
    out.push_back(make(shape(norm->weight), dtype_));
    if (centred) out.push_back(make(shape(norm->bias), dtype_));
    launch(OpKind::layer_norm_backward, read, out, ir::LayerNorm{spec_.rms_norm_eps}, norm->leaf);
    g.results.front() = out[0];
    for (std::size_t i = 1; i < out.size(); ++i) g.results.push_back(out[i]);
  }
  // The function's frame has its gradient, in both precisions, to its end.
  launch(OpKind::hold, {gradient, g_rows, g_columns, of_whole}, {}, {}, leaf);
  g.results.resize(given.size(), -1);
  return node(OpKind::compiled_unit, given, result, std::move(g));
}

ir::ValueId MegatronLayers::normed_linear(V x, const NormOf& norm, const LinearValues& l, V bias,
                                          Module leaf) {
  if (in_fp8()) return linear_in_fp8(x, &norm, l, bias, Split::columns, leaf);
  const V h = this->norm(x, norm.weight, norm.bias, norm.leaf);
  return linear(h, l.weight, bias, Split::columns, leaf);
}

}  // namespace ac_advisor::passes
