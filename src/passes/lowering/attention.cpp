// transformers v5.23: <Family>Attention.forward, apply_rotary_pos_emb, eager_attention_forward.
#include <utility>

#include "ac_advisor/ir/torch_facts.hpp"
#include "ac_advisor/model/class_facts.hpp"
#include "lowering.hpp"
#include "passes/lowering/batch_positions.hpp"
#include "passes/pytorch_on_gpu.hpp"

namespace ac_advisor::passes {

using ir::Module;
using ir::OpKind;
using ir::Shape;

/// Of a half turn of x its halves joined, or neighbours stacked: contiguous, whatever x's layout.
ir::ValueId Lowering::joined_turn(V negated, V other, V x) {
  if (!spec_.interleaved_rotary && spec_.rotation != model::Rotation::table) {
    const V y = out(shape(x), dtype(x), grad(x));
    emit(OpKind::cat, {negated, other}, {y});
    return y;
  }
  const Shape s = shape(x);
  const std::int64_t half = s[3] / 2;
  const V y = out({s[0], s[1], s[2], half, 2}, dtype(x), grad(x));
  const Shape column{s[0], s[1], s[2], half, 1};
  emit(OpKind::cat, {p_.reshape(negated, column), p_.reshape(other, column)}, {y});
  return p_.reshape(y, s);
}

ir::ValueId Lowering::rotate_part(V x, const Rotary& rotary, std::vector<ir::OpId>& chain) {
  // (x * cos) + (rotate_half(x) * sin)
  const auto first = last_op() + 1;
  const std::int64_t half = shape(x).back() / 2;
  const V direct = binary(OpKind::mul, x, rotary.cos);
  const V x1 = slice_last(x, half, 0);
  const V x2 = slice_last(x, half, static_cast<std::int32_t>(half));
  const V negated = unary(OpKind::neg, x2);
  const V half_turn = joined_turn(negated, x1, x);
  const V crossed = binary(OpKind::mul, half_turn, rotary.sin);
  const V y = binary(OpKind::add, direct, crossed);
  for (ir::OpId op = first; op <= last_op(); ++op) chain.push_back(op);
  return y;
}

/// Rotations that no fused kernel does. CohereAttention's: q and k in fp32 for its length. Glm4's:
/// cos and sin are interleaved in each block, and a part of each head is rotated.
std::pair<ir::ValueId, ir::ValueId> Lowering::rotate_interleaved(V q, V k, const Rotary& rotary) {
  std::vector<ir::OpId> unused;
  if (spec_.widened_rotary) {
    const V q_wide = cast(q, DType::f32), k_wide = cast(k, DType::f32);
    const V q_turned = rotate_part(q_wide, rotary, unused);
    const V k_turned = rotate_part(k_wide, rotary, unused);
    const std::pair<V, V> both{cast(q_turned, dtype(q)), cast(k_turned, dtype(k))};
    hold({q, k, q_wide, k_wide, q_turned, k_turned});
    return both;
  }
  const auto interleaved = [&](V half) {  // repeat_interleave: a copy of an expanded half
    const V y = out(shape(half), dtype(half), false);
    emit(OpKind::clone, {half}, {y});
    return y;
  };
  const V cos = interleaved(rotary.cos);
  const Rotary own{cos, interleaved(rotary.sin)};
  if (!spec_.joined_rotary_part) return rotate_whole_interleaved(q, k, own);
  const std::int64_t d = spec_.head_dim, part = spec_.rotary_dim;
  const auto rotated = [&](V x) { return slice_last(x, part, 0); };
  const auto rest = [&](V x) { return slice_last(x, d - part, static_cast<std::int32_t>(part)); };
  const V q_part = rotated(q), q_rest = rest(q), k_part = rotated(k), k_rest = rest(k);
  const V q_turned = rotate_part(q_part, own, unused);
  const V k_turned = rotate_part(k_part, own, unused);
  const auto join = [&](V turned, V tail, V like) {
    const V y = out(shape(like), dtype(turned), grad(like));
    emit(OpKind::cat, {turned, tail}, {y});
    return y;
  };
  const V q_joined = join(q_turned, q_rest, q);
  hold({q_turned});  // `q_embed`, until it is bound anew
  const std::pair<V, V> both{q_joined, join(k_turned, k_rest, k)};
  hold({q, k, own.cos, own.sin});
  return both;
}

/// HeliumAttention's; Ernie4_5Attention's in fp32: x.float() * cos + rotate_half(x).float() * sin.
std::pair<ir::ValueId, ir::ValueId> Lowering::rotate_whole_interleaved(V q, V k,
                                                                       const Rotary& own) {
  std::vector<ir::OpId> unused;
  const auto turned = [&](V x) {
    if (!spec_.wide_rotary) return rotate_part(x, own, unused);
    const V direct = binary(OpKind::mul, cast(x, DType::f32), own.cos);
    const std::int64_t half = shape(x).back() / 2;
    const V x1 = slice_last(x, half, 0);
    const V x2 = slice_last(x, half, static_cast<std::int32_t>(half));
    const V half_turn = joined_turn(unary(OpKind::neg, x2), x1, x);
    const V crossed = binary(OpKind::mul, cast(half_turn, DType::f32), own.sin);
    return binary(OpKind::add, direct, crossed);
  };
  const V q_turned = turned(q), k_turned = turned(k);
  std::pair<V, V> both{q_turned, k_turned};
  if (spec_.wide_rotary) {
    both.first = cast(q_turned, dtype(q));
    both.second = cast(k_turned, dtype(k));
  }
  hold({q, k, own.cos, own.sin});
  if (both.first != q_turned) hold({q_turned, k_turned});
  return both;
}

std::pair<ir::ValueId, ir::ValueId> Lowering::rotate(V q, V k, const Rotary& rotary) {
  leaf_ = Module::rope;
  if (spec_.interleaved_rotary) return rotate_interleaved(q, k, rotary);
  switch (spec_.rotation) {
    case model::Rotation::halves:
      break;
    case model::Rotation::halves_apart:
      return rotate_halves_apart(q, k, rotary);
    case model::Rotation::pairs_apart:
      return rotate_pairs_apart(q, k, rotary);
    case model::Rotation::complex:
    case model::Rotation::complex_together:
      return rotate_complex(q, k, rotary);
    case model::Rotation::table:  // rotate_by_table
      break;
  }
  Chain chain{OpKind::rope, {}, {q, k, rotary.cos, rotary.sin}, ir::no_id, ir::no_id, {}};
  if (!spec_.joined_rotary_part) {
    const V q_wide = rotate_part(q, rotary, chain.ops);
    const V k_wide = rotate_part(k, rotary, chain.ops);
    chain.output = q_wide, chain.second_output = k_wide;
    if (spec_.wide_rotary) {  // of others autocast's own stay as wide as it made them
      const auto first_cast = last_op() + 1;
      chain.output = cast(q_wide, dtype(q));
      chain.second_output = cast(k_wide, dtype(k));
      for (ir::OpId op = first_cast; op <= last_op(); ++op) chain.ops.push_back(op);
      if (chain.output != q_wide) hold({q_wide, k_wide});  // its locals, until it returns the casts
    }
  } else {
    // it rotates a part of each head and joins it with the rest, even where the rest is empty
    const auto first = last_op() + 1;
    const std::int64_t d = spec_.head_dim, part = spec_.rotary_dim;
    const auto rotated = [&](V x) { return part == d ? x : slice_last(x, part, 0); };
    const auto rest = [&](V x) { return slice_last(x, d - part, static_cast<std::int32_t>(part)); };
    const V q_part = rotated(q), q_rest = rest(q), k_part = rotated(k), k_rest = rest(k);
    for (ir::OpId op = first; op <= last_op(); ++op) chain.ops.push_back(op);
    const auto join = [&](V turned, V tail, V like) {
      if (dtype(tail) != dtype(turned)) {  // autocast widens cat's operands to the widest
        tail = cast(tail, dtype(turned));
        chain.ops.push_back(last_op());
      }
      const V y = out(shape(like), dtype(turned), grad(like));
      emit(OpKind::cat, {turned, tail}, {y});
      chain.ops.push_back(last_op());
      return y;
    };
    const V q_turned = rotate_part(q_part, rotary, chain.ops);
    if (spec_.turned_first) {
      const V k_turned = rotate_part(k_part, rotary, chain.ops);
      chain.output = join(q_turned, q_rest, q);
      chain.second_output = join(k_turned, k_rest, k);
      if (spec_.keeps_attention_out) frame_ = {q_turned, k_turned, q, k};
    } else {
      chain.output = join(q_turned, q_rest, q);
      chain.second_output = join(rotate_part(k_part, rotary, chain.ops), k_rest, k);
    }
  }
  if (config_.memory.kernels == Kernels::fused) {  // the fused kernel rotates in place
    // One autograd function: both outputs require a gradient where an input does, and what is made
    // of them does too.
    const bool trained = grad(q) || grad(k);
    p_.value(chain.output).requires_grad = p_.value(chain.second_output).requires_grad = trained;
    const auto first_cast = last_op() + 1;
    chain.output = cast(chain.output, dtype(q));
    chain.second_output = cast(chain.second_output, dtype(k));
    for (ir::OpId op = first_cast; op <= last_op(); ++op) chain.ops.push_back(op);
  }
  const std::pair<V, V> both{chain.output, chain.second_output};
  s_.chains.push_back(std::move(chain));
  hold({q, k});  // apply_rotary_pos_emb's arguments
  return both;
}

/// In fp32, and of heads wider than 256, neither flash nor cuDNN's attention runs (aten/src/ATen/
/// native/transformers/cuda/sdp_utils.cpp, v2.11, check_tensor_dtype, check_head_dim_size_flash,
/// check_cudnn_tensor_shapes).
bool Lowering::neither_flash_nor_cudnn(V q) const {
  return (dtype(q) == DType::f32 || shape(q).back() > widest_flash_head) &&
         pytorch_on_gpu(config_) && !config_.runtime.under_dispatch_mode;
}

/// Of heads whose elements are no multiple of 8: cuDNN's attention takes none
/// (check_cudnn_tensor_shapes), for flash attention they are padded.
bool Lowering::pads_heads(V q) const {
  return shape(q).back() % flash_head_multiple != 0 && pytorch_on_gpu(config_) &&
         !config_.runtime.under_dispatch_mode;
}

/// aten/src/ATen/native/transformers/attention.cpp, v2.11, pad_last_dim<8>: contiguous.
ir::ValueId Lowering::padded_heads(V x) {
  constexpr std::int64_t m = flash_head_multiple;
  Shape s = shape(x);
  if (s.back() % m == 0) return x;
  s.set(s.rank() - 1, (s.back() + m - 1) / m * m);
  const V y = out(s, dtype(x), grad(x));
  emit(OpKind::pad, {x}, {y});
  return y;
}

/// In 2.11 the memory-efficient kernel takes no keys that queries share, and none does that SDPA
/// itself would repeat (falcon's); it has heads of whole 16 bytes
/// (check_head_dim_size_mem_efficient): what else cannot run is done by plain products.
bool Lowering::attends_by_products(V q, V k, V mask) const {
  const bool shared = shape(k)[1] != shape(q)[1];
  const bool efficient_alone = neither_flash_nor_cudnn(q) || mask != ir::no_id;
  const bool odd = pads_heads(q) && shape(q).back() * size_of(dtype(q)) % 16 != 0;
  const bool unshared = shared &&
                        !ir::facts_of(config_.runtime.torch).fused_attention_shares_keys &&
                        (neither_flash_nor_cudnn(q) || spec_.always_masked);
  return config_.run.attention == Attention::math || unshared || (odd && efficient_alone);
}

/// sdpa_attention_forward, and what scaled_dot_product_attention makes of a mask: an additive one
/// for each call, of the batch's width, and keys and values of each query's head.
ir::ValueId Lowering::sdpa(V q, V k, V v, std::int64_t window) {
  leaf_ = Module::attention_core;
  v = autocast(v), k = autocast(k), q = autocast(q);
  if (config_.layout.ulysses()) return ulysses_attention(q, k, v);
  if (config_.layout.cp > 1) {
    const V y = ring_attention(q, k, v, {.scale = spec_.score_scale()});
    return p_.value(y).permuted ? y : heads_last(y);
  }
  V mask = ir::no_id;
  const bool windowed = masks_window(window);
  const bool masked = spec_.always_masked || windowed || full_mask_ != ir::no_id;
  // use_gqa_in_sdpa: where no fused kernel takes keys that queries share
  const bool of_transformers = config_.run.transformer_impl == TransformerImpl::hf;
  const bool alone = masked || (of_transformers && shape(k).back() > widest_flash_head);
  if (alone && !spec_.always_masked) {
    k = repeated_heads(k);
    v = repeated_heads(v);
  }
  if (masked) {
    mask = additive_mask(windowed ? window_mask_ : full_mask_, dtype(q),
                         {config_.run.batch, 1, config_.run.seq, shape(k)[2]});
    leaf_ = Module::attention_core;
  }
  if (attends_by_products(q, k, mask)) return math_core(q, k, v, mask);
  // A window that slides; of chunks, as of documents, the kernel is given the mask alone.
  const std::int64_t sliding = spec_.attention_chunk > 0 ? 0 : window;
  const V y = attended(
      q, k, v, mask, {.scale = spec_.score_scale(), .window = static_cast<std::int32_t>(sliding)});
  return p_.value(y).permuted ? y : heads_last(y);  // transpose(1, 2).contiguous()
}

/// transformers v5.23, modeling_flash_attention_utils.py, _is_packed_sequence: whether a row's
/// positions begin anew.
void Lowering::asks_for_documents() {
  const std::int64_t tokens = config_.run.seq;
  const auto number = [&](OpKind kind, DType type, V x) { return make_int(kind, {}, type, {x}); };
  const V counted = make_int(OpKind::arange, {tokens}, DType::i64, {});
  const V increasing = make_int(OpKind::add, {1, tokens}, DType::i64,
                                {counted, number(OpKind::amax, DType::i64, positions_)});
  const V apart =
      make_int(OpKind::add, {1, tokens}, DType::i64, {increasing, positions_}, ir::Add{-1.0});
  const V distance = make_int(OpKind::abs, {1, tokens}, DType::i64, {apart});
  const V packed = number(OpKind::cast, DType::u8, number(OpKind::sum, DType::i64, distance));
  emit(OpKind::host_read, {packed}, {});
  hold({increasing});
}

/// prepare_fa_kwargs_from_position_ids: where the documents of a row begin, (documents + 1).
ir::ValueId Lowering::inferred_starts() {
  const std::int64_t tokens = config_.run.seq, documents = config_.run.packing;
  const auto number = [&](OpKind kind, DType type, V x) { return make_int(kind, {}, type, {x}); };
  const V first = number(OpKind::amax, DType::i64, positions_);
  const V begins = make_int(OpKind::compare, {tokens}, DType::u8, {positions_, first},
                            ir::Compare{0.0, ir::Comparison::equal});
  // nonzero (aten/src/ATen/native/cuda/Nonzero.cu): cub's DeviceReduce counts, what a block of 256
  // threads of 16 places holds by one kernel, else by two; DeviceSelect clears its state and writes
  constexpr std::int64_t of_block = 256 * 16;
  V counts = begins;
  if (tokens > of_block)
    counts = make_int(OpKind::sum, {(tokens + of_block - 1) / of_block}, DType::i32, {begins});
  const V count = number(OpKind::sum, DType::i32, counts);
  emit(OpKind::host_read, {count}, {});
  const V state = make_int(OpKind::fill, {1}, DType::i64, {});
  const V places = make_int(OpKind::index, {documents, 1}, DType::i64, {begins, state});
  const V narrow = make_int(OpKind::cast, {documents}, DType::i32, {places});
  const V all = make_int(OpKind::empty, {1}, DType::i32, {});  // from the host
  const V starts = make_int(OpKind::cat, {documents + 1}, DType::i32, {narrow, all});
  const V lengths = make_int(
      OpKind::add, {documents}, DType::i32,
      {p_.narrow(starts, 0, 1, documents), p_.narrow(starts, 0, 0, documents)}, ir::Add{-1.0});
  emit(OpKind::host_read, {number(OpKind::amax, DType::i32, lengths)}, {});
  hold({places});
  return starts;
}

/// transformers v5.23, modeling_flash_attention_utils.py, _flash_attention_forward: a row of tokens
/// by flash_attn_varlen_func, q, k and v cast as they are given where q is wider. Where nothing but
/// positions tells documents, a row of one is given to flash_attn_func.
ir::ValueId Lowering::flash_varlen(V q, V k, V v, std::int64_t window) {
  leaf_ = Module::attention_core;
  if (infers_documents(config_)) {
    asks_for_documents();
    if (config_.run.packing == 1) return flash_of_package(q, k, v, window);
  }
  q = autocast(q), k = autocast(k), v = autocast(v);
  V starts_q = m_.cu_seqlens_q, starts_k = m_.cu_seqlens_k;
  if (infers_documents(config_)) starts_q = starts_k = inferred_starts();
  const Shape s = shape(q);
  const V y = out({s[0], s[1], s[2], shape(v)[3]}, dtype(q), grad(q) || grad(k) || grad(v));
  p_.value(y).permuted = p_.value(q).permuted;
  const V lse = out({s[1], s[2]}, DType::f32, false), seed = out({2}, DType::i64, false);
  emit(OpKind::sdpa, {q, k, v, starts_q, starts_k}, {y, lse, seed},
       ir::Sdpa{.scale = spec_.score_scale(),
                .window = static_cast<std::int32_t>(window),
                .kernel = ir::SdpaKernel::flash,
                .documents = static_cast<std::uint16_t>(config_.run.packing)});
  return p_.value(y).permuted ? y : heads_last(y);
}

/// The same of rows that are whole, by flash_attn_func (flash-attn v2.8), which is told of the
/// window and the cap. That each block asks whether one row is packed (_is_packed_sequence: six
/// launches over its positions) is not planned.
ir::ValueId Lowering::flash_of_package(V q, V k, V v, std::int64_t window) {
  leaf_ = Module::attention_core;
  q = autocast(q), k = autocast(k), v = autocast(v);
  const Shape s = shape(q);
  const V y = out({s[0], s[1], s[2], shape(v)[3]}, dtype(q), grad(q) || grad(k) || grad(v));
  p_.value(y).permuted = p_.value(q).permuted;  // empty_like(q)
  const V lse = out({s[0], s[1], s[2]}, DType::f32, false), state = out({2}, DType::i64, false);
  emit(OpKind::sdpa, {q, k, v}, {y, lse, state},
       ir::Sdpa{.scale = spec_.score_scale(),
                .window = static_cast<std::int32_t>(window),
                .kernel = ir::SdpaKernel::flash_attn});
  return p_.value(y).permuted ? y : heads_last(y);
}

/// What `auto` does not give to cuDNN where it gives it others (sdp_utils.cpp, v2.15).
bool Lowering::not_cudnn(V q, V v) const {
  constexpr std::int64_t declined = 192;
  if (!pytorch_on_gpu(config_) || config_.runtime.under_dispatch_mode) return false;
  const ir::TorchFacts& torch = ir::facts_of(config_.runtime.torch);
  const bool wide = shape(q).back() == declined && shape(v).back() == declined;
  return (dropout_ > 0.0 && !torch.prefers_cudnn_with_dropout) ||
         (wide && !torch.prefers_cudnn_of_192);
}

/// By the kernel that is asked for: (B, heads, S, D).
ir::ValueId Lowering::attended(V q, V k, V v, V mask, ir::Sdpa attributes) {
  const Attention asked = config_.run.attention;
  const bool masked = mask != ir::no_id;
  const bool flash =
      asked == Attention::flash || (asked == Attention::automatic && not_cudnn(q, v));
  // flash attention takes no mask
  const bool efficient =
      asked == Attention::efficient || neither_flash_nor_cudnn(q) || (flash && masked);
  const std::int64_t elements = shape(v).back();
  const bool pads = !efficient && pads_heads(q);
  if (pads) q = padded_heads(q), k = padded_heads(k), v = padded_heads(v);
  attributes.kernel = efficient                   ? ir::SdpaKernel::efficient
                      : flash || pads             ? ir::SdpaKernel::flash
                      : asked == Attention::cudnn ? ir::SdpaKernel::cudnn
                                                  : ir::SdpaKernel::automatic;
  const Shape s = shape(q);
  const bool trained = grad(q) || grad(k) || grad(v);
  const V y = out({s[0], s[1], s[2], shape(v)[3]}, dtype(q), trained);
  if (efficient) {  // laid out [B, S, heads, D]; the generator's state is two numbers on the host
    p_.value(y).permuted = true;
    const V lse = out({s[0], s[1], (s[2] + 31) / 32 * 32}, DType::f32, false);
    if (masked)
      emit(OpKind::sdpa, {q, k, v, mask}, {y, lse}, attributes);
    else
      emit(OpKind::sdpa, {q, k, v}, {y, lse}, attributes);
    return y;
  }
  p_.value(y).permuted = p_.value(q).permuted;  // empty_like(q), so in q's layout
  const V lse = out({s[0], s[1], s[2]}, DType::f32, false);
  // cuDNN's dropout, which automatic is taken for, has its seed and its offset apart (MHA.cpp,
  // v2.11)
  const bool apart = dropout_ > 0.0 && attributes.kernel != ir::SdpaKernel::flash;
  const V seed = out(apart ? Shape{1} : Shape{2}, DType::i64, false);
  const V unused = out({}, DType::i64, false);
  if (masked)
    emit(OpKind::sdpa, {q, k, v, mask}, {y, lse, seed, unused}, attributes);
  else
    emit(OpKind::sdpa, {q, k, v}, {y, lse, seed, unused}, attributes);
  return pads ? slice_last(y, elements, 0) : y;  // post_process_flash_output
}

ir::ValueId Lowering::heads_last(V x) {
  const V y = out(shape(x), dtype(x), grad(x));
  p_.value(y).permuted = true;
  emit(OpKind::clone, {x}, {y});
  return y;
}

ir::ValueId Lowering::repeat_kv(V x) { return repeated(x, 1, heads() / shape(x)[1]); }

/// As repeat_kv, where nothing needs the copy: one head, repeated, is a view.
ir::ValueId Lowering::repeated_heads(V x) {
  const Shape s = shape(x);
  if (s[1] != 1) return repeat_kv(x);
  const V wide = p_.on_storage_of(x, {s[0], 1, heads(), s[2], s[3]}, dtype(x), false);
  emit(OpKind::expand, {x}, {wide});
  return p_.reshape(wide, {s[0], heads(), s[2], s[3]});
}

/// GptOss' eager_attention_forward: a learned logit a head joins the scores, and their maximum is
/// taken off; (B, heads, S, S + 1), in the scores' dtype.
ir::ValueId Lowering::sink_softmax(V scores, V sinks, std::vector<V>& locals) {
  const Shape s = shape(scores);
  const V column = p_.reshape(sinks, {1, s[1], 1, 1});
  const V joined = out({s[0], s[1], s[2], s[3] + 1}, dtype(scores), true);
  emit(OpKind::cat, {scores, column}, {joined});
  const V highest = out({s[0], s[1], s[2], 1}, dtype(scores), true);
  const V places = out({s[0], s[1], s[2], 1}, DType::i64, false);
  emit(OpKind::max, {joined}, {highest, places});
  const V shifted = binary(OpKind::add, joined, highest, ir::Add{-1.0});
  hold({joined});  // `combined_logits` until it is bound anew
  const V probabilities = unary(OpKind::softmax, shifted);
  const V y = slice_last(probabilities, s[3], 0);
  hold({scores});  // `attn_weights` until it is bound anew
  locals = {shifted, probabilities};
  return y;
}

/// matmul folds batch and heads, which copies what is not already in that order.
ir::ValueId Lowering::folded(V x) {
  if (!p_.value(x).permuted || shape(x)[0] == 1) return x;
  const V copy = out(shape(x), dtype(x), grad(x));
  emit(OpKind::clone, {x}, {copy});
  return copy;
}

/// Batch and heads of a product apart again.
ir::ValueId Lowering::unfolded(V product) {
  const V heads = p_.on_storage_of(product, shape(product), dtype(product), false);
  emit(OpKind::view, {product}, {heads});
  return heads;
}

/// Values by their weights, (batch, heads, tokens, elements): batch and heads are one meanwhile.
ir::ValueId Lowering::weighted(V weights, V value) {
  const Shape s = shape(weights);
  const V mixed =
      out({s[0], s[1], s[2], shape(value)[3]}, dtype(value), grad(weights) || grad(value));
  emit(OpKind::bmm, {weights, value}, {mixed},
       ir::Product{static_cast<std::int32_t>(s[3]), ir::Form::nn});
  return unfolded(mixed);
}

ir::ValueId Lowering::eager_core(V q, V k, V v, V mask, V sinks) {
  leaf_ = Module::attention_core;
  if (spec_.fp32_scores) return fp32_core(q, k, v);
  if (spec_.alibi) return alibi_core(q, k, v);
  const Shape s = shape(q);
  const V keys = repeat_kv(k), values = repeat_kv(v);
  const V narrow_keys = autocast(keys);
  const V query = folded(autocast(q)), key = folded(narrow_keys);
  V scores = out({s[0], s[1], s[2], s[2]}, dtype(query), grad(q) || grad(k));
  emit(OpKind::bmm, {query, key}, {scores}, ir::Product{static_cast<std::int32_t>(s[3])});
  scores = unary(OpKind::mul_scalar, scores, ir::Number{spec_.score_scale()});
  if (spec_.attention_softcap) {
    scores = unary(OpKind::div, scores, ir::Number{*spec_.attention_softcap});
    scores = unary(OpKind::tanh, scores);
    scores = unary(OpKind::mul_scalar, scores, ir::Number{*spec_.attention_softcap});
  }
  if (mask != ir::no_id) scores = binary(OpKind::add, scores, mask);
  V weights{};
  std::vector<V> sink_locals;
  if (sinks != ir::no_id) {
    weights = sink_softmax(scores, sinks, sink_locals);
  } else {
    weights = spec_.narrow_softmax
                  ? unary(OpKind::softmax, scores)
                  : cast(unary(OpKind::softmax, cast(scores, DType::f32)), dtype(q));
    hold({scores});  // `attn_weights` until it is bound anew
  }
  if (dropout_ > 0.0) {
    const V kept = out(shape(weights), dtype(weights), grad(weights));
    const ir::Dropout dropout{dropout_, block_};
    if (config_.runtime.kind == Runtime::ac_trainer) {  // the mask is drawn again, not kept
      emit(OpKind::dropout, {weights}, {kept}, dropout);
    } else {
      const V dropped = out(shape(weights), DType::u8, false);
      emit(OpKind::dropout, {weights}, {kept, dropped}, dropout);
    }
    weights = kept;
  }
  const V value = folded(autocast(values));
  const V y = heads_last(weighted(autocast(weights), value));
  hold({keys, values, weights});
  hold_all(sink_locals);
  attention_weights_ = weights;  // returned, and kept by the block's `_` to its end
  return y;
}

std::array<ir::ValueId, 3> Lowering::split_in_three(V x) {
  Shape third = shape(x);
  third.set(third.rank() - 1, third.back() / 3);
  std::array<V, 3> parts{};
  for (V& part : parts) {
    part = p_.on_storage_of(x, third, dtype(x), false);
    p_.value(part).permuted = p_.value(x).permuted;
  }
  emit(OpKind::split, {x}, {parts[0], parts[1], parts[2]});
  return parts;
}

/// (B, n, S, width) of a flat projection, (B, .., n x width): a view.
ir::ValueId Lowering::by_head(V flat, std::int64_t n, std::int64_t width) {
  const std::int64_t batch = shape(flat)[0], tokens = shape(flat).numel() / (batch * n * width);
  const V y = p_.on_storage_of(flat, {batch, n, tokens, width}, dtype(flat), false);
  p_.value(y).permuted = true;
  emit(OpKind::view, {flat}, {y});
  return y;
}

/// (B, S, n, width) of the same.
ir::ValueId Lowering::by_token(V flat, std::int64_t n, std::int64_t width) {
  const V y =
      p_.on_storage_of(flat, {config_.run.batch, config_.run.seq, n, width}, dtype(flat), false);
  emit(OpKind::view, {flat}, {y});
  return y;
}

/// q, k and v as one projection makes them: (B, heads, S, D) each.
std::array<ir::ValueId, 3> Lowering::fused_heads(V x, const Block& b) {
  const std::int64_t d = spec_.head_dim, nq = spec_.heads * d, nkv = spec_.kv_heads * d;
  leaf_ = Module::qkv_proj;
  const V qkv = linear(x, b.qkv);
  switch (spec_.qkv_layout) {
    case model::QkvLayout::by_head:
      return split_in_three(by_head(qkv, spec_.heads, 3 * d));
    case model::QkvLayout::split: {
      const auto [q, k, v] = split_in_three(qkv);
      const V keys = by_head(k, spec_.heads, d), values = by_head(v, spec_.heads, d);
      return {by_head(q, spec_.heads, d), keys, values};
    }
    case model::QkvLayout::grouped: {
      const std::int64_t nq_of_group = spec_.heads / spec_.kv_heads * d;
      const Shape groups{config_.run.batch, config_.run.seq, spec_.kv_heads, nq_of_group + 2 * d};
      const V all = p_.on_storage_of(qkv, groups, dtype(qkv), false);
      emit(OpKind::view, {qkv}, {all});
      const V queries = slice_last(all, nq_of_group, 0);
      const V q =
          p_.reshape(unary(OpKind::clone, queries), {config_.run.batch, config_.run.seq, nq});
      const auto one_of_group = [&](std::int64_t start) {  // transposed alone, not reshaped
        return p_.reshape(slice_last(all, d, static_cast<std::int32_t>(start)),
                          {config_.run.batch, spec_.kv_heads, config_.run.seq, d}, true);
      };
      const V k = one_of_group(nq_of_group), v = one_of_group(nq_of_group + d);
      return {by_head(q, spec_.heads, d), k, v};
    }
    case model::QkvLayout::by_head_apart: {
      frame_ = {qkv};
      const V all = p_.on_storage_of(qkv, {config_.run.batch, config_.run.seq, spec_.heads, 3 * d},
                                     dtype(qkv), false);
      emit(OpKind::view, {qkv}, {all});
      const auto one = [&](std::int64_t which) {
        return p_.reshape(slice_last(all, d, static_cast<std::int32_t>(which * d)),
                          {config_.run.batch, spec_.heads, config_.run.seq, d}, true);
      };
      const V q = one(0), k = one(1), v = one(2);
      return {q, k, v};
    }
    case model::QkvLayout::one_pair:
      return one_pair_heads(qkv);
    case model::QkvLayout::grouped_repeated:
      return repeated_pairs(qkv);
    case model::QkvLayout::stacked:
      return stacked_thirds(qkv);
    case model::QkvLayout::sliced:
      break;
  }
  const V q_flat = slice_last(qkv, nq, 0);
  const V k_flat = slice_last(qkv, nkv, static_cast<std::int32_t>(nq));
  const V v_flat = slice_last(qkv, nkv, static_cast<std::int32_t>(nq + nkv));
  const V q = by_head(q_flat, spec_.heads, d), k = by_head(k_flat, spec_.kv_heads, d);
  return {q, k, by_head(v_flat, spec_.kv_heads, d)};
}

/// Ministral3Attention.forward: 1 + beta * log(1 + floor(position / trained positions)) a query.
ir::ValueId Lowering::scaled_by_position(V q) {
  leaf_ = Module::attention;
  const V share = make_int(OpKind::div, {config_.run.seq}, DType::f32, {positions_});
  const V whole = unary(OpKind::add_scalar, unary(OpKind::floor, share), ir::Number{1.0});
  const V grown = unary(OpKind::mul_scalar, unary(OpKind::log, whole), ir::Number{1.0});
  const V scale = cast(unary(OpKind::add_scalar, grown, ir::Number{1.0}), dtype(q));
  return binary(OpKind::mul, q, scale);
}

/// Attention.forward of modeling_baichuan.py: thirds of the projection as entries of a dimension
/// that is moved to the front, whose gradient is laid out that way, and copied back.
std::array<ir::ValueId, 3> Lowering::stacked_thirds(V qkv) {
  const std::int64_t d = spec_.head_dim, third = spec_.heads * d;
  const V all = p_.on_storage_of(qkv, shape(qkv), dtype(qkv), false);
  p_.value(all).permuted = true;
  emit(OpKind::view, {qkv}, {all});
  const auto one = [&](std::int64_t which) {
    const V flat = slice_last(all, third, static_cast<std::int32_t>(which * third));
    return by_head(flat, spec_.heads, d);
  };
  const V q = one(0), k = one(1);
  return {q, k, one(2)};
}

/// Llama4TextAttention.forward: 1 + attn_scale * log(1 + floor((position + 1) / floor_scale)) a
/// query, in fp32, which the product is in before it is cast back.
ir::ValueId Lowering::tuned_queries(V q) {
  leaf_ = Module::attention;
  const V start = make_int(OpKind::arange, {config_.run.seq}, DType::i64, {});
  const V positions = unary(OpKind::add_scalar, start);
  const auto number = [&](OpKind kind, V x) { return unary(kind, x, ir::Number{1.0}); };
  const V share = number(OpKind::div, number(OpKind::add_scalar, cast(positions, DType::f32)));
  const V grown = number(OpKind::mul_scalar, unary(OpKind::log, unary(OpKind::floor, share)));
  const V scale = number(OpKind::add_scalar, grown);
  const V wide = binary(OpKind::mul, q, p_.reshape(scale, {1, 1, config_.run.seq, 1}));
  const V y = cast(wide, dtype(q));
  hold({q});  // `query_states`, until it is bound anew
  frame_.insert(frame_.end(), {positions, scale});
  return y;
}

/// q, k and v of separate or fused projections, rotated: (B, heads, S, D) each.
std::array<ir::ValueId, 3> Lowering::projected_heads(const Block& b, std::int16_t index, V x,
                                                     const Rotary& rotary) {
  if (forms_.keeps_table()) return heads_of_tokens(b, x, rotary);
  const std::int64_t d = spec_.head_dim;
  V q{}, k{}, v{};
  if (spec_.fused_qkv) {
    const auto made = fused_heads(x, b);
    q = made[0], k = made[1], v = made[2];
  } else {
    const bool heads_last = spec_.qk_norm_whole || model::class_facts(spec_.family).heads_last;
    const auto project = [&](const Linear& l, Module leaf, V norm, Module norm_leaf,
                             std::int64_t n) {
      leaf_ = leaf;
      V flat = linear(x, l);
      if (spec_.rotation == model::Rotation::table && leaf != Module::v_proj)
        return by_token(flat, n, d);
      if (spec_.scaled_queries && leaf == Module::q_proj)
        flat = unary(OpKind::mul_scalar, flat, ir::Number{spec_.attention_scale});
      if (heads_last) return norm == ir::no_id ? flat : rms_norm(flat, norm, norm_leaf);
      const V y = by_head(flat, n, d);
      if (norm == ir::no_id || spec_.unit_offset_norm || spec_.norms_after_heads ||
          model::class_facts(spec_.family).norms_after_rotation)
        return y;
      return rms_norm(y, norm, norm_leaf);
    };
    q = project(b.q, Module::q_proj, b.q_norm, Module::q_norm, heads());
    k = project(b.k, Module::k_proj, b.k_norm, Module::k_norm, kv_heads());
    v = project(b.v, Module::v_proj, ir::no_id, Module::v_proj, kv_heads());
    if (heads_last) {
      q = by_head(q, heads(), d);
      k = by_head(k, kv_heads(), d);
      v = by_head(v, kv_heads(), d);
    }
    if (spec_.qk_norm && spec_.norms_after_heads) {
      q = rms_norm(q, b.q_norm, Module::q_norm);
      k = rms_norm(k, b.k_norm, Module::k_norm);
    }
    if (spec_.qk_norm && spec_.unit_offset_norm) {  // gemma3: both norms after the projections
      q = gemma_rms_norm(q, b.q_norm, Module::q_norm);
      k = gemma_rms_norm(k, b.k_norm, Module::k_norm);
    }
  }
  const auto block = static_cast<std::size_t>(index);
  const bool rotated =
      spec_.rotates() && (spec_.unrotated_block.empty() || !spec_.unrotated_block[block]);
  leaf_ = Module::rope;
  auto [q_rotated, k_rotated] = spec_.rotation == model::Rotation::table
                                    ? rotate_by_table(b.angles, q, k)
                                : rotated ? rotate(q, k, rotary)
                                          : std::pair{q, k};
  if (spec_.qk_norm && model::class_facts(spec_.family).norms_after_rotation) {
    q_rotated = rms_norm(q_rotated, b.q_norm, Module::q_norm);
    k_rotated = rms_norm(k_rotated, b.k_norm, Module::k_norm);
  }
  if (spec_.position_scaled_queries) q_rotated = scaled_by_position(q_rotated);
  if (spec_.unweighted_qk_norm && rotated) {
    q_rotated = divided_by_length(q_rotated, Module::q_norm);
    k_rotated = divided_by_length(k_rotated, Module::k_norm);
  }
  if (spec_.tuned_temperature && !rotated) q_rotated = tuned_queries(q_rotated);
  return {q_rotated, k_rotated, v};
}

ir::ValueId Lowering::attention(const Block& b, std::int16_t index, V x, const Rotary& rotary) {
  const V given = x;
  leaf_ = Module::attention;
  x = gathered(input_in_fp8(x));
  V gate = ir::no_id;
  auto [q, k, v] = spec_.latent            ? latent_heads(b, x, rotary)
                   : spec_.gated_attention ? gated_heads(b, x, rotary, gate)
                                           : projected_heads(b, index, x, rotary);
  if (!cache_.empty()) {
    const std::size_t place = 2 * static_cast<std::size_t>(index);
    k = after_prefix(k, place), v = after_prefix(v, place + 1);
  }
  const std::int64_t window =
      spec_.window.empty() ? 0 : spec_.window[static_cast<std::size_t>(index)];
  const V core = forms_.caps_hidden ? capped_core(q, k, v, window > 0)
                 : eager_attention_
                     ? eager_core(q, k, v, window > 0 ? window_mask_ : full_mask_, b.sinks)
                 : is_varlen()     ? flash_varlen(q, k, v, window)
                 : is_of_package() ? flash_of_package(q, k, v, window)
                                   : sdpa(q, k, v, window);
  V merged = p_.reshape(core, {config_.run.batch, config_.run.seq, heads() * spec_.value_dim()});
  if (gate != ir::no_id) merged = gated_output(merged, gate);
  leaf_ = Module::o_proj;
  V y = gradient_in_fp8(scattered(linear(input_in_fp8(merged), b.o)));
  if (shares_in_fp8()) hold({merged});             // until its name is bound to y
  if (spec_.residual_inside) frame_.push_back(y);  // dropout_add's argument
  if (!spec_.dropout_in_block) y = dropped(y, spec_.residual_dropout);
  frame_.insert(frame_.end(), {given, x, q, k, v});
  if (!spec_.residual_inside) end_frame();
  return y;
}

/// The frame of attention, or of an MLP without a gate, ends: its locals.
void Lowering::end_frame() {
  hold_all(frame_);
  frame_.clear();
}

}  // namespace ac_advisor::passes
