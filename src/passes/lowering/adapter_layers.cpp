// Linear layers as PEFT v0.21 adapts them otherwise than by LoRA, over a base in bf16, in fp32.
#include <algorithm>

#include "ac_advisor/model/adapter_method.hpp"
#include "lowering.hpp"
#include "passes/adapters/targets.hpp"

namespace ac_advisor::passes {

using ir::Module;
using ir::OpKind;
using ir::Shape;

namespace {

/// tuners/lokr/layer.py, factorization: two factors of a width, the smaller first, near its root or
/// near the factor that is asked for.
std::pair<std::int64_t, std::int64_t> factors(std::int64_t width, std::int64_t asked) {
  if (asked > 0 && width % asked == 0) return {asked, width / asked};
  const std::int64_t most = asked > 0 ? asked : width;
  std::int64_t m = 1, n = width;
  const std::int64_t length = m + n;
  while (m < n) {
    std::int64_t next = m + 1;
    while (width % next != 0) ++next;
    if (next + width / next > length || next > most) break;
    m = next, n = width / next;
  }
  return {std::min(m, n), std::max(m, n)};
}

}  // namespace

void Lowering::declare_adapter(Linear& l, Module leaf) {
  const std::int64_t r = config_.adapters.size;
  const auto add = [&](const Shape& shape) {
    l.adapter.push_back(trained(shape, DType::f32, leaf));
  };
  switch (config_.adapters.method) {
    case AdapterMethod::ia3:
      add(scales_input(spec_, at(leaf)) ? Shape{1, l.in} : Shape{l.out, 1});
      break;
    case AdapterMethod::loha:
      for (int half = 0; half < 2; ++half) add({l.out, r}), add({r, l.in});
      break;
    case AdapterMethod::lokr: {
      const auto [in_m, in_n] = factors(l.in, config_.adapters.factor);
      const auto [out_l, out_k] = factors(l.out, config_.adapters.factor);
      add({out_l, in_m});
      if (2 * r < std::max(out_k, in_n))
        add({out_k, r}), add({r, in_n});
      else
        add({out_k, in_n});
      break;
    }
    case AdapterMethod::vera:
      add({l.out}), add({r});  // lambda_b, lambda_d
      break;
    case AdapterMethod::miss:
      add({r, config_.adapters.factor > 0 ? config_.adapters.factor : l.out});
      break;
    case AdapterMethod::glora:
      for (int path = 0; path < 2; ++path) add({l.out, r}), add({r, l.in});    // of A, of B
      for (const Shape& zeros : {Shape{l.in, 1}, Shape{l.out}, Shape{l.out}})  // C, D and E
        s_.buffers.push_back(p_.make(zeros, dtype_, ir::Role::buffer, at(leaf)));
      break;
    case AdapterMethod::delora:
      add({r, l.in}), add({l.out, r}), add({1});  // A, B, lambda
      s_.buffers.push_back(p_.make({l.in}, DType::f32, ir::Role::buffer, at(leaf)));  // w_norm
      l.adapter.push_back(s_.buffers.back());
      break;
    case AdapterMethod::oft:
      add({l.in / r, r * (r - 1) / 2});
      for (int axis = 0; axis < 2; ++axis) {  // rows and columns of what is above the diagonal
        s_.buffers.push_back(p_.make({r * (r - 1) / 2}, DType::i64, ir::Role::buffer, at(leaf)));
        l.adapter.push_back(s_.buffers.back());
      }
      break;
    case AdapterMethod::road:
      for (int half = 0; half < 2; ++half) add({r == 1 ? l.out / 2 : l.out});  // theta, alpha
      break;
    case AdapterMethod::adalora:
      add({r, l.in}), add({l.out, r}), add({r, 1}), add({1});  // A, B, E, ranknum
      break;
    default:
      break;
  }
}

/// VeRA's A and B, as large as the largest adapted layer; drawn, not trained.
void Lowering::declare_shared() {
  std::int64_t in = 0, out = 0;
  for (const auto& [of_input, of_output] : adapted_widths(spec_, config_))
    in = std::max(in, of_input), out = std::max(out, of_output);
  const std::int64_t r = config_.adapters.size;
  for (V* v : {&m_.shared_a, &m_.shared_b}) {
    *v = p_.make(v == &m_.shared_a ? Shape{r, in} : Shape{out, r}, DType::f32, ir::Role::buffer,
                 at(Module::root));
    s_.buffers.push_back(*v);
  }
}

ir::ValueId Lowering::adapted_by_method(V x, const Linear& l) {
  switch (config_.adapters.method) {
    case AdapterMethod::ia3:
      return ia3(x, l);
    case AdapterMethod::vera:
      return vera(x, l);
    case AdapterMethod::miss:
      return miss(x, l);
    case AdapterMethod::glora:
      return glora(x, l);
    case AdapterMethod::delora:
      return delora(x, l);
    case AdapterMethod::oft:
      return oft(x, l);
    case AdapterMethod::road:
      return road(x, l);
    case AdapterMethod::adalora:
      return adalora(x, l);
    default:
      return by_weight(x, l);
  }
}

/// tuners/ia3/layer.py, Linear.forward: the input, or the output, by a vector.
ir::ValueId Lowering::ia3(V x, const Linear& l) {
  const V vector = p_.reshape(l.adapter[0], {shape(l.adapter[0]).numel()});
  const V scale = unary(OpKind::mul_scalar, vector, ir::Number{1.0});
  const bool input = shape(l.adapter[0])[0] == 1;
  const V given = input ? x : base_linear(x, l);
  const V wide = input ? cast(given, dtype(scale)) : given;
  const V scaled = cast(binary(OpKind::mul, wide, scale), dtype(given));
  const V y = input ? base_linear(scaled, l) : scaled;
  hold({x, scale});  // the caller's argument
  if (input) hold({wide, scaled});
  return y;
}

/// tuners/loha/layer.py, HadaWeight.forward: (w1a w1b) * (w2a w2b) * scale, whose operands alone
/// are saved.
ir::ValueId Lowering::loha_weight(const Linear& l) {
  const Shape whole{l.out, l.in};
  const auto product = [&](V a, V b) {
    const V y = out(whole, DType::f32, false);
    emit(OpKind::mm, {a, b}, {y},
         ir::Product{static_cast<std::int32_t>(config_.adapters.size), ir::Form::nn});
    return y;
  };
  const V first = product(l.adapter[0], l.adapter[1]), second = product(l.adapter[2], l.adapter[3]);
  const V both = out(whole, DType::f32, false);
  emit(OpKind::mul, {first, second}, {both});
  const V scaled = out(whole, DType::f32, false);
  emit(OpKind::mul_scalar, {both}, {scaled}, ir::Number{1.0});
  const V weight = p_.on_storage_of(scaled, whole, DType::f32, false);
  p_.value(weight).requires_grad = true;
  emit(OpKind::hada_weight, {l.adapter[0], l.adapter[1], l.adapter[2], l.adapter[3], scaled},
       {weight});
  return weight;
}

/// tuners/lokr/layer.py, make_kron: the Kronecker product of two factors, one of them itself a
/// product of lower rank.
ir::ValueId Lowering::lokr_weight(const Linear& l) {
  const V w1 = l.adapter[0];
  V w2 = l.adapter[1];
  if (l.adapter.size() == 3) {
    const V b = l.adapter[2];
    w2 = out({shape(w2)[0], shape(b)[1]}, DType::f32, true);
    emit(OpKind::mm, {l.adapter[1], b}, {w2},
         ir::Product{static_cast<std::int32_t>(config_.adapters.size), ir::Form::nn});
  }
  const Shape s1 = shape(w1), s2 = shape(w2);
  const V product = out({s1[0], s2[0], s1[1], s2[1]}, DType::f32, true);
  emit(OpKind::mul, {p_.reshape(w1, {s1[0], 1, s1[1], 1}), p_.reshape(w2, {1, s2[0], 1, s2[1]})},
       {product});
  const V weight = unary(OpKind::mul_scalar, product, ir::Number{1.0});
  hold({product});  // `rebuild`
  return p_.reshape(weight, {l.out, l.in});
}

/// LoHa's and LoKr's Linear.forward: a weight of the layer's size is made, and multiplied by.
ir::ValueId Lowering::by_weight(V x, const Linear& l) {
  const V base = base_linear(x, l);
  const V weight = config_.adapters.method == AdapterMethod::loha ? loha_weight(l) : lokr_weight(l);
  const V in = cast(x, dtype(weight));
  const V delta = base_linear(in, {weight});
  hold({in, weight});  // _get_delta_activations' locals
  const V sum = binary(OpKind::add, base, delta);
  const V y = cast(sum, dtype(base));
  hold({x});  // the caller's argument
  return y;
}

/// tuners/vera/layer.py, Linear.forward: lambda_b * B(lambda_d * A(x)), with A and B the first
/// columns and rows of the shared ones.
ir::ValueId Lowering::vera(V x, const Linear& l) {
  const V base = base_linear(x, l);
  const V in = cast(x, DType::f32);
  const V a = p_.narrow(m_.shared_a, 1, 0, l.in), b = p_.narrow(m_.shared_b, 0, 0, l.out);
  const V down = binary(OpKind::mul, l.adapter[1], base_linear(in, {a}));
  const V up = binary(OpKind::mul, l.adapter[0], base_linear(down, {b}));
  const V y = cast(binary(OpKind::add, base, up), dtype(base));
  hold({x, in});  // the caller's argument, and `x`, bound anew
  return y;
}

/// tuners/miss/layer.py, MissLinear.forward: shards of the input, of `rank` each, are summed first;
/// "mini": the matrix is one that is repeated along the output.
ir::ValueId Lowering::miss(V x, const Linear& l) {
  const V base = base_linear(x, l);
  const std::int64_t r = config_.adapters.size, mini = config_.adapters.factor, over = l.in % r;
  V matrix = l.adapter[0];
  if (mini > 0) {
    matrix = mini == l.out ? unary(OpKind::clone, matrix)  // repeat() copies once, too
                           : repeated(matrix, 0, l.out / mini);
    matrix = p_.reshape(matrix, {r, l.out});
  }
  V in = x;
  if (over > 0) {
    Shape wide = shape(x);
    wide.set(wide.rank() - 1, l.in + r - over);
    in = out(wide, dtype(x), grad(x));
    emit(OpKind::pad, {x}, {in});
  }
  in = cast(in, DType::f32);
  const Shape s = shape(in);
  const V shards = p_.reshape(in, {s[0], s[1], s.back() / r, r});
  const V summed = out({s[0], s[1], r}, DType::f32, grad(in));
  emit(OpKind::sum, {shards}, {summed}, ir::Sum{ir::SumOver::groups});
  const V delta = out({s[0], s[1], l.out}, DType::f32, true);
  emit(OpKind::mm, {summed, matrix}, {delta},
       ir::Product{static_cast<std::int32_t>(r), ir::Form::nn});
  const V y = cast(binary(OpKind::add, base, delta), dtype(base));
  hold({x, in, matrix});  // the caller's argument, `x`, bound anew, and `miss`
  return y;
}

}  // namespace ac_advisor::passes
