// transformers v5.23: CLIPVisionModel.forward (models/clip/), LlavaModel.get_image_features and
// .forward (models/llava/): images become rows of the decoder's input.
#include "ac_advisor/model/image_size.hpp"
#include "lowering.hpp"

namespace ac_advisor::passes {
namespace {

constexpr double norm_epsilon = 1e-5;  // it changes values alone

}  // namespace

using ir::Module;
using ir::OpKind;
using ir::Role;
using ir::Shape;

/// In the order of `model.parameters()`. What comes after the layer that the projector reads gets
/// no gradient, so neither moments.
void Lowering::declare_tower() {
  const model::TowerRun& run = *spec_.tower->run;
  if (run.any_size()) return declare_patches();
  TowerValues& t = m_.tower;
  const std::int64_t h = run.hidden, rows = run.patches() + 1;
  bool trained = !config_.run.frozen.tower;
  const auto tensor = [&](const Shape& size) { return tower_tensor(size, trained); };
  const auto linear = [&](const char* name, std::int64_t in, std::int64_t out) {
    return tower_linear(name, in, out, trained);
  };
  t.class_token = tensor({h});
  t.patch = tensor({h, run.channels, run.patch, run.patch});
  t.positions = tensor({rows, h});
  t.norm = tensor({h});
  t.norm_bias = tensor({h});
  t.layers.clear();
  for (std::int64_t i = 0; i < run.layers; ++i) {
    trained = i < run.layers_read && !config_.run.frozen.tower;
    TowerLayerValues l;
    l.k = linear("self_attn.k_proj", h, h);
    l.v = linear("self_attn.v_proj", h, h);
    l.q = linear("self_attn.q_proj", h, h);
    l.o = linear("self_attn.out_proj", h, h);
    l.norm1 = tensor({h});
    l.norm1_bias = tensor({h});
    l.up = linear("mlp.fc1", h, run.intermediate);
    l.down = linear("mlp.fc2", run.intermediate, h);
    l.norm2 = tensor({h});
    l.norm2_bias = tensor({h});
    t.layers.push_back(l);
  }
  trained = false;
  t.last_norm = tensor({h});
  t.last_norm_bias = tensor({h});
  trained = !config_.run.frozen.projector;
  t.first = linear("multi_modal_projector.linear_1", h, spec_.hidden);
  t.second = linear("multi_modal_projector.linear_2", spec_.hidden, spec_.hidden);
  t.places = p_.make({1, rows}, DType::i64, Role::buffer, at(Module::vision_tower));
  s_.buffers.push_back(t.places);
  // As a processor makes them.
  t.pixels = p_.make({config_.run.batch * config_.run.images, run.channels, run.image, run.image},
                     DType::f32, Role::input, at(Module::vision_tower));
  s_.inputs.push_back(t.pixels);
}

/// CLIPVisionEmbeddings.forward and `pre_layrnorm`: (images, 1 + patches, hidden).
ir::ValueId Lowering::tower_embeddings() {
  const model::TowerRun& run = *spec_.tower->run;
  const TowerValues& t = m_.tower;
  const std::int64_t n = shape(t.pixels)[0], h = run.hidden, side = run.image / run.patch;
  const V pixels = cast(t.pixels, dtype_);
  const bool trained = grad(t.patch);
  const V planes = out({n, h, side, side}, dtype_, trained);
  const std::int64_t inner = run.channels * run.patch * run.patch;
  emit(OpKind::convolution, {pixels, t.patch}, {planes},
       ir::Product{static_cast<std::int32_t>(inner)});
  const V patches = p_.reshape(planes, {n, run.patches(), h});
  const V token = p_.on_storage_of(t.class_token, {n, 1, h}, dtype_, false);
  emit(OpKind::expand, {t.class_token}, {token});
  const V joined = out({n, run.patches() + 1, h}, dtype_, trained);
  emit(OpKind::cat, {token, patches}, {joined});
  const V places = out({1, run.patches() + 1, h}, dtype_, trained);
  emit(OpKind::embedding, {t.positions, t.places}, {places});
  const V placed = binary(OpKind::add, joined, places);
  hold({planes, joined});
  return native_layer_norm(placed, t.norm, t.norm_bias, norm_epsilon);
}

/// CLIPAttention.forward: every token sees every other.
ir::ValueId Lowering::tower_attention(const TowerLayerValues& l, V x) {
  const model::TowerRun& run = *spec_.tower->run;
  const std::int64_t width = run.hidden / run.heads;
  const V q_flat = linear(x, l.q), k_flat = linear(x, l.k), v_flat = linear(x, l.v);
  const V q = by_head(q_flat, run.heads, width), k = by_head(k_flat, run.heads, width),
          v = by_head(v_flat, run.heads, width);
  const V y = attended(q, k, v, ir::no_id, {.scale = 1.0, .causal = false});
  const V projected = linear(p_.reshape(y, shape(x)), l.o);
  hold({x, q, k, v, y});
  return projected;
}

ir::ValueId Lowering::tower_activation(V x) {
  if (!spec_.tower->run->sigmoid_gelu) return unary(OpKind::gelu, x);
  constexpr double slope = 1.702;  // QuickGELUActivation
  return binary(OpKind::mul, x,
                unary(OpKind::sigmoid, unary(OpKind::mul_scalar, x, ir::Number{slope})));
}

/// CLIPEncoderLayer.forward
ir::ValueId Lowering::tower_layer(const TowerLayerValues& l, V x) {
  const ir::OpId first = last_op() + 1;
  const V middle =
      binary(OpKind::add, x,
             tower_attention(l, native_layer_norm(x, l.norm1, l.norm1_bias, norm_epsilon)));
  const V normed = native_layer_norm(middle, l.norm2, l.norm2_bias, norm_epsilon);
  const V fed = linear(tower_activation(linear(normed, l.up)), l.down);
  hold({normed});
  const V y = binary(OpKind::add, middle, fed);
  tower_region(first);
  hold({x});  // the caller's
  return y;
}

/// LlavaMultiModalProjector.forward. Without its first token a layer's output is a view, which a
/// product copies before it and adds the bias to after it, unless there is one image alone.
ir::ValueId Lowering::tower_projection(V features) {
  const model::TowerRun& run = *spec_.tower->run;
  const TowerValues& t = m_.tower;
  const std::int64_t n = shape(features)[0];
  V x = features, wide{};
  if (!run.class_token) {
    x = p_.on_storage_of(features, {n, run.patches(), run.hidden}, dtype(features), false);
    emit(OpKind::slice, {features}, {x});
  }
  if (run.class_token || n == 1) {
    wide = linear(x, t.first);
  } else {
    Linear product = t.first;
    product.bias = ir::no_id;
    const V plain = base_linear(unary(OpKind::clone, x), product);
    wide = p_.on_storage_of(plain, shape(plain), dtype(plain), true);
    p_.value(wide).requires_grad = grad(plain) || grad(t.first.bias);
    emit(OpKind::add, {plain, t.first.bias}, {wide});
  }
  return linear(unary(OpKind::gelu, wide), t.second);
}

/// LlavaModel.get_placeholder_mask, which counts the tokens that images take: (batch, tokens, 1).
ir::ValueId Lowering::image_mask(V features) {
  const Shape tokens = shape(m_.ids);
  const V mask = make_int(OpKind::compare, tokens, DType::u8, {m_.ids});
  const bool videos = spec_.tower->run->any_size();
  const V of_videos = videos ? make_int(OpKind::compare, tokens, DType::u8, {m_.ids}) : ir::no_id;
  const auto counted = [&](V of) {
    return make_int(OpKind::sum, {}, DType::i64,
                    {make_int(OpKind::cast, tokens, DType::i64, {of})});
  };
  const V count = counted(mask);
  const V elements =
      unary(OpKind::mul_scalar, count, ir::Number{static_cast<double>(spec_.hidden)});
  const auto expected = static_cast<double>(shape(features).numel());
  const V same = make_int(OpKind::compare, {}, DType::u8, {elements}, ir::Compare{expected});
  make_int(OpKind::sum, {}, DType::u8, {same});  // _is_all_true
  if (videos) hold({of_videos, counted(of_videos)});
  hold({count, same});
  return p_.reshape(mask, {tokens[0], tokens[1], 1});
}

/// The embedding with rows of images in their tokens' places.
ir::ValueId Lowering::with_images(V text) {
  if (spec_.tower->run->any_size()) return images_of_any_size(text);
  leaf_ = Module::vision_tower;
  const model::TowerRun& run = *spec_.tower->run;
  V x = tower_embeddings(), features = x;
  beside_decoder_.clear();
  ir::OpId unread = ir::no_id;
  std::vector<V> given;  // to layers whose output is not read, by checkpoints
  for (std::int64_t i = 0; i < run.layers; ++i) {
    if (i == run.layers_read) unread = last_op() + 1;
    if (unread != ir::no_id && config_.memory.tower_ac) given.push_back(x);
    x = tower_layer(m_.tower.layers[static_cast<std::size_t>(i)], x);
    if (i + 1 == run.layers_read) features = x;
  }
  // `last_hidden_state` lives with the output of the encoder, and all that its graph has saved
  // with it.
  beside_decoder_ = {x, features};
  if (config_.memory.tower_ac)
    beside_decoder_.insert(beside_decoder_.end(), given.begin(), given.end());
  else
    for (ir::OpId op = unread; unread != ir::no_id && op <= last_op(); ++op)
      keep_saved(op, beside_decoder_);
  const std::int64_t n = shape(x)[0];
  const V first = out({n, run.hidden}, dtype(x), false);  // pooled: a copy of one token
  emit(OpKind::clone, {p_.narrow(x, 1, 0, 1)}, {first});
  native_layer_norm(first, m_.tower.last_norm, m_.tower.last_norm_bias, norm_epsilon);
  const V projected = tower_projection(features);
  const V each = p_.on_storage_of(projected, shape(projected), dtype(projected), false);
  emit(OpKind::split, {projected}, {each});  // list(…): backward stacks their gradients
  const std::int64_t rows = n * model::image_tokens(run, config_.run);
  image_features_ = out({rows, spec_.hidden}, dtype(x), grad(projected));
  emit(OpKind::cat, {each}, {image_features_});
  const V mask = image_mask(image_features_);
  const V y = out(shape(text), dtype(text), grad(text) || grad(image_features_));
  emit(OpKind::masked_scatter, {text, mask, image_features_}, {y});
  beside_decoder_.insert(beside_decoder_.end(), {projected, image_features_, mask});
  return y;
}

/// What autograd saves of an op of a layer whose output nobody reads.
void Lowering::keep_saved(ir::OpId id, std::vector<V>& kept) const {
  const ir::Op& op = p_.op(id);
  if (op.outputs == 0 || !grad(p_.output(op, 0))) return;
  const bool weighs = op.kind == OpKind::addmm || op.kind == OpKind::layer_norm;
  const auto inputs = p_.inputs(op), outputs = p_.outputs(op);
  if (op.kind == OpKind::sdpa || op.kind == OpKind::mul || op.kind == OpKind::gelu)
    kept.insert(kept.end(), inputs.begin(), inputs.end());
  if (weighs) kept.push_back(op.kind == OpKind::addmm ? inputs[1] : inputs[0]);
  if (op.kind == OpKind::sdpa) kept.insert(kept.end(), outputs.begin(), outputs.end());
  if (op.kind == OpKind::layer_norm) kept.insert(kept.end(), outputs.begin() + 1, outputs.end());
}

}  // namespace ac_advisor::passes
