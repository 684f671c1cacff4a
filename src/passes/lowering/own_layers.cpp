// TorchTitan v0.2.2's layers (models/llama3/model/model.py, models/qwen3/model/model.py) and
// torchtune v0.6.1's (modules/rms_norm.py, attention.py, models/*/_position*_embeddings.py), in
// what they differ from transformers': model/layers.cpp says in what.
// TorchTitan's experts: experts_of_torchtitan.cpp.
#include "ac_advisor/model/layers.hpp"

#include "lowering.hpp"

namespace ac_advisor::passes {

using ir::Module;
using ir::OpKind;
using ir::Role;
using ir::Shape;
using model::NormForm;
using model::RotationForm;

/// torch.nn.functional.rms_norm (aten/src/ATen/native/layer_norm.cpp, v2.11): one kernel where the
/// weight has the input's dtype; else op by op in fp32, which the weight multiplies there.
ir::ValueId Lowering::torch_rms_norm(V x, V weight, Module leaf) {
  leaf_ = leaf;
  Shape row = shape(x);
  row.set(row.rank() - 1, 1);
  if (dtype(x) == dtype(weight)) {
    const V y = out(shape(x), dtype(x), grad(x) || grad(weight));
    p_.value(y).permuted = p_.value(x).permuted;
    const V scale = out(row, DType::f32, false);
    emit(OpKind::fused_rms_norm, {x, weight}, {y, scale}, ir::RmsNorm{spec_.rms_norm_eps});
    return y;
  }
  const V wide = cast(x, DType::f32);
  const V mean = out(row, DType::f32, grad(x));
  emit(OpKind::mean, {unary(OpKind::pow, wide, ir::Power{2.0})}, {mean});
  const V shifted = unary(OpKind::add_scalar, mean, ir::Number{spec_.rms_norm_eps});
  const V normed = binary(OpKind::mul, wide, unary(OpKind::rsqrt, shifted));
  const V scaled = binary(OpKind::mul, normed, weight);
  const V y = cast(scaled, dtype(x));
  hold({wide, normed, scaled});  // rms_norm_composite's locals
  return y;
}

ir::ValueId Lowering::own_norm(V x, V weight, Module leaf) {
  if (forms_.norm == NormForm::torch) return torch_rms_norm(x, weight, leaf);
  leaf_ = leaf;
  const V wide = cast(x, DType::f32);
  const V normed = torch_rms_norm(wide, weight, leaf);
  hold({wide});  // the argument of F.rms_norm
  const V y = cast(normed, dtype(x));
  hold({x});
  return y;
}

/// freqs_cis: complex numbers; rope_cache: cosines beside sines; torchtune's cache of either, with
/// the frequencies that it is made of. TorchTitan makes it for the sequences of the run.
void Lowering::declare_table() {
  const bool halves = forms_.turns_halves();
  const std::int64_t d = spec_.head_dim, positions = config_.run.seq * config_.layout.cp;
  const auto kept = [&](const Shape& size) {
    s_.buffers.push_back(p_.make(size, DType::f32, Role::buffer, at(Module::rotary)));
    return s_.buffers.back();
  };
  if (forms_.whole_positions) kept({d / 2});
  const std::int64_t rows =
      forms_.whole_positions && spec_.max_positions > 0 ? spec_.max_positions : positions;
  const V table = kept({rows, halves ? 2 * d : d});
  if (m_.inv_freq.empty()) m_.inv_freq.push_back(table);
  // A tied head has weights of its own until the first step, which are not planned.
  if (config_.run.transformer_impl != TransformerImpl::torchtitan || spec_.tied_embeddings) return;
  // init_weights makes it while the one of to_empty is there, of positions and angles; of halves
  // joined, cosines and sines, or of ones (precompute_rope_cache, precompute_freqs_cis).
  const std::int64_t whole = p_.bytes(table), half = whole / 2;
  s_.made_anew.push_back({table, halves ? std::vector{whole, 4 * rows, half / 2, half, half, half}
                                        : std::vector{whole, 8 * rows, half, half}});
}

/// What a forward reads of the table: its first rows, a view.
Lowering::Rotary Lowering::table_of_step(V table) {
  if (config_.run.position_ids) return {table, table};
  const V rows = p_.reshape(p_.narrow(table, 0, 0, config_.run.seq),
                            {1, config_.run.seq, shape(table).back()});
  return {rows, rows};
}

/// Whether each block gets a table of its own. TorchTitan hands it to each as an argument, and
/// fully_shard's mixed precision casts what a unit is given before the unit gathers (torch v2.11,
/// distributed/fsdp/_fully_shard/_fsdp_state.py, _pre_forward: cast_forward_inputs): the whole of
/// it, but for complex numbers, which count as no floats.
bool Lowering::casts_tables() const {
  return config_.run.transformer_impl == TransformerImpl::torchtitan &&
         forms_.rotation == RotationForm::half_turns && config_.layout.gathers();
}

Lowering::Rotary Lowering::table_of_block() {
  leaf_ = Module::rotary;
  return table_of_step(cast(m_.inv_freq.front(), dtype_));
}

/// reshape_for_broadcast of positions that a batch carries, (batch, tokens): of one sequence its
/// rows are looked up, of several they are gathered.
ir::ValueId Lowering::rows_of_positions(V table) {
  if (positions_ == ir::no_id) return table;
  leaf_ = Module::rope;
  const std::int64_t b = config_.run.batch, s = config_.run.seq;
  const V rows = out({b, s, shape(table).back()}, dtype(table), false);
  emit(b == 1 ? OpKind::index : OpKind::gather, {table, positions_}, {rows});
  return rows;
}

/// Cosines and sines of a table that has them side by side, in the dtype of what they turn, or
/// wide.
Lowering::Rotary Lowering::cast_halves(V table, DType type) {
  leaf_ = Module::rope;
  const std::int64_t d = spec_.head_dim;
  const V cos = cast(slice_last(table, d, 0), type);
  return {cos, cast(slice_last(table, d, static_cast<std::int32_t>(d)), type)};
}

/// x cos + rotate_half(x) sin of (B, heads, S, D), tokens outermost in memory.
/// torchtune's Phi3RotaryPositionalEmbeddings.forward: in fp32 by a table that is so; what it makes
/// has names until it returns.
ir::ValueId Lowering::half_turned(V x, const Rotary& halves) {
  leaf_ = Module::rope;
  const std::int64_t half = shape(x).back() / 2;
  const V direct = binary(OpKind::mul, x, halves.cos);
  const V x1 = slice_last(x, half, 0), x2 = slice_last(x, half, static_cast<std::int32_t>(half));
  const V negated = unary(OpKind::neg, x2);
  const V turned = out(shape(x), dtype(x), grad(x));
  p_.value(turned).permuted = p_.value(x).permuted;
  emit(OpKind::cat, {negated, x1}, {turned});
  const V sum = binary(OpKind::add, direct, binary(OpKind::mul, turned, halves.sin));
  if (forms_.rotation != RotationForm::wide_half_turns) return sum;
  const V y = cast(sum, dtype(x));
  hold({turned, sum});
  return y;
}

/// torchtune's RotaryPositionalEmbeddings.forward: in fp32 each element of a pair by itself, for
/// which the pair is selected anew.
ir::ValueId Lowering::turned_in_pairs(V x, V table) {
  leaf_ = Module::rope;
  const V wide = cast(x, DType::f32);
  const std::int64_t half = shape(x).back() / 2;
  const auto of_pairs = [&](V pairs, std::int32_t element) {
    return slice_last(pairs, half, element);
  };
  const auto product = [&](std::int32_t element, std::int32_t angle) {
    const V part = of_pairs(wide, element);
    return binary(OpKind::mul, part, of_pairs(table, angle));
  };
  const auto sum = [&](std::int32_t by_cos, std::int32_t by_sin, double sign) {
    const V left = product(by_cos, 0);
    return binary(OpKind::add, left, product(by_sin, 1), ir::Add{sign});
  };
  const V first = sum(0, 1, -1.0), second = sum(1, 0, 1.0);
  const V joined = out(shape(x), DType::f32, grad(x));
  p_.value(joined).permuted = p_.value(x).permuted;
  emit(OpKind::cat, {first, second}, {joined});
  const V y = cast(joined, dtype(x));
  hold({x, wide, joined});
  return y;
}

/// q, k and v, (B, heads, S, D): they are turned as they are projected, tokens outermost, and only
/// then transposed.
std::array<ir::ValueId, 3> Lowering::heads_of_tokens(const Block& b, V x, const Rotary& rotary) {
  const auto project = [&](const Linear& l, Module leaf, std::int64_t n) {
    leaf_ = leaf;
    return by_head(linear(x, l), n, spec_.head_dim);
  };
  const auto normed = [&](V heads, V norm, Module leaf) {
    return norm == ir::no_id ? heads : own_norm(heads, norm, leaf);
  };
  const bool pairs = forms_.rotation == RotationForm::pairs;
  const auto turned = [&](V heads) {
    if (pairs) return turned_in_pairs(heads, rotary.cos);
    const bool wide = forms_.rotation == RotationForm::wide_half_turns;
    const Rotary halves = cast_halves(rotary.cos, wide ? DType::f32 : dtype(heads));
    const V y = half_turned(heads, halves);
    hold({heads, halves.cos, halves.sin});
    return y;
  };
  V q = project(b.q, Module::q_proj, heads());
  if (forms_.q_before_k) q = turned(q);
  V k = project(b.k, Module::k_proj, kv_heads());
  V v = project(b.v, Module::v_proj, kv_heads());
  if (forms_.q_before_k) {
    k = turned(k);
    if (forms_.caps_hidden)
      k = repeated_by_token(k), v = repeated_by_token(v);
    else if (forms_.repeats_keys)
      k = repeat_kv(k), v = repeat_kv(v);
    return {q, k, v};
  }
  q = normed(q, b.q_norm, Module::q_norm);
  k = normed(k, b.k_norm, Module::k_norm);
  const V table = rows_of_positions(rotary.cos);
  leaf_ = Module::rope;
  if (forms_.rotation == RotationForm::complex) {
    const auto [q_turned, k_turned] = rotate_complex(q, k, {table, table});
    return {q_turned, k_turned, v};
  }
  // Heads of a part of a layer stay DTensors until attention (use_local_output=False).
  if (tp_ > 1) p_.value(q).distributed = p_.value(k).distributed = true;
  const Rotary halves = cast_halves(table, dtype(q));
  const V q_turned = half_turned(q, halves), k_turned = half_turned(k, halves);
  hold({q, k, halves.cos, halves.sin});
  return {q_turned, k_turned, v};
}

}  // namespace ac_advisor::passes
