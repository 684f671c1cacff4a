// transformers v5.23: <Family>Model.forward, <Family>DecoderLayer.forward, the rotary tables.
#include <algorithm>
#include <iterator>

#include "ac_advisor/model/adapter_method.hpp"
#include "ac_advisor/model/class_facts.hpp"
#include "lowering.hpp"
#include "passes/lowering/batch_positions.hpp"

namespace ac_advisor::passes {

using ir::Module;
using ir::OpKind;
using ir::Role;
using ir::Shape;

ir::ValueId Lowering::unary(OpKind kind, V x, const ir::Attributes& attributes) {
  const V y = out(shape(x), dtype(x), grad(x));
  p_.value(y).permuted = p_.value(x).permuted;
  emit(kind, {x}, {y}, attributes);
  return y;
}

ir::ValueId Lowering::binary(OpKind kind, V a, V b, const ir::Attributes& attributes) {
  // The larger operand gives the shape, the first the layout (TensorIterator's order of strides).
  const V like = shape(a).numel() >= shape(b).numel() ? a : b;
  const V y = out(shape(like), dtype(a) == DType::f32 ? DType::f32 : dtype(b), grad(a) || grad(b));
  p_.value(y).permuted = p_.value(like).permuted;
  emit(kind, {a, b}, {y}, attributes);
  return y;
}

ir::ValueId Lowering::cast(V x, DType to) {
  if (dtype(x) == to) return x;
  const V y = out(shape(x), to, grad(x));
  p_.value(y).permuted = p_.value(x).permuted;
  emit(OpKind::cast, {x}, {y});
  return y;
}

/// An operand of a matrix product or of attention under torch.autocast (v2.11,
/// aten/src/ATen/autocast_mode.cpp, cached_cast): cast to the compute dtype; the casts of leaves
/// that require a gradient are cached until autocast ends, a frozen weight's are not. Operands are
/// cast from the last to the first.
ir::ValueId Lowering::autocast(V x) {
  if (!config_.precision.autocast || dtype(x) != DType::f32) return x;
  const bool leaf = p_.storage(p_.value(x).storage).role == ir::Role::parameter ||
                    std::find(s_.leaves.begin(), s_.leaves.end(), x) != s_.leaves.end();
  for (const auto& [of, cast_of] : cast_cache_)
    if (of == x) return cast_of;
  const V y = cast(x, config_.precision.compute_dtype);
  // While a block is traced the cache is off (torch/fx/experimental/proxy_tensor.py:
  // disable_autocast_cache).
  const bool traced = config_.memory.kernels == Kernels::compiled && block_ >= 0;
  if (leaf && grad(x) && !traced) cast_cache_.emplace_back(x, y);
  return y;
}

/// The outermost autocast ends with the loss, and its cache with it: even what checkpoints would
/// have dropped was kept until here. Backward's recomputation casts again.
void Lowering::end_autocast() {
  if (cast_cache_.empty()) return;
  std::vector<V> casts;
  casts.reserve(cast_cache_.size());
  for (const auto& [of, cast_of] : cast_cache_) casts.push_back(cast_of);
  p_.emit(OpKind::hold, phase_, at(Module::loss), casts, {});
  cast_cache_.clear();
}

ir::ValueId Lowering::sliced(V x, const Shape& size, ir::Slice how) {
  const V y = p_.on_storage_of(x, size, dtype(x), false);
  emit(OpKind::slice, {x}, {y}, how);
  return y;
}

ir::ValueId Lowering::slice_last(V x, std::int64_t size, std::int32_t start) {
  Shape s = shape(x);
  s.set(s.rank() - 1, size);
  return sliced(x, s, ir::Slice{start});
}

ir::ValueId Lowering::block_dropout(V x) {
  if (!spec_.dropout_in_block) return x;
  leaf_ = Module::block;
  return dropped(x, spec_.residual_dropout);
}

/// The rows of a learned table; OPTDecoder.forward counts positions along a mask of ones.
ir::ValueId Lowering::position_embedding() {
  leaf_ = Module::embed;
  V rows = positions_;
  if (spec_.masked_positions) rows = unary(OpKind::add_scalar, rows, ir::Number{2.0});
  const std::int64_t sequences = spec_.masked_positions ? config_.run.batch : 1;
  const V y = out({sequences, config_.run.seq, spec_.hidden}, dtype_, grad(m_.positions));
  emit(OpKind::embedding, {m_.positions, rows}, {y});
  return y;
}

/// output.requires_grad_(True), a hook of the embedding module: a leaf whose gradient stays
ir::ValueId Lowering::as_leaf(V x) {
  const bool asked = config_.adapters.input_grads == InputGrads::on;  // beside no adapters, too
  if ((!asked && !input_requires_grad(config_)) || grad(x)) return x;
  p_.value(x).requires_grad = true;
  s_.leaves.push_back(x);
  return x;
}

ir::ValueId Lowering::embedding() {
  leaf_ = Module::embed;
  if (tp_ > 1) return parallel_embedding();
  const bool trains_rows = config_.adapters.method == AdapterMethod::trainable_tokens;
  const V weight = trains_rows ? with_tokens(m_.embed) : m_.embed;
  V x = out({config_.run.batch, shape(m_.ids)[1], spec_.hidden}, dtype_, grad(weight));
  emit(OpKind::embedding, {weight, m_.ids}, {x});
  if (spec_.scaled_embedding) x = binary(OpKind::mul, x, m_.embed_scale);
  x = as_leaf(x);
  if (config_.adapters.prompt_tokens() > 0) x = with_prompt(x);
  if (spec_.embedding_multiplier)
    return unary(OpKind::mul_scalar, x, ir::Number{*spec_.embedding_multiplier});
  return x;
}

Lowering::Rotary Lowering::rotary_embedding(V inv_freq) {
  if (spec_.position_grids != model::PositionGrids::one) return rotary_of_grids(inv_freq);
  if (spec_.complex_rotation()) return complex_table(inv_freq);
  leaf_ = Module::rotary;
  const std::int64_t sequences = config_.run.position_ids ? config_.run.batch : 1;
  const Shape half{sequences, config_.run.seq, spec_.rotary_dim / 2},
      full{sequences, config_.run.seq, spec_.rotary_dim};
  if (spec_.measured_positions) measure_positions();
  const V as_float = cast(positions_, DType::f32);
  const V freqs = out(half, DType::f32, false);
  emit(OpKind::mul, {as_float, inv_freq}, {freqs});
  V angles = freqs;
  if (spec_.rotation != model::Rotation::halves_apart) {  // twice, for both halves
    angles = out(full, DType::f32, false);
    emit(OpKind::cat, {freqs, freqs}, {angles});
  }
  const V cos = unary(OpKind::mul_scalar, unary(OpKind::cos, angles), ir::Number{1.0});
  const V sin = unary(OpKind::mul_scalar, unary(OpKind::sin, angles), ir::Number{1.0});
  const DType type = spec_.wide_rotary ? DType::f32 : dtype_;
  const Rotary rotary{cast(cos, type), cast(sin, type)};
  hold({angles, cos, sin, freqs});
  return rotary;
}

/// PhimoeRotaryEmbedding.forward: the last position decides the scale, and frequencies are made
/// anew on the host.
void Lowering::measure_positions() {
  const V last = make_int(OpKind::amax, {}, DType::i64, {positions_});
  const V tokens = unary(OpKind::add_scalar, last, ir::Number{1.0});
  if (spec_.rope_scaling)
    make_int(OpKind::compare, {}, DType::u8, {tokens},
             ir::Compare{spec_.rope_scaling->original_positions, ir::Comparison::greater});
}

/// Qwen2_5_VLRotaryEmbedding.forward, Qwen3VLTextRotaryEmbedding.forward: angles of three positions
/// a token (time, height, width), of each sequence.
Lowering::Rotary Lowering::rotary_of_grids(V inv_freq) {
  leaf_ = Module::rotary;
  constexpr std::int64_t grids = 3;
  const std::int64_t b = config_.run.batch, s = config_.run.seq, d = spec_.rotary_dim;
  const V as_float = make_int(OpKind::cast, {grids, b, s}, DType::f32, {positions_});
  const V freqs = out({grids, b, s, d / 2}, DType::f32, false);
  emit(OpKind::mul, {as_float, inv_freq}, {freqs});
  const auto of_grids = [&](OpKind kind) {
    return unary(OpKind::mul_scalar, unary(kind, freqs), ir::Number{1.0});
  };
  const auto recomposed = [&](V each) {
    V one{};
    if (spec_.position_grids == model::PositionGrids::joined) {
      one = out({b, s, d / 2}, DType::f32, false);
      emit(OpKind::cat, {each, each, each}, {one});
    } else {  // heights and widths are copied between the first grid's angles
      for (std::int64_t grid = 1; grid < grids; ++grid) {
        one = p_.on_storage_of(each, {b, s, d / 2}, DType::f32, true);
        emit(OpKind::copy, {each, p_.narrow(each, 0, grid, 1)}, {one});
      }
    }
    const V twice = out({b, s, d}, DType::f32, false);
    emit(OpKind::cat, {one, one}, {twice});
    hold({each, one});
    return twice;
  };
  const V cos_each = of_grids(OpKind::cos), sin_each = of_grids(OpKind::sin);
  const V sin = recomposed(sin_each), cos = recomposed(cos_each);
  const Rotary rotary{cast(cos, dtype_), cast(sin, dtype_)};
  hold({freqs, cos, sin});
  return rotary;
}

ir::ValueId Lowering::residual_add(V residual, V x) {
  leaf_ = Module::block;
  wait();
  if (!spec_.residual_multiplier) return binary(OpKind::add, residual, x);
  const V part = unary(OpKind::mul_scalar, x, ir::Number{*spec_.residual_multiplier});
  const V y = binary(OpKind::add, residual, part);
  hold({x});  // `hidden_states` until it is bound anew
  return y;
}

ir::ValueId Lowering::block(const Block& b, std::int16_t index, V x, const Rotary& rotary) {
  block_ = index;
  leaf_ = Module::embed;
  wait();  // the first block's norm: for the embedding
  if (spec_.side_by_side) return side_by_side(b, index, x, rotary);
  V h = spec_.post_norms_only ? x : norm(x, b.norm1, b.norm1_bias, Module::norm1);
  const V first = h;
  h = block_dropout(spec_.has_delta(index) ? delta_net(b, h) : attention(b, index, h, rotary));
  const V attended = h;
  if (b.post_attention_norm != ir::no_id)
    h = norm(h, b.post_attention_norm, ir::no_id, Module::post_attention_norm);
  const auto viewed = [&](V of, const Shape& size) {
    const V y = p_.on_storage_of(of, size, dtype(of), false);
    emit(OpKind::view, {of}, {y});
    return y;
  };
  V middle = residual_add(x, h);
  const Shape size = shape(middle);
  // A compiled block's trace does this itself.
  const bool flat = spec_.flat_mlp && config_.memory.kernels != Kernels::compiled;
  if (flat) middle = viewed(middle, {size[0] * size[1], size[2]});
  if (spec_.residual_inside) end_frame();
  h = spec_.post_norms_only ? middle : norm(middle, b.norm2, b.norm2_bias, Module::norm2);
  if (spec_.residual_inside) hold({first});  // `layernorm_output`, until it is bound anew
  h = block_dropout(b.router != ir::no_id ? moe(b, h) : mlp(b, h));
  const V fed = h;
  if (model::class_facts(spec_.family).names_routing) {  // `_` is bound anew
    hold({attention_weights_});
    attention_weights_ = ir::no_id;
  }
  if (b.post_mlp_norm != ir::no_id) h = norm(h, b.post_mlp_norm, ir::no_id, Module::post_mlp_norm);
  V y = residual_add(middle, h);
  if (flat) y = viewed(y, size);
  if (spec_.residual_inside) end_frame();
  if (spec_.keeps_attention_out || forms_.keeps_attention_out) hold({attended});
  if (forms_.keeps_attention_out && fed != h) hold({fed});
  // The caller's `hidden_states`, the frame's locals, and arguments nobody reads.
  hold({x, middle, h, positions_, cache_position_});
  if (model::rings_by_automodel(config_)) {
    const auto i = static_cast<std::size_t>(index);
    hold({i < spec_.window.size() && spec_.window[i] > 0 ? window_mask_ : full_mask_});
  }
  hold({attention_weights_});
  block_ = -1;
  return y;
}

/// GPTNeoXLayer.forward, PhiDecoderLayer.forward, CohereDecoderLayer.forward
ir::ValueId Lowering::side_by_side(const Block& b, std::int16_t index, V x, const Rotary& rotary) {
  const V first = norm(x, b.norm1, b.norm1_bias, Module::norm1);
  V second = first;
  const auto second_norm = [&] {
    if (!spec_.shared_norm) second = norm(x, b.norm2, b.norm2_bias, Module::norm2);
  };
  if (spec_.norms_together) second_norm();
  leaf_ = Module::block;
  const V attended = block_dropout(attention(b, index, first, rotary));
  if (!spec_.norms_together) second_norm();
  const V fed = block_dropout(mlp(b, second));
  leaf_ = Module::block;
  V part{}, y{};
  if (spec_.adds_in_place) {
    part = p_.on_storage_of(fed, shape(fed), dtype(fed), true);
    p_.value(part).requires_grad = grad(fed) || grad(attended);
    emit(OpKind::add, {fed, attended}, {part});
    y = binary(OpKind::add, x, part);
  } else {
    part = binary(OpKind::add, spec_.branches_first ? fed : x, attended);
    y = binary(OpKind::add, part, spec_.branches_first ? x : fed);
  }
  hold({x, attended, fed, positions_, cache_position_});
  if (spec_.shared_norm || spec_.norms_together) hold({first, second});
  hold({attention_weights_});
  block_ = -1;
  return y;
}

void Lowering::forward() {
  if (config_.litgpt()) return forward_litgpt();
  const std::size_t first = p_.ops.size();
  phase_ = ir::Phase::forward;
  if (config_.task.scorer == Scorer::reference && config_.task.reference == Reference::model) {
    score_by_reference();
    return without_gradients(first);
  }
  task_inputs();
  leaf_ = Module::loss;
  if (config_.runtime.framework == "torchtune" &&
      config_.memory.loss == LossKind::chunked_logits)  // current_num_tokens
    tokens_ = counted_labels(labels_);
  backbone();
  s_.loss = ir::no_id;
  s_.loss_outside = config_.loss_outside();
  s_.outputs = {last_block_};
  if (stage().head) loss();
  hold_all(prompt_frame_);
  hold_all(cache_);
  if (!s_.ends.empty()) s_.ends.back().output = s_.outputs.front();
  if (config_.task.scores()) without_gradients(first);
}

/// What a task does before its forward; `labels_`.
void Lowering::task_inputs() {
  const TaskChoice& task = config_.task;
  if (config_.verl()) return verl_inputs();
  if (config_.llamafactory()) {
    labels_ = m_.labels;
    if (task.compares()) clone_batch();
    return;
  }
  if (task.kind == Task::kto) mismatched_ = mismatched_log_probs(ir::Owner::no_grad);
  const bool whole = makes_whole_logits() || by_swift();
  labels_ = task.compares() && !whole ? scored_labels() : m_.labels;
}

void Lowering::without_gradients(std::size_t first) {
  for (std::size_t i = first; i < p_.ops.size(); ++i)
    for (const V v : p_.outputs(p_.ops[i])) p_.value(v).requires_grad = false;
  s_.graph_held.clear();
  s_.loss = ir::no_id;
}

/// From token ids to the final norm's result, `hidden_`.
void Lowering::backbone() {
  if (config_.adapters.prefix_tokens() > 0) make_prefix();
  V embedded = stage().embedding ? embedding() : s_.ends.back().input;
  if (config_.run.images > 0) embedded = with_images(embedded);
  leaf_ = Module::root;
  V ones = ir::no_id;
  if (spec_.masked_positions) {  // OPTDecoder.forward
    ones = out({config_.run.batch, config_.run.seq}, DType::f32, false);
    emit(OpKind::fill, {}, {ones}, ir::Number{1.0});
    const V counted = binary(OpKind::mul, unary(OpKind::cumsum, ones), ones);
    positions_ = cast(unary(OpKind::add_scalar, counted, ir::Number{-1.0}), DType::i64);
  } else if (spec_.alibi || (forms_.keeps_table() && !config_.run.position_ids)) {
    positions_ = ir::no_id;
  } else if (is_packed() || config_.run.position_ids) {
    positions_ = m_.position_ids;
    if (infers_documents(config_) && config_.layout.pp > 1)  // hf_utils.py, pipeline_forward
      cache_position_ = make_int(OpKind::arange, {config_.run.seq}, DType::i64, {});
  } else if (counts_grids()) {
    positions_ = grid_positions();
  } else {
    const V start = out({config_.run.seq}, DType::i64, false);
    emit(OpKind::arange, {}, {start});
    positions_ = unary(OpKind::add_scalar, start);
  }
  V x = embedded, at_positions = ir::no_id;
  if (spec_.position_table > 0 && !spec_.masked_positions) {
    at_positions = position_embedding();
    x = binary(OpKind::add, embedded, at_positions);
  }
  if (spec_.embedding_norm && stage().embedding)
    x = norm(embedded, m_.embed_norm, m_.embed_norm_bias, Module::embed);
  if (spec_.alibi) alibi_ = alibi_bias();
  if (!forms_.keeps_table()) causal_masks();
  if (spec_.masked_positions) {
    at_positions = position_embedding();
    x = binary(OpKind::add, embedded, at_positions);
  }
  leaf_ = Module::embed;
  x = dropped(x, spec_.embedding_dropout);
  const bool casts_angles = model::angles_are_cast(spec_, config_);
  std::vector<Rotary> rotary;
  for (V f : m_.inv_freq)
    rotary.push_back(forms_.keeps_table() ? table_of_step(f) : rotary_embedding(f));
  V weights_before = ir::no_id, output_before = ir::no_id;
  for (std::int64_t i = stage().first; i < stage().end; ++i) {
    const auto index = static_cast<std::size_t>(i);
    const bool local = rotary.size() > 1 && spec_.window[index] > 0;
    const Rotary of_step = rotary.empty() ? Rotary{} : rotary[local ? 1 : 0];
    const Rotary given = casts_tables() ? table_of_block()
                         : casts_angles
                             ? Rotary{cast(of_step.cos, dtype_), cast(of_step.sin, dtype_)}
                             : of_step;
    if (config_.value_head()) hidden_states_.push_back(x);
    x = block(m_.blocks[index], static_cast<std::int16_t>(i), x, given);
    if (casts_tables() || casts_angles) hold({given.cos, given.sin});  // its arguments
    hold({output_before});  // `layer_outputs`, until it is bound anew
    output_before = ir::no_id;
    if (index < deep_features_.size()) {
      output_before = x;
      x = with_deep_features(x, index);
    }
    if (!spec_.keeps_block_outputs) continue;
    hold({weights_before});  // `outputs`, until it is bound anew
    weights_before = attention_weights_;
  }
  leaf_ = Module::final_norm;
  if (stage().head) hidden_ = norm(x, m_.final_norm, m_.final_norm_bias, Module::final_norm);
  if (stage().head && forms_.caps_hidden) hidden_ = capped_hidden(hidden_);
  hold({at_positions, ones, alibi_, alibi_slopes_, weights_before});
  if (!forms_.keeps_table())
    for (const Rotary& r : rotary) hold({r.cos, r.sin});
  hold({x, embedded, positions_, cache_position_, output_before});
  for (V mask : {full_mask_, window_mask_}) hold({mask});
  hold_all(beside_decoder_);
  last_block_ = x;
}

/// The trainer's own, of a task that is not supervised.
void Lowering::task_loss() {
  if (config_.llamafactory()) return loss_llamafactory();
  if (by_swift()) return loss_by_swift();
  switch (config_.task.kind) {
    case Task::sft:
      break;
    case Task::dpo:
      makes_whole_logits() ? loss_dpo_of_logits() : loss_dpo();
      break;
    case Task::kto:
      makes_whole_logits() ? loss_kto_of_logits() : loss_kto();
      break;
    case Task::orpo:
    case Task::simpo:
      loss_of_logits();
      break;
    case Task::reward:
      loss_reward();
      break;
    case Task::grpo:
      config_.verl() ? loss_verl() : loss_grpo();
      break;
    case Task::ppo:
      config_.task.of_critic ? loss_critic() : loss_verl();
      break;
    case Task::rloo:
      loss_rloo();
      break;
    case Task::distillation:
      loss_distillation();
      break;
  }
}

void Lowering::loss() {
  s_.hidden = hidden_;
  config_.task.supervised() ? next_token_loss() : task_loss();
  if (config_.adapters.method == AdapterMethod::adalora) orthogonality();
  end_autocast();
  const bool whole_output =
      config_.task.supervised() &&
      (config_.memory.loss == LossKind::ce || config_.memory.loss == LossKind::ce_no_upcast);
  if (image_features_ != ir::no_id && whole_output) s_.outputs.push_back(image_features_);
  if (whole_output && !model::class_facts(spec_.family).drops_cache)
    s_.outputs.insert(s_.outputs.end(), cache_.begin(), cache_.end());
  if (config_.memory.wide_output) widen_output();
  if (by_trainer()) trainers_loss();
  if (config_.layout.zero() && config_.runtime.kind != Runtime::ac_trainer) engines_loss();
}

void Lowering::next_token_loss() {
  switch (config_.memory.loss) {
    case LossKind::ce:
    case LossKind::ce_no_upcast:
      loss_ce();
      break;
    case LossKind::ce_compiled:
      loss_ce_compiled();
      break;
    case LossKind::lc_ce:
      loss_lc_ce();
      break;
    case LossKind::chunked:
      loss_chunked();
      break;
    case LossKind::chunked_logits:
      loss_chunked_logits();
      break;
    case LossKind::tiled:
      loss_tiled();
      break;
  }
}

}  // namespace ac_advisor::passes
