// transformers v5.23: Qwen2_5_VisionTransformerPretrainedModel.forward (models/qwen2_5_vl/) and
// Qwen3VLVisionModel.forward (models/qwen3_vl/): encoders of images of any size. All patches of a
// micro-batch are rows of one matrix; attention goes image by image, or window by window.
#include <algorithm>
#include <array>
#include <vector>

#include "ac_advisor/model/image_size.hpp"
#include "lowering.hpp"

namespace ac_advisor::passes {

using ir::Module;
using ir::OpKind;
using ir::Shape;

/// Qwen2_5_VisionPatchEmbed.forward: a kernel as large as a patch, over one patch a row.
ir::ValueId Lowering::embedded_patches(PatchRows& rows) {
  const model::TowerRun& run = *spec_.tower->run;
  const TowerValues& t = m_.tower;
  const V pixels = cast(t.pixels, dtype(t.patch));
  const bool biased = t.patch_bias != ir::no_id;
  const V bias = biased ? autocast(t.patch_bias) : ir::no_id;
  const V weight = autocast(t.patch), given = autocast(pixels);
  const V y = out({rows.rows, run.hidden}, dtype(given), grad(t.patch));
  const ir::Product product{static_cast<std::int32_t>(shape(pixels)[1])};
  if (biased)
    emit(OpKind::convolution, {given, weight, bias}, {y}, product);
  else
    emit(OpKind::convolution, {given, weight}, {y}, product);
  rows.locals.push_back(pixels);
  return y;
}

/// enable_input_require_grads hooks each model's embedding: of Qwen2.5-VL's encoder its patches, of
/// Qwen3-VL's none, unless a tool names it one (ms-swift). An encoder that is frozen whole beside
/// adapters runs without gradients, unless it is hooked all the same (LLaMA-Factory).
bool Lowering::hooks_patches() const {
  if (config_.adapters.input_grads == InputGrads::on) return true;
  const FrozenParts& frozen = config_.run.frozen;
  return spec_.tower->run->form == model::TowerForm::qwen2_5 && !(frozen.tower && frozen.projector);
}

/// permute_input_for_window_attn, of rows by their merged patch; the index comes from the host.
ir::ValueId Lowering::in_order(V x, V order) {
  const V y = out(shape(x), dtype(x), grad(x));
  emit(OpKind::index, {x, order}, {y});
  return y;
}

ir::ValueId Lowering::patch_norm(V x, V weight, V bias) {
  if (bias == ir::no_id) return rms_norm(x, weight, Module::vision_tower);
  return layer_norm(x, weight, bias, Module::vision_tower);
}

/// Qwen2_5_VLVisionAttention.forward: an attention for each window, or for each image.
ir::ValueId Lowering::patch_attention(const TowerLayerValues& l, V x, const PatchRows& rows,
                                      bool windowed) {
  const model::TowerRun& run = *spec_.tower->run;
  const std::int64_t heads = run.heads, width = run.hidden / heads;
  const V qkv = linear(x, l.qkv);
  const Shape one{1, heads, rows.rows, width};
  // unbind of a view whose thirds are in front: their gradients are stacked, and copied back
  const V thirds = p_.on_storage_of(qkv, {3, heads, rows.rows, width}, dtype(qkv), false);
  p_.value(thirds).permuted = true;
  emit(OpKind::view, {qkv}, {thirds});
  std::array<V, 3> heads_of{};
  for (V& third : heads_of) {
    third = p_.on_storage_of(thirds, one, dtype(qkv), false);
    p_.value(third).permuted = true;
  }
  emit(OpKind::split, {thirds}, {heads_of[0], heads_of[1], heads_of[2]});
  // apply_rotary_pos_emb_vision
  std::vector<ir::OpId> unused;
  const V q_wide = cast(heads_of[0], DType::f32), k_wide = cast(heads_of[1], DType::f32);
  const V q_turned = rotate_part(q_wide, rows.rotary, unused);
  const V k_turned = rotate_part(k_wide, rows.rotary, unused);
  const V q = cast(q_turned, dtype(qkv)), k = cast(k_turned, dtype(qkv)), v = heads_of[2];
  hold({q_wide, k_wide});
  const std::vector<std::int64_t>& sizes = windowed ? rows.windows : rows.images;
  const auto count = static_cast<std::int64_t>(sizes.size());
  const V lengths = make_int(OpKind::add, {count}, DType::i32,
                             {windowed ? rows.window_ends : rows.image_ends}, ir::Add{-1.0});
  const auto parts = [&](V of) {
    std::vector<V> all;
    for (const std::int64_t size : sizes) {
      all.push_back(p_.on_storage_of(of, {1, heads, size, width}, dtype(of), false));
      p_.value(all.back()).permuted = true;
    }
    p_.emit(OpKind::split, phase_, at(leaf_), std::vector<V>{of}, all);
    return all;
  };
  const std::vector<V> qs = parts(q), ks = parts(k), vs = parts(v);
  std::vector<V> made;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    V y = attended(qs[i], ks[i], vs[i], ir::no_id, {.scale = 1.0, .causal = false});
    if (!p_.value(y).permuted) y = heads_last(y);
    made.push_back(y);
  }
  const V joined = out(one, dtype(made.front()), grad(made.front()));
  p_.value(joined).permuted = true;
  p_.emit(OpKind::cat, phase_, at(leaf_), made, std::vector<V>{joined});
  const V y = linear(p_.reshape(joined, {rows.rows, run.hidden}), l.o);
  hold({x, q, k, v, joined, lengths});
  hold_all(made);  // `attn_outputs`
  return y;
}

