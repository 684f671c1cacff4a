// transformers v5.23: Qwen3NextGatedDeltaNet.forward and Qwen3_5GatedDeltaNet.forward, where
// neither flash-linear-attention nor causal-conv1d is installed; its norm, and the causal
// convolution before it.
#include "ac_advisor/model/class_facts.hpp"
#include "lowering.hpp"

namespace ac_advisor::passes {

using ir::Module;
using ir::OpKind;
using ir::Shape;

/// causal_conv1d_fn: each channel by its taps, over tokens that begin with as many zeros less one;
/// (B, S, channels) to the same, laid out (B, channels, S).
ir::ValueId Lowering::causal_conv(V x, V weight) {
  leaf_ = Module::conv1d;
  const Shape s = shape(x);
  const std::int64_t tokens = s[1], channels = s[2], taps = shape(weight).back();
  // Widened to the weight's dtype, which autocast takes back; a view of a leaf it casts each time.
  const V wide_input = cast(x, dtype(weight));
  const V narrow_input = autocast(wide_input);
  const V taps_of =
      config_.precision.autocast ? cast(weight, config_.precision.compute_dtype) : weight;
  const V turned = p_.reshape(narrow_input, {s[0], channels, tokens}, true);
  const V in_order =
      make_int(OpKind::empty, shape(turned), dtype(turned), {});  // channel by channel
  const V wide = out({s[0], channels, tokens + taps - 1}, dtype(turned), grad(x) || grad(weight));
  emit(OpKind::depthwise_conv, {turned, taps_of, in_order}, {wide});
  if (wide_input != x) hold({wide_input});  // conv1d's argument
  const V causal = slice_last(wide, tokens, 0);
  const V y = p_.reshape(unary(OpKind::silu, causal), s, true);
  hold({x});  // the caller's `mixed_qkv`, until it is bound anew
  return y;
}

/// Qwen3NextRMSNormGated.forward: the weight multiplies in the compute dtype, the gate in fp32.
ir::ValueId Lowering::gated_norm(V x, V gate, V weight) {
  leaf_ = Module::gated_norm;
  const DType in = dtype(x);
  const V h = cast(x, DType::f32);
  Shape row = shape(x);
  row.set(row.rank() - 1, 1);
  const V variance = out(row, DType::f32, grad(x));
  emit(OpKind::mean, {unary(OpKind::pow, h, ir::Power{2.0})}, {variance});
  const V shifted = unary(OpKind::add_scalar, variance, ir::Number{spec_.rms_norm_eps});
  const V normed = binary(OpKind::mul, h, unary(OpKind::rsqrt, shifted));
  const V narrow = cast(normed, in);
  const DType wider = dtype(weight) == DType::f32 ? DType::f32 : in;
  const V scaled = out(shape(x), wider, grad(x) || grad(weight));
  emit(OpKind::mul, {weight, narrow}, {scaled});
  hold({normed});  // `hidden_states`, until it is bound anew
  const V opened = unary(OpKind::silu, cast(gate, DType::f32));
  const V product = binary(OpKind::mul, scaled, opened);
  hold({scaled});  // once more
  const V y = cast(product, in);
  hold({product, variance, x});  // the frame's locals, and the caller's
  return y;
}

/// Qwen3NextGatedDeltaNet: two projections for all.
Lowering::DeltaParts Lowering::joint_parts(const Block& b, V x) {
  const model::DeltaNet& delta = *spec_.delta;
  const std::int64_t batch = config_.run.batch, tokens = config_.run.seq, groups = delta.key_heads,
                     each = delta.value_heads / groups, key = delta.key_dim,
                     values = each * delta.value_dim, keys = groups * key;
  leaf_ = Module::qkv_proj;
  const V projected = linear(x, b.qkv);
  leaf_ = Module::ba_proj;
  const V rates = linear(x, b.ba);
  // fix_query_key_value_ordering: each head of keys has its q, k, values and gates side by side
  leaf_ = Module::attention;
  const auto parts_of = [&](V all, std::initializer_list<std::int64_t> widths) {
    std::vector<V> parts;
    for (std::int64_t width : widths)
      parts.push_back(p_.on_storage_of(all, {batch, tokens, groups, width}, dtype(all), false));
    p_.emit(OpKind::split, phase_, at(leaf_), std::vector<V>{all}, parts);
    return parts;
  };
  const std::vector<V> wide =
      parts_of(p_.reshape(projected, {batch, tokens, groups, 2 * key + 2 * values}),
               {key, key, values, values});
  // Gradients of both rates come laid out by head, which the projection's backward copies.
  const V by_rate = p_.on_storage_of(rates, {batch, tokens, groups, 2 * each}, dtype(rates), false);
  p_.value(by_rate).permuted = true;
  emit(OpKind::view, {rates}, {by_rate});
  const std::vector<V> narrow = parts_of(by_rate, {each, each});
  const auto together = [&](V part, std::int64_t width, bool copied) {  // reshape
    return p_.reshape(copied ? unary(OpKind::clone, part) : part, {batch, tokens, width});
  };
  const bool apart = groups > 1;  // one group's heads lie side by side as they are
  const V value = together(wide[2], groups * values, apart && each > 1);
  const V gate = together(wide[3], groups * values, apart && each > 1);
  const V rate = together(narrow[0], delta.value_heads, apart && each > 1);
  const V decay = together(narrow[1], delta.value_heads, apart && each > 1);
  const V query_part = together(wide[0], keys, apart), key_part = together(wide[1], keys, apart);
  const V value_part = apart && each == 1 ? together(wide[2], groups * values, true) : value;
  const V mixed =
      out({batch, tokens, 2 * keys + groups * values}, dtype(projected), grad(projected));
  emit(OpKind::cat, {query_part, key_part, value_part}, {mixed});
  DeltaParts parts{mixed, gate, rate, decay};
  parts.until_mixed = {query_part, key_part, value_part, value};
  parts.frame = {projected, rates, gate, rate, decay};
  return parts;
}

/// Qwen3_5GatedDeltaNet: queries, keys and values are made together, all else by itself.
Lowering::DeltaParts Lowering::parts_apart(const Block& b, V x) {
  const auto made = [&](Module leaf, const Linear& by) {
    leaf_ = leaf;
    return linear(x, by);
  };
  DeltaParts parts;
  parts.mixed = made(Module::qkv_proj, b.qkv);
  parts.gate = made(Module::z_proj, b.z);
  parts.rate = made(Module::b_proj, b.b);
  parts.decay = made(Module::a_proj, b.a);
  parts.frame = {parts.gate, parts.rate, parts.decay};
  return parts;
}

/// What has its gradient channel by channel, (B, channels, S) in memory: the product that made it
/// copies that, where there are several sequences.
ir::ValueId Lowering::by_channel(V x) {
  const Shape s = shape(x);
  if (s[0] == 1) return x;
  const V y = p_.on_storage_of(x, s, dtype(x), false);
  p_.value(y).permuted = true;
  emit(OpKind::view, {x}, {y});
  return p_.reshape(y, s);
}

ir::ValueId Lowering::delta_net(const Block& b, V x) {
  const model::DeltaNet& delta = *spec_.delta;
  const std::int64_t batch = config_.run.batch, tokens = config_.run.seq, groups = delta.key_heads,
                     key = delta.key_dim, keys = groups * key,
                     values = delta.value_heads * delta.value_dim;
  const DeltaParts parts =
      model::class_facts(spec_.family).delta_apart ? parts_apart(b, x) : joint_parts(b, x);
  const V filtered = causal_conv(parts.mixed, b.conv);
  leaf_ = Module::attention;
  hold_all(parts.until_mixed);
  DeltaInputs in;
  const auto channels = [&](std::int64_t width) {
    return p_.on_storage_of(filtered, {batch, tokens, width}, dtype(filtered), false);
  };
  const V q = channels(keys), k = channels(keys), v = channels(values);
  emit(OpKind::split, {filtered}, {q, k, v});
  const bool repeated_later = delta.value_heads > groups;
  const auto heads_of = [&](V flat) {
    return repeated_later ? p_.reshape(flat, {batch, tokens, groups, key})
                          : by_head(flat, groups, key);
  };
  in.queries = heads_of(q), in.keys = heads_of(k);
  in.values = by_head(v, delta.value_heads, delta.value_dim);
  in.rate = unary(OpKind::sigmoid, parts.rate);
  const V slope = unary(OpKind::neg, unary(OpKind::exp_of, cast(b.a_log, DType::f32)));
  const V shifted = binary(OpKind::add, cast(parts.decay, DType::f32), b.dt_bias);
  const V step = unary(OpKind::softplus, shifted);
  in.decay = out(shape(step), DType::f32, grad(slope) || grad(step));
  emit(OpKind::mul, {slope, step}, {in.decay});
  const V core = delta_rule(in);
  const V rows = p_.reshape(core, {batch * tokens * delta.value_heads, delta.value_dim});
  const V normed = gated_norm(rows, p_.reshape(parts.gate, shape(rows)), b.gated_norm);
  leaf_ = Module::o_proj;
  const V y = linear(p_.reshape(normed, {batch, tokens, values}), b.o);
  hold_all(parts.frame);
  hold({x, filtered, in.rate, in.decay, normed});
  attention_weights_ = ir::no_id;
  return y;
}

}  // namespace ac_advisor::passes
