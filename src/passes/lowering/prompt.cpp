// Learned tokens of PEFT v0.21: peft_model.py, PeftModelForCausalLM.forward and get_prompt;
// tuners/prompt_tuning/model.py, tuners/p_tuning/model.py, tuners/prefix_tuning/model.py, whose
// keys and values are transformers v5.23's DynamicCache (cache_utils.py).
#include "ac_advisor/model/adapter_method.hpp"
#include "lowering.hpp"

namespace ac_advisor::passes {

using ir::Module;
using ir::OpKind;
using ir::Shape;

/// In fp32. p-tuning's PromptEncoder, by its default: three linear layers as wide as the model.
void Lowering::declare_prompt() {
  const bool prefix = config_.adapters.prefix_tokens() > 0;
  const std::int64_t h = spec_.hidden;
  const std::int64_t width = prefix ? 2 * spec_.layers * spec_.kv_heads * spec_.head_dim : h;
  m_.prompt = trained({config_.adapters.size, width}, DType::f32, Module::embed);
  if (config_.adapters.method == AdapterMethod::trainable_tokens)  // trainable_tokens_original
    s_.buffers.push_back(
        p_.make({config_.adapters.size, h}, DType::f32, ir::Role::buffer, at(Module::embed)));
  if (config_.adapters.method != AdapterMethod::p_tuning) return;
  for (int layer = 0; layer < 3; ++layer) {
    Linear l;
    l.in = l.out = h;
    l.weight = trained({h, h}, DType::f32, Module::embed);
    l.bias = trained({h}, DType::f32, Module::embed);
    m_.prompt_encoder.push_back(l);
  }
}

/// The prompt before each sequence's words, made once and repeated; its labels count for nothing.
/// Indices and those labels are made on the host.
ir::ValueId Lowering::with_prompt(V words) {
  const std::int64_t b = config_.run.batch, n = config_.adapters.size, h = spec_.hidden;
  const V no_labels = make_int(OpKind::empty, {b, n}, DType::i64, {});
  labels_ = make_int(OpKind::cat, {b, config_.run.seq}, DType::i64, {no_labels, m_.labels});
  V learned = looked_up({1, n, h});
  for (std::size_t i = 0; i < m_.prompt_encoder.size(); ++i) {
    if (i > 0) learned = unary(OpKind::relu, learned);
    learned = base_linear(learned, m_.prompt_encoder[i]);
  }
  if (b > 1) {
    const V wide = p_.on_storage_of(learned, {b, n, h}, DType::f32, false);
    emit(OpKind::expand, {learned}, {wide});
    learned = wide;
  }
  const V repeated = out({b, n, h}, DType::f32, true);
  emit(OpKind::clone, {learned}, {repeated});
  const V prompt = cast(repeated, dtype(words));
  const V x = out({b, config_.run.seq, h}, dtype(words), true);
  emit(OpKind::cat, {prompt, words}, {x});
  prompt_frame_ = {no_labels, labels_, prompt, x};
  return x;
}

/// tuners/trainable_tokens/layer.py, get_merged_weights: the embedding's weight, copied, with the
/// trained rows in it. Their indices come from the host.
ir::ValueId Lowering::with_tokens(V weight) {
  const V indices = make_int(OpKind::empty, {config_.adapters.size}, DType::i64, {});
  const V rows = cast(m_.prompt, dtype(weight));
  const V copy = make_int(OpKind::clone, shape(weight), dtype(weight), {weight});
  const V merged = p_.on_storage_of(copy, shape(weight), dtype(weight), true);
  p_.value(merged).requires_grad = true;
  emit(OpKind::index_put, {copy, indices, rows, rows}, {merged});  // index_copy
  return merged;
}

ir::ValueId Lowering::looked_up(const Shape& size) {
  const V indices = make_int(OpKind::empty, {config_.run.batch, size[1]}, DType::i64, {});
  const V rows = size[0] == config_.run.batch ? indices : p_.narrow(indices, 0, 0, size[0]);
  const V y = out(size, DType::f32, true);
  emit(OpKind::embedding, {m_.prompt, rows}, {y});
  return y;
}

/// get_prompt for a prefix: all blocks' keys and values at once, (2 x blocks, batch, heads, tokens,
/// width), which a DynamicCache copies, a block's keys and values each.
void Lowering::make_prefix() {
  leaf_ = Module::embed;
  const std::int64_t b = config_.run.batch, n = config_.adapters.size, blocks = spec_.layers;
  const Shape one{b, spec_.kv_heads, n, spec_.head_dim};
  const V flat = cast(looked_up({b, n, 2 * blocks * spec_.kv_heads * spec_.head_dim}), dtype_);
  const V all = p_.on_storage_of(flat, {2 * blocks, b, one[1], n, one[3]}, dtype_, false);
  p_.value(all).permuted = true;
  emit(OpKind::view, {flat}, {all});
  std::vector<V> of_blocks;
  for (std::int64_t i = 0; i < blocks; ++i)
    of_blocks.push_back(p_.on_storage_of(flat, {2, b, one[1], n, one[3]}, dtype_, false));
  p_.emit(OpKind::split, phase_, at(leaf_), std::vector<V>{all}, of_blocks);
  for (const V pair : of_blocks) {
    const V keys = p_.on_storage_of(flat, one, dtype_, false),
            values = p_.on_storage_of(flat, one, dtype_, false);
    const V both = p_.on_storage_of(flat, shape(pair), dtype_, false);
    emit(OpKind::slice, {pair}, {both}, ir::Slice{0, 0});  // [:2], which are all
    emit(OpKind::split, {both}, {keys, values});
    for (const V part : {keys, values}) {
      cache_.push_back(out(one, dtype_, true));
      emit(OpKind::cat, {part}, {cache_.back()});
    }
  }
}

/// DynamicLayer.update: a block's keys, or values, after what the cache has of them, and in its
/// place.
ir::ValueId Lowering::after_prefix(V x, std::size_t place) {
  leaf_ = Module::attention;
  Shape size = shape(x);
  size.set(2, size[2] + config_.adapters.size);
  const V y = out(size, dtype(x), true);
  emit(OpKind::cat, {cache_[place], x}, {y});
  cache_[place] = y;
  return y;
}

}  // namespace ac_advisor::passes