/// Qwen2_5_VLMLP.forward, Qwen3VLVisionMLP.forward
ir::ValueId Lowering::patch_mlp(const TowerLayerValues& l, V x) {
  if (l.gate.weight == ir::no_id) {
    const V y = linear(unary(OpKind::gelu_tanh, linear(x, l.up)), l.down);
    hold({x});
    return y;
  }
  const V gate = unary(OpKind::silu, linear(x, l.gate));
  const V y = linear(binary(OpKind::mul, gate, linear(x, l.up)), l.down);
  hold({x});
  return y;
}

/// Qwen2_5_VLVisionBlock.forward
ir::ValueId Lowering::patch_layer(const TowerLayerValues& l, V x, const PatchRows& rows,
                                  bool windowed) {
  const ir::OpId first = last_op() + 1;
  const V attended = patch_attention(l, patch_norm(x, l.norm1, l.norm1_bias), rows, windowed);
  const V middle = binary(OpKind::add, x, attended);
  const V fed = patch_mlp(l, patch_norm(middle, l.norm2, l.norm2_bias));
  const V y = binary(OpKind::add, middle, fed);
  tower_region(first);
  hold({x});  // the caller's `hidden_states`
  return y;
}

/// Qwen2_5_VLPatchMerger.forward, Qwen3VLVisionPatchMerger.forward
ir::ValueId Lowering::merged(const MergerValues& merger, V x, bool merged_first) {
  const model::TowerRun& run = *spec_.tower->run;
  const std::int64_t unit = run.merge * run.merge, tokens = shape(x)[0] / unit;
  const Shape wide{tokens, unit * run.hidden};
  const V given = merged_first ? p_.reshape(x, wide) : x;
  const V normed = patch_norm(given, merger.norm, merger.norm_bias);
  const V first = linear(p_.reshape(normed, wide), merger.first);
  const V y = linear(unary(OpKind::gelu, first), merger.second);
  hold({x});
  return y;
}

