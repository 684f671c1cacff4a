// Megatron-core's GPTModel.forward, TransformerLayer.forward, MLP.forward, and what its batches and
// fused element-wise functions hold (core_v0.16: models/gpt/gpt_model.py, transformer/
// transformer_layer.py, transformer/mlp.py, fusions/).
#include "layers.hpp"

namespace ac_advisor::passes {

using ir::CompiledGraph;
using ir::Module;
using ir::OpKind;
using ir::Role;
using ir::Shape;

ir::ValueId MegatronLayers::in_place(OpKind kind, V target, std::initializer_list<V> inputs,
                                     const ir::Attributes& attributes) {
  const ir::Value like = p_.value(target);
  const V next = p_.on_storage_of(target, like.shape, like.dtype, true);
  emit(kind, inputs, {next}, attributes);
  return next;
}

/// pretrain_gpt.py, get_batch: what the micro-batch's forward is given, until it returns. A mask is
/// made though causal attention does not read it (--create-attention-mask-in-dataloader).
void MegatronLayers::get_batch() {
  leaf_ = Module::root;
  const bool first = stage().embedding, last = stage().head;
  if (!first && !last) return;
  const Shape tokens{batch_, seq_};
  std::vector<V> made;
  const auto make = [&](const Shape& shape, DType type) {
    const V v = p_.make(shape, type, Role::input, at(Module::root));
    made.push_back(v);
    return v;
  };
  if (first) tokens_ = make(tokens, DType::i64);
  if (last) labels_ = make(tokens, DType::i64);
  if (last) loss_mask_ = make(tokens, DType::f32);
  mask_ = make({batch_, 1, seq_, config_.run.seq}, DType::u8);
  if (first) positions_ = make(tokens, DType::i64);
  p_.emit(OpKind::empty, phase_, at(Module::root), std::vector<V>{}, made);
}

/// LanguageModelEmbedding.forward. VocabParallelEmbedding looks rows up where this rank has them,
/// and the sum over ranks is in place.
ir::ValueId MegatronLayers::embedding() {
  leaf_ = Module::embed;
  const Shape tokens{batch_, seq_}, hidden{batch_, seq_, spec_.hidden};
  V rows = tokens_, elsewhere = ir::no_id;
  if (tp_ > 1) {
    elsewhere = plain(tokens, DType::u8);
    emit(OpKind::compare, {tokens_}, {elsewhere});
    rows = plain(tokens, DType::i64);
    emit(OpKind::clone, {tokens_}, {rows});
    rows = in_place(OpKind::mask_shard, rows, {rows, elsewhere});
  }
  const V words = bf16(hidden);
  emit(OpKind::embedding, {m_.embed, rows}, {words}, ir::Embedding{1});
  if (tp_ > 1) {
    emit(OpKind::mask_shard, {words, elsewhere}, {});
    emit(OpKind::tp_all_reduce, {words}, {});
  }
  V x = words, at_positions = ir::no_id;
  if (spec_.position_table > 0) {
    at_positions = bf16(hidden);
    emit(OpKind::embedding, {m_.positions, positions_}, {at_positions});
    x = bf16(hidden);
    emit(OpKind::add, {words, at_positions}, {x});
  }
  const V sum = x;
  x = bf16({seq_, batch_, spec_.hidden});
  emit(OpKind::clone, {p_.reshape(sum, {seq_, batch_, spec_.hidden})}, {x});
  x = scatter_to_sequence(x);
  const V y = dropped(x, spec_.embedding_dropout);
  hold({words, at_positions, sum, x});
  return y;
}

/// Transformer Engine's and Apex's norms save their input, and a mean and a scale a token.
ir::ValueId MegatronLayers::norm(V x, V weight, V bias, Module leaf) {
  leaf_ = leaf;
  const Shape s = shape(x);
  Shape row = s;
  row.set(s.rank() - 1, 1);
  const V y = plain(s, dtype_);
  const V scale = plain(row, DType::f32);
  CompiledGraph g;
  if (spec_.norm == model::Norm::rms) {
    emit(OpKind::rms_norm, {x, weight}, {y, scale}, ir::RmsNorm{spec_.rms_norm_eps});
    // x, weight, scale, gradient
    g.made = {{s, dtype_, -1}, {shape(weight), dtype_, -1}};
    g.launches = {{OpKind::layer_norm_backward,
                   ir::LayerNorm{spec_.rms_norm_eps},
                   leaf,
                   {3, 0, 1, 2},
                   {4, 5}}};
    g.results = {4, 5, -1};
    return node(OpKind::autograd_function, {x, weight, scale}, y, std::move(g));
  }
  const V mean = plain(row, DType::f32);
  emit(OpKind::layer_norm, {x, weight, bias}, {y, mean, scale}, ir::LayerNorm{spec_.rms_norm_eps});
  // x, weight, bias, mean, scale, gradient
  g.made = {{s, dtype_, -1}, {shape(weight), dtype_, -1}, {shape(bias), dtype_, -1}};
  g.launches = {{OpKind::layer_norm_backward,
                 ir::LayerNorm{spec_.rms_norm_eps},
                 leaf,
                 {5, 0, 3, 4, 1},
                 {6, 7, 8}}};
  g.results = {6, 7, 8, -1, -1};
  return node(OpKind::autograd_function, {x, weight, bias, mean, scale}, y, std::move(g));
}

/// fused_bias_dropout.py, compiled: one kernel, which saves the mask as booleans. Of the residual
/// the gradient is the one that comes.
ir::ValueId MegatronLayers::bias_dropout_add(V x, V bias, V residual) {
  leaf_ = Module::block;
  const Shape s = shape(x);
  const V y = plain(s, dtype_);
  const bool biased = bias != ir::no_id, drops = spec_.residual_dropout > 0.0;
  std::vector<V> given{x, residual}, made{y};
  if (biased) given.push_back(bias);
  const std::vector<V> read = given;
  if (drops) {
    made.push_back(plain(s, DType::u8));
    given.push_back(made.back());
  }
  p_.emit(OpKind::generated, phase_, at(leaf_), read, made, ir::Generated{});
  const auto gradient = static_cast<std::int32_t>(given.size()), mask = gradient - 1;
  CompiledGraph g;
  std::int32_t of_x = gradient, next = gradient + 1;
  if (drops) {
    g.made.push_back({s, dtype_, -1});
    of_x = next++;
    g.launches.push_back({OpKind::generated, ir::Generated{}, leaf_, {gradient, mask}, {of_x}});
  }
  g.results = {of_x, gradient};
  if (biased) {
    g.made.push_back({shape(bias), dtype_, -1});
    g.launches.push_back({OpKind::sum, ir::Sum{}, leaf_, {of_x}, {next}});
    g.results.push_back(next);
  }
  if (drops) g.results.push_back(-1);
  return node(OpKind::compiled_unit, given, y, std::move(g));
}

/// The functions between the two projections save what they read: GeLUFunction and
/// BiasSwiGLUFunction their input and the bias, whose gradient is that of the input;
/// SwiGLUFunction, F.gelu and the compiled squared ReLU their input alone.
ir::ValueId MegatronLayers::activate(V x, V bias) {
  leaf_ = Module::activation;
  Shape narrow = shape(x);
  if (!spec_.plain_mlp) narrow.set(narrow.rank() - 1, narrow.back() / 2);
  const V y = plain(narrow, dtype_);
  std::vector<V> given{x};
  if (bias != ir::no_id) given.push_back(bias);
  p_.emit(OpKind::generated, phase_, at(leaf_), given, std::vector<V>{y}, ir::Generated{});
  const auto gradient = static_cast<std::int32_t>(given.size()), made = gradient + 1;
  CompiledGraph g;
  g.made = {{shape(x), dtype_, -1}};
  std::vector<std::int32_t> read;
  for (std::int32_t i = gradient; i >= 0; --i) read.push_back(i);
  g.launches = {{OpKind::generated, ir::Generated{}, leaf_, read, {made}}};
  g.results.assign(given.size(), made);
  return node(OpKind::autograd_function, given, y, std::move(g));
}

ir::ValueId MegatronLayers::mlp(const Block& b, V wide) {
  return linear(activate(wide, b.up.bias), b.down, Split::rows, Module::down_proj);
}

/// Transformer Engine's first layer has the norm in it.
ir::ValueId MegatronLayers::dense_mlp(const Block& b, V x, const NormOf& before) {
  ir::OpId begin = next_op();
  if (engine()) {
    const V y = mlp(b, normed_linear(x, before, b.up, ir::no_id, first_of_mlp()));
    checkpoint(LayerPart::mlp, begin);
    return y;
  }
  const V normed = norm(x, before.weight, before.bias, before.leaf);
  RecomputedPart of_norm = written(begin, {normed});
  begin = next_op();
  const V y = mlp(b, linear(normed, b.up, Split::columns, first_of_mlp()));
  checkpoint(LayerPart::mlp, begin);
  let_go(LayerPart::layernorm, std::move(of_norm), y);
  return y;
}

ir::ValueId MegatronLayers::sparse_mlp(const Block& b, V x, const NormOf& before) {
  ir::OpId begin = next_op();
  const V normed = norm(x, before.weight, before.bias, before.leaf);
  RecomputedPart of_norm = written(begin, {normed});
  begin = next_op();
  const V y = moe(b, normed);
  checkpoint(LayerPart::moe, begin);
  let_go(LayerPart::layernorm, std::move(of_norm), y);
  return y;
}

ir::ValueId MegatronLayers::block(const Block& b, std::int16_t index, V x) {
  block_ = index;
  V h = attention(b, x);
  const V middle = bias_dropout_add(h, b.o.bias, x);
  const NormOf before{b.norm2, b.norm2_bias, Module::norm2};
  h = has_experts(index) ? sparse_mlp(b, middle, before) : dense_mlp(b, middle, before);
  const V y = bias_dropout_add(h, has_experts(index) ? ir::no_id : b.down.bias, middle);
  block_ = -1;
  return y;
}

void MegatronLayers::forward() {
  phase_ = ir::Phase::forward;
  s_.parts.clear();
  find_fused();
  get_batch();
  V x = stage().embedding ? embedding() : s_.ends.back().input;
  const V embedded = x;
  for (std::int64_t i = stage().first; i < stage().end; ++i)
    x = block(m_.blocks[static_cast<std::size_t>(i)], static_cast<std::int16_t>(i), x);
  s_.loss = ir::no_id;
  s_.outputs = {x};
  if (stage().head) {
    s_.hidden = norm(x, m_.final_norm, m_.final_norm_bias, Module::final_norm);
    hold({embedded});
    loss(s_.hidden);
    s_.outputs = {};
  }
  leaf_ = Module::root;
  hold({tokens_, labels_, positions_, mask_, loss_mask_});
  if (!s_.ends.empty()) s_.ends.back().output = stage().head ? s_.loss : s_.outputs.front();
}

}  // namespace ac_advisor::passes
