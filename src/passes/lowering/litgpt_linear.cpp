// litgpt v0.5.13, litgpt/lora.py: LoRALinear, LoRAQKVLinear and what a model with them has; and
// finetune/lora.py, main, beside layers that bitsandbytes quantizes.
#include <numeric>

#include "lowering.hpp"
#include "passes/adapters/targets.hpp"

namespace ac_advisor::passes {

using ir::CompiledGraph;
using ir::Module;
using ir::OpKind;
using ir::Role;
using ir::Shape;

Lowering::Linear Lowering::litgpt_parameters(std::int64_t in, std::int64_t out, bool bias,
                                             Module leaf, const LitgptAdapter& adapter) {
  Linear l;
  l.in = in;
  l.out = out;
  if (adapter.inputs > 0) {
    l.lora_a = trained({config_.adapters.rank * adapter.inputs, in}, dtype_, leaf);
    l.lora_b = trained({adapter.outputs, config_.adapters.rank}, dtype_, leaf);
  }
  if (config_.adapters.quantize != Quantization::none)
    quantized(l, leaf);
  else
    l.weight = parameter({out, in}, leaf);
  if (bias) l.bias = parameter({out}, leaf);
  return l;
}

/// Columns of those of q, k and v that have adapters, in order.
std::vector<std::int64_t> Lowering::adapted_widths_of_qkv() const {
  std::vector<std::int64_t> widths;
  for (const auto& [target, heads] :
       {std::pair{LitgptTarget::query, spec_.heads}, std::pair{LitgptTarget::key, spec_.kv_heads},
        std::pair{LitgptTarget::value, spec_.kv_heads}})
    if (adapts(config_, target)) widths.push_back(heads * spec_.head_dim);
  return widths;
}

void Lowering::declare_litgpt() {
  declare_inputs();
  s_.loss_scale = 1.0;  // the script divides the loss
  s_.stages = stages_of_rank(spec_, config_);
  const std::int64_t h = spec_.hidden, d = spec_.head_dim, q = spec_.heads * d,
                     kv = spec_.kv_heads * d, wide = spec_.intermediate;
  const auto of = [&](LitgptTarget target, std::int64_t width) {
    return adapts(config_, target) ? LitgptAdapter{1, width} : LitgptAdapter{};
  };
  const auto norm = [&](V& weight, V& bias, Module leaf) {
    weight = parameter({h}, leaf);
    if (spec_.norms_have_bias()) bias = parameter({h}, leaf);
  };
  const Linear head = litgpt_parameters(h, spec_.vocab, spec_.head_bias, Module::lm_head,
                                        of(LitgptTarget::head, spec_.vocab));
  m_.head = head;
  m_.lm_head = head.weight, m_.lm_head_bias = head.bias;
  declare_litgpt_embedding();
  const std::vector<std::int64_t> widths = adapted_widths_of_qkv();
  m_.blocks.resize(static_cast<std::size_t>(spec_.layers));
  for (std::size_t i = 0; i < m_.blocks.size(); ++i) {
    block_ = static_cast<std::int16_t>(i);
    Block& b = m_.blocks[i];
    norm(b.norm1, b.norm1_bias, Module::norm1);
    const LitgptAdapter qkv{static_cast<std::int64_t>(widths.size()),
                            std::accumulate(widths.begin(), widths.end(), std::int64_t{0})};
    b.qkv = litgpt_parameters(h, q + 2 * kv, spec_.qkv_bias, Module::qkv_proj, qkv);
    if (qkv.inputs == 1 || qkv.inputs == 2) {  // lora_ind
      b.qkv.adapter = {p_.make({qkv.outputs}, DType::i64, Role::buffer, at(Module::qkv_proj))};
      s_.buffers.push_back(b.qkv.adapter.front());
    }
    b.o =
        litgpt_parameters(q, h, spec_.output_bias, Module::o_proj, of(LitgptTarget::projection, h));
    if (!spec_.shared_norm) norm(b.norm2, b.norm2_bias, Module::norm2);
    if (!spec_.plain_mlp)
      b.gate = litgpt_parameters(h, wide, spec_.mlp_bias, Module::gate_proj,
                                 of(LitgptTarget::mlp, wide));
    b.up = litgpt_parameters(h, wide, spec_.mlp_bias, Module::up_proj, of(LitgptTarget::mlp, wide));
    b.down =
        litgpt_parameters(wide, h, spec_.mlp_bias, Module::down_proj, of(LitgptTarget::mlp, h));
  }
  block_ = -1;
  norm(m_.final_norm, m_.final_norm_bias, Module::final_norm);
  // rope_cache: made anew for the longest sequence, in fp32; one of the model's own length was cast
  // with it.
  const DType type = config_.run.seq == spec_.max_positions ? dtype_ : DType::f32;
  for (int table = 0; table < 2; ++table) {
    m_.inv_freq.push_back(
        p_.make({1, 1, config_.run.seq, spec_.rotary_dim}, type, Role::buffer, at(Module::rotary)));
    s_.buffers.push_back(m_.inv_freq.back());
  }
  s_.blocks = static_cast<std::int32_t>(spec_.layers);
}

/// Beside quantized layers finetune/lora.py replaces the embedding after the optimizer was made:
/// the new one and its norm have gradients, which nothing steps or clears, and the old one stays.
void Lowering::declare_litgpt_embedding() {
  const Shape table{spec_.vocab, spec_.hidden}, row{spec_.hidden};
  if (!config_.adapters.stable_embedding || config_.adapters.quantize == Quantization::none) {
    m_.embed = parameter(table, Module::embed);
    return;
  }
  s_.buffers.push_back(p_.make(table, dtype_, Role::parameter, at(Module::embed)));
  const auto never_stepped = [&](const Shape& shape) {
    const V v = trained(shape, dtype_, Module::embed);
    Parameter& parameter = s_.parameters.back();
    parameter.stepped = false;
    parameter.gradient = p_.make(shape, dtype_, Role::gradient, at(Module::embed));
    return v;
  };
  m_.embed = never_stepped(table);
  m_.embed_norm = never_stepped(row);
  m_.embed_norm_bias = never_stepped(row);
}

/// LoRALinear.forward: (dropout(x) @ A.T @ B.T) * scaling, added to the frozen layer's.
ir::ValueId Lowering::litgpt_linear(V x, const Linear& l) {
  const V frozen = base_linear(x, l);
  if (l.lora_a == ir::no_id) return frozen;
  const V delta = low_rank(x, l);
  const V y = binary(OpKind::add, frozen, delta);
  hold({frozen, delta});  // `pretrained`, `lora`
  return y;
}

/// F.conv1d by a kernel of one tap, (B, in, T) to (B, out, T): cuDNN is given a contiguous input,
/// and in backward a contiguous gradient, too.
ir::ValueId Lowering::pointwise_conv(V x, V weight, std::int64_t groups) {
  const Shape in = shape(x);
  const std::int64_t tokens = in[0] * in[2], width = shape(weight)[0], taps = shape(weight)[1];
  const V ordered = make_int(OpKind::clone, in, dtype(x), {x});
  const V made = out({in[0], width, in[2]}, dtype(x), false);
  const ir::Product forward{static_cast<std::int32_t>(taps), ir::Form::nn};
  emit(OpKind::bmm, {ordered, weight}, {made}, forward);
  // Given: the input, the weight, the gradient.
  CompiledGraph g;
  const DType type = dtype(x);
  g.made = {{in, type, -1}, {shape(made), type, -1}, {in, type, -1}, {shape(weight), type, -1}};
  const auto columns = static_cast<std::int32_t>(width / groups);
  g.launches = {{OpKind::clone, {}, leaf_, {0}, {3}},
                {OpKind::clone, {}, leaf_, {2}, {4}},
                {OpKind::bmm, ir::Product{columns, ir::Form::nn}, leaf_, {4, 1}, {5}},
                {OpKind::bmm,
                 ir::Product{static_cast<std::int32_t>(tokens), ir::Form::tn},
                 leaf_,
                 {4, 3},
                 {6}}};
  g.results = {5, 6};
  return node(OpKind::autograd_function, {x, weight}, made, std::move(g));
}

/// LoRAQKVLinear.forward: the adapters of q, k and v are one A; each has its rows of B, by a
/// convolution; zeros stand where there is none.
ir::ValueId Lowering::litgpt_qkv(V x, const Linear& l) {
  const V frozen = base_linear(x, l);
  if (l.lora_a == ir::no_id) return frozen;
  const std::int64_t batch = config_.run.batch, tokens = config_.run.seq, r = config_.adapters.rank,
                     many = shape(l.lora_a)[0] / r, all = shape(l.lora_b)[0];
  const V after_a = base_linear(dropped(x, config_.adapters.dropout), {l.lora_a});
  const V turned = p_.on_storage_of(after_a, {batch, many * r, tokens}, dtype(x), false);
  p_.value(turned).permuted = true;
  emit(OpKind::view, {after_a}, {turned});
  V after_b{};
  if (spec_.heads == spec_.kv_heads) {
    after_b = pointwise_conv(turned, l.lora_b, many);
  } else {
    std::vector<V> inputs, weights, made;
    for (const std::int64_t width : adapted_widths_of_qkv()) {
      inputs.push_back(p_.on_storage_of(turned, {batch, r, tokens}, dtype(x), false));
      p_.value(inputs.back()).permuted = true;
      weights.push_back(p_.on_storage_of(l.lora_b, {width, r}, dtype(x), false));
    }
    p_.emit(OpKind::split, phase_, at(leaf_), std::vector<V>{turned}, inputs);
    p_.emit(OpKind::split, phase_, at(leaf_), std::vector<V>{l.lora_b}, weights);
    for (std::size_t i = 0; i < inputs.size(); ++i)
      made.push_back(pointwise_conv(inputs[i], weights[i], 1));
    after_b = out({batch, all, tokens}, dtype(x), true);
    p_.emit(OpKind::cat, phase_, at(leaf_), made, std::vector<V>{after_b});
  }
  const V rows = p_.on_storage_of(after_b, {batch, tokens, all}, dtype(x), false);
  p_.value(rows).permuted = true;
  emit(OpKind::view, {after_b}, {rows});
  V padded = rows;
  if (!l.adapter.empty()) {  // zero_pad
    const V zeros = make_int(OpKind::fill, shape(frozen), dtype(x), {});
    const V places = make_int(OpKind::clone, {all}, DType::i64, {l.adapter.front()});
    padded = p_.on_storage_of(zeros, shape(frozen), dtype(x), true);
    p_.value(padded).requires_grad = true;
    emit(OpKind::index_put, {zeros, places, rows, rows}, {padded});  // index_copy
  }
  const V delta = unary(OpKind::mul_scalar, padded, ir::Number{2.0});
  const V y = binary(OpKind::add, frozen, delta);
  hold({frozen, after_a, after_b, delta});  // `pretrained`, `after_A`, `after_B`, `lora`
  return y;
}

}  // namespace ac_advisor::passes