/// The embedding with rows of images in their tokens' places.
ir::ValueId Lowering::images_of_any_size(V text) {
  leaf_ = Module::vision_tower;
  const model::TowerRun& run = *spec_.tower->run;
  const TowerValues& t = m_.tower;
  PatchRows rows = patch_rows();
  V x = embedded_patches(rows);
  if (hooks_patches()) x = as_leaf(x);
  if (rows.order != ir::no_id) x = in_order(x, rows.order);
  if (run.positions > 0) {
    const V words = out({rows.rows, 4, run.hidden}, dtype(t.positions), grad(t.positions));
    emit(OpKind::embedding, {t.positions, rows.taps}, {words});
    const V weighted = out(shape(words), DType::f32, grad(words));
    emit(OpKind::mul, {words, rows.weights}, {weighted});
    const V places = out({rows.rows, run.hidden}, DType::f32, grad(words));
    emit(OpKind::sum, {weighted}, {places}, ir::Sum{ir::SumOver::choices});
    x = binary(OpKind::add, x, cast(places, dtype(x)));
    rows.locals.push_back(places);
  }
  patch_angles(rows);
  deep_features_.clear();
  for (std::int64_t i = 0; i < run.layers; ++i) {
    const auto is_of = [&](const std::vector<std::int64_t>& layers) {
      return std::find(layers.begin(), layers.end(), i) != layers.end();
    };
    const bool windowed = run.window > 0 && !is_of(run.whole_layers);
    x = patch_layer(t.layers[static_cast<std::size_t>(i)], x, rows, windowed);
    if (is_of(run.taps)) deep_features_.push_back(merged(t.taps[deep_features_.size()], x, true));
  }
  V features = merged(t.merger, x, false);
  if (rows.order != ir::no_id) features = in_order(features, rows.order);
  hold_all(rows.locals);
  // get_image_features: how many tokens each image has
  const std::int64_t images = static_cast<std::int64_t>(rows.images.size());
  const V products = make_int(OpKind::sum, {images}, DType::i64, {t.grids});
  const V counts = make_int(OpKind::floor_divide, {images}, DType::i64, {products});
  emit(OpKind::host_read, {counts}, {});
  const auto apart = [&](V of) {
    const V each = p_.on_storage_of(of, shape(of), dtype(of), false);
    emit(OpKind::split, {of}, {each});
    return each;
  };
  const V each = apart(features);
  beside_decoder_ = {x, features};
  std::vector<V> deep;
  for (const V feature : deep_features_) deep.push_back(apart(feature));
  const auto together = [&](V of) {
    const V y = out(shape(of), dtype(of), grad(of));
    emit(OpKind::cat, {of}, {y});
    return y;
  };
  const V joined = cast(together(each), dtype(text));
  const V mask = image_mask(joined);
  const V y = out(shape(text), dtype(text), grad(text) || grad(joined));
  emit(OpKind::masked_scatter, {text, mask, joined}, {y});
  beside_decoder_.insert(beside_decoder_.end(), {joined, mask});
  for (std::size_t i = 0; i < deep.size(); ++i) {
    beside_decoder_.push_back(deep_features_[i]);
    deep_features_[i] = together(deep[i]);
    beside_decoder_.push_back(deep_features_[i]);
  }
  image_mask_ = mask;
  return y;
}

/// Where the layer's ops are one checkpoint.
void Lowering::tower_region(ir::OpId first) {
  if (!config_.memory.tower_ac) return;
  for (ir::OpId op = first; op <= last_op(); ++op) p_.op(op).region = s_.regions;
  ++s_.regions;
}

Lowering::PatchRows Lowering::patch_rows() {
  const model::TowerRun& run = *spec_.tower->run;
  const model::ImageGrid grid = model::image_grid(run, config_.run);
  const std::int64_t images = config_.run.batch * config_.run.images;
  PatchRows rows;
  rows.images.assign(static_cast<std::size_t>(images), grid.patches());
  rows.rows = images * grid.patches();
  if (run.window > 0) {  // get_vision_window_index, of one image
    const std::int64_t side = run.window / run.merge / run.patch, unit = run.merge * run.merge;
    const std::int64_t height = grid.rows / run.merge, width = grid.columns / run.merge;
    for (std::int64_t image = 0; image < images; ++image)
      for (std::int64_t top = 0; top < height; top += side)
        for (std::int64_t left = 0; left < width; left += side)
          rows.windows.push_back(std::min(side, height - top) * std::min(side, width - left) *
                                 unit);
  }
  if (run.positions > 0) interpolation(rows);
  patch_positions(rows);
  chunk_ends(rows);
  return rows;
}

}  // namespace ac_advisor::passes
