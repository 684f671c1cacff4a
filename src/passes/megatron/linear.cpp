// Linear layers that tensor-parallel ranks share. Transformer Engine: module/linear.py,
// module/layernorm_linear.py; Megatron-core: tensor_parallel/layers.py,
// LinearWithGradAccumulationAndAsyncCommunication. Both are autograd functions of their own: in
// backward the input's gradient comes first, then the weight's, then the bias's.
#include "layers.hpp"

namespace ac_advisor::passes {

using ir::CompiledGraph;
using ir::Module;
using ir::OpKind;
using ir::Shape;

namespace {

std::int32_t product(const Shape& shape) {
  return static_cast<std::int32_t>(shape.numel() / shape.back());
}

}  // namespace

/// By columns: the input is gathered along the sequence, or its gradient is summed over ranks. By
/// rows: the output is scattered along the sequence, or summed over ranks.
ir::ValueId MegatronLayers::linear(V x, V weight, V bias, Split split, Module leaf) {
  leaf_ = leaf;
  const bool gathers = split == Split::columns && sequence_;
  const bool buffered = gathers && gathers_into_buffer(leaf);
  const bool scatters = split == Split::rows && sequence_;
  const bool sums = tp_ > 1 && !sequence_ && split != Split::none;
  const Shape own = shape(x), whole = gathers ? with(own, 0, own[0] * tp_) : own;
  const std::int64_t in = own.back(), n = shape(weight)[0];
  const auto inner = [](std::int64_t k) { return static_cast<std::int32_t>(k); };

  V total = x;
  if (gathers) {
    total =
        buffered ? p_.on_storage_of(m_.memory_buffer, whole, dtype_, true) : plain(whole, dtype_);
    emit(OpKind::tp_all_gather, {x}, {total}, ir::TpGather{ir::Joined::tokens, ranks()});
  }
  const Shape made_shape = with(whole, 2, n);
  const V made = plain(made_shape, dtype_);
  const ir::Product forward{inner(in)};
  V result = made;
  if (bias == ir::no_id) {
    emit(OpKind::mm, {total, weight}, {made}, forward);
  } else if (engine()) {
    emit(OpKind::addmm, {bias, total, weight}, {made}, forward);
  } else {
    emit(OpKind::mm, {total, weight}, {made}, forward);
    result = plain(made_shape, dtype_);
    emit(OpKind::add, {made, bias}, {result}, ir::Add{});
  }
  if (scatters) {
    result = plain(with(made_shape, 0, made_shape[0] / tp_), dtype_);
    emit(OpKind::tp_reduce_scatter, {made}, {result}, ir::TpScatter{ranks()});
  } else if (split == Split::rows && sums) {
    emit(OpKind::tp_all_reduce, {made}, {});
  }

  // Given: x, weight, bias, buffer and main gradient where there is one, the output's gradient.
  std::vector<V> given{x, weight};
  if (bias != ir::no_id) given.push_back(bias);
  const auto buffer = static_cast<std::int32_t>(given.size());
  if (buffered) given.push_back(m_.memory_buffer);
  const GradientPlace place = gradient_place(given, weight);
  const auto gradient = static_cast<std::int32_t>(given.size());
  CompiledGraph g;
  const auto make = [&](const Shape& s) {
    g.made.push_back({s, dtype_, -1});
    return gradient + static_cast<std::int32_t>(g.made.size());
  };
  const auto launch = [&](OpKind kind, std::vector<std::int32_t> inputs, std::int32_t output,
                          const ir::Attributes& a) {
    std::vector<std::int32_t> outputs;
    if (output >= 0) outputs.push_back(output);
    g.launches.push_back({kind, a, leaf, std::move(inputs), std::move(outputs)});
  };
  std::int32_t of_output = gradient;
  if (scatters) {
    of_output = make(made_shape);
    launch(OpKind::tp_all_gather, {gradient}, of_output, ir::TpGather{ir::Joined::tokens, ranks()});
  }
  std::int32_t input = 0;
  if (gathers) {
    input = make(whole);
    if (buffered) g.made.back().over = buffer;
    launch(OpKind::tp_all_gather, {0}, input, ir::TpGather{ir::Joined::tokens, ranks()});
  }
  std::int32_t of_input = make(whole);
  launch(OpKind::mm, {of_output, 1}, of_input, ir::Product{inner(n), ir::Form::nn});
  if (gathers) {
    const std::int32_t part = make(own);
    launch(OpKind::tp_reduce_scatter, {of_input}, part, ir::TpScatter{ranks()});
    of_input = part;
  } else if (split == Split::columns && sums) {
    launch(OpKind::tp_all_reduce, {of_input}, -1, {});
  }
  g.made.push_back(of_weight(weight, place));
  const std::int32_t made_weight = gradient + static_cast<std::int32_t>(g.made.size());
  launch(OpKind::mm, {of_output, input}, made_weight, ir::Product{product(whole), ir::Form::tn});
  g.results = {of_input, result_of_weight(g, gradient, weight, place, made_weight, leaf)};
  if (bias != ir::no_id) {
    const std::int32_t of_bias = make(shape(bias));
    launch(OpKind::sum, {of_output}, of_bias, {});
    g.results.push_back(of_bias);
  }
  g.results.resize(given.size(), -1);
  return node(OpKind::autograd_function, given, result, std::move(g));
}

/// Without its bias, which is added with what follows, and after no norm.
ir::ValueId MegatronLayers::linear(V x, const LinearValues& l, Split split, Module leaf) {
  if (in_fp8()) return linear_in_fp8(x, nullptr, l, ir::no_id, split, leaf);
  return linear(x, l.weight, ir::no_id, split, leaf);
}

/// scatter_to_sequence_parallel_region: this rank's part of the sequence, a view that is cloned;
/// its gradient is gathered.
ir::ValueId MegatronLayers::scatter_to_sequence(V x) {
  if (!sequence_) return x;
  const Shape whole = shape(x);
  const V part = plain(with(whole, 0, whole[0] / tp_), dtype_);
  emit(OpKind::copy, {x}, {part});
  CompiledGraph g;
  g.made = {{whole, dtype_, -1}};
  g.launches = {
      {OpKind::tp_all_gather, ir::TpGather{ir::Joined::tokens, ranks()}, leaf_, {1}, {2}}};
  g.results = {2};
  return node(OpKind::autograd_function, {x}, part, std::move(g));
}

}  // namespace ac_advisor::passes
