// NeMo AutoModel's own adapters (v0.5.0): LinearLoRA (components/_peft/lora.py), whose product is
// an autograd function that saves its input alone, and MLPs that are one function with theirs
// (components/_peft/lora_mlp.py). alpha is twice the rank.
#include <array>
#include <utility>
#include <vector>

#include "lowering.hpp"
#include "passes/adapters/targets.hpp"

namespace ac_advisor::passes {

using ir::CompiledGraph;
using ir::OpKind;
using ir::Shape;

namespace {

std::int32_t inner(std::int64_t k) { return static_cast<std::int32_t>(k); }

/// A function's backward, written launch by launch: tensors are numbers, those that the node is
/// given first, then the gradient of what it puts out.
class Backward {
 public:
  Backward(std::int32_t given, ir::Module leaf, DType dtype)
      : next_(given + 1), leaf_(leaf), dtype_(dtype) {}

  std::int32_t product(std::int32_t left, std::int32_t right, const Shape& shape, std::int64_t k,
                       ir::Form form) {
    return launch(OpKind::mm, {left, right}, shape, ir::Product{inner(k), form});
  }
  /// Of `left` by `right`, added to `sum` in place.
  std::int32_t added_product(std::int32_t sum, std::int32_t left, std::int32_t right,
                             const Shape& shape, std::int64_t k) {
    return launch(OpKind::addmm, {sum, left, right}, shape, ir::Product{inner(k), ir::Form::nn},
                  sum);
  }
  /// torch.addmm(sum, left, right): a copy of the sum first.
  std::int32_t product_beside(std::int32_t sum, std::int32_t left, std::int32_t right,
                              const Shape& shape, std::int64_t k) {
    return added_product(launch(OpKind::clone, {sum}, shape, ir::Rearrange{}), left, right, shape,
                         k);
  }
  std::int32_t scaled(std::int32_t x, const Shape& shape) {
    return launch(OpKind::mul_scalar, {x}, shape, ir::Number{2.0});
  }
  std::int32_t launch(OpKind kind, std::vector<std::int32_t> inputs, const Shape& shape,
                      const ir::Attributes& attributes = {}, std::int32_t over = -1) {
    graph_.made.push_back({shape, dtype_, over});
    graph_.launches.push_back({kind, attributes, leaf_, std::move(inputs), {next_}});
    return next_++;
  }
  /// The last two of `inputs` are overwritten by their gradients.
  std::pair<std::int32_t, std::int32_t> of_swiglu(const std::array<std::int32_t, 3>& inputs,
                                                  const Shape& shape) {
    const auto [gradient, gate, up] = inputs;
    graph_.made.push_back({shape, dtype_, gate});
    graph_.made.push_back({shape, dtype_, up});
    graph_.launches.push_back(
        {OpKind::swiglu_backward, ir::SwiGlu{}, leaf_, {gradient, gate, up}, {next_, next_ + 1}});
    next_ += 2;
    return {next_ - 2, next_ - 1};
  }
  /// The function's locals live to its end, all else it makes until it is read last.
  CompiledGraph ends(std::vector<std::int32_t> locals, std::vector<std::int32_t> results) {
    graph_.launches.push_back({OpKind::hold, {}, leaf_, std::move(locals), {}});
    graph_.results = std::move(results);
    return std::move(graph_);
  }

 private:
  CompiledGraph graph_;
  std::int32_t next_;
  ir::Module leaf_;
  DType dtype_;
};

Shape with_columns(Shape shape, std::int64_t n) {
  shape.set(shape.rank() - 1, n);
  return shape;
}

}  // namespace

/// Beside --tp they are DTensors': parallel.cpp.
bool Lowering::adapts_as_automodel() const {
  return own_adapters_of_automodel(config_) && config_.layout.tp == 1;
}

/// F.linear(F.linear(x, A) * scale, B), of which no op is a node of autograd's.
ir::ValueId Lowering::product_of_pair(V x, const Linear& l) {
  const V down = make_int(OpKind::mm, with_columns(shape(x), config_.adapters.rank), dtype(x),
                          {x, l.lora_a}, ir::Product{inner(l.in)});
  const V scaled = make_int(OpKind::mul_scalar, shape(down), dtype(x), {down}, ir::Number{2.0});
  return make_int(OpKind::mm, with_columns(shape(x), l.out), dtype(x), {scaled, l.lora_b},
                  ir::Product{inner(config_.adapters.rank)});
}

/// LoRATritonFunction without its kernels: backward makes A(x) once more.
ir::ValueId Lowering::pair_function(V x, const Linear& l, V residual) {
  V made = product_of_pair(x, l);
  std::vector<V> given{x, l.lora_a, l.lora_b};
  if (residual != ir::no_id) {
    made = added_in_place(made, residual);
    given.push_back(residual);
  }
  const std::int64_t rank = config_.adapters.rank, tokens = shape(x).numel() / l.in;
  const Shape narrow{tokens, rank}, a{rank, l.in}, b{l.out, rank};
  const auto gradient = static_cast<std::int32_t>(given.size());
  using ir::Form;
  Backward f(gradient, leaf_, dtype(x));
  const std::int32_t of_down = f.product(gradient, 2, narrow, l.out, Form::nn);
  const std::int32_t of_x = grad(x) ? f.product(of_down, 1, shape(x), rank, Form::nn) : -1;
  const std::int32_t of_a = f.scaled(f.product(of_down, 0, a, tokens, Form::tn), a);
  const std::int32_t empty = f.launch(OpKind::empty, {}, b);
  const std::int32_t down = f.product(0, 1, narrow, l.in, Form::nt);
  const std::int32_t of_b =
      f.launch(OpKind::mm, {gradient, down}, b, ir::Product{inner(tokens), Form::tn}, empty);
  std::vector<std::int32_t> results{of_x, of_a, of_b};
  if (residual != ir::no_id) results.push_back(gradient);
  return node(OpKind::autograd_function, given, made, f.ends({of_down}, std::move(results)));
}

/// LinearLoRA.forward: what the layer itself makes is added in place.
ir::ValueId Lowering::adapted_by_automodel(V x, const Linear& l) {
  const V base = base_linear(x, l);
  V y{};
  if (config_.adapters.dropout > 0.0) {
    const V up = pair_function(x, l, ir::no_id);
    const V kept = out(shape(up), dtype(up), true), mask = out(shape(up), DType::u8, false);
    emit(OpKind::dropout, {up}, {kept, mask}, ir::Dropout{config_.adapters.dropout, block_});
    y = added_in_place(kept, base);
  } else {
    y = pair_function(x, l, base);
  }
  hold({x, base});  // the caller's argument, `res`
  return y;
}

/// install_fused_lora_mlp, which runs as the adapters are made: of weights on the meta device it
/// does nothing, and there they are on several ranks, but for DDP's (_transformers/auto_model.py,
/// is_meta_device).
bool Lowering::fuses_adapted_mlp(const Block& b) const {
  const auto plain = [](const Linear& l) { return l.lora_a != ir::no_id && l.scales == ir::no_id; };
  const bool on_meta = config_.layout.world > 1 && config_.layout.shard != Sharding::ddp;
  return adapts_as_automodel() && !on_meta && config_.adapters.dropout == 0.0 &&
         spec_.activation == model::Activation::silu && plain(b.gate) && plain(b.up) &&
         plain(b.down);
}

/// base(x) + scale * B(A(x)), added in place: one buffer a layer. Its bias is left out.
ir::ValueId Lowering::summed_pair(V x, const Linear& l) {
  const DType type = dtype(x);
  const V base = make_int(OpKind::mm, with_columns(shape(x), l.out), type, {x, l.weight},
                          ir::Product{inner(l.in)});
  const V down = make_int(OpKind::mm, with_columns(shape(x), config_.adapters.rank), type,
                          {x, l.lora_a}, ir::Product{inner(l.in)});
  const V scaled = make_int(OpKind::mul_scalar, shape(down), type, {down}, ir::Number{2.0});
  const V sum = p_.on_storage_of(base, shape(base), type, true);
  emit(OpKind::addmm, {base, scaled, l.lora_b}, {sum}, ir::Product{inner(config_.adapters.rank)});
  return sum;
}

/// LoRASwiGLUMLPFunction: it saves its input, gate and up; backward makes the activation again and
/// overwrites them.
ir::ValueId Lowering::adapted_mlp_by_automodel(const Block& b, V x) {
  const V gate = summed_pair(x, b.gate), up = summed_pair(x, b.up);
  const V product = make_int(OpKind::swiglu, shape(gate), dtype(x), {gate, up}, ir::SwiGlu{});
  const V made = summed_pair(product, b.down);
  hold({x, product});

  using ir::Form;
  enum : std::int32_t {
    in,
    gate_a,
    gate_b,
    up_a,
    up_b,
    down_a,
    down_b,
    gate_w,
    up_w,
    down_w,
    e,
    g,
    gradient
  };
  const std::int64_t rank = config_.adapters.rank, h = b.gate.in, wide = b.gate.out,
                     outputs = b.down.out, tokens = shape(x).numel() / h;
  const Shape narrow{tokens, rank}, middle{tokens, wide}, a{rank, h}, of_wide{wide, rank},
      last_a{rank, wide}, last_b{outputs, rank};
  Backward f(gradient, leaf_, dtype(x));
  const std::int32_t d_p = f.scaled(f.product(gradient, down_b, narrow, outputs, Form::nn), narrow);
  const std::int32_t d_h = f.product_beside(f.product(gradient, down_w, middle, outputs, Form::nn),
                                            d_p, down_a, middle, rank);
  const auto [d_up, d_gate] = f.of_swiglu({d_h, e, g}, middle);  // in the buffers of e and g
  const std::int32_t p = f.product(d_h, down_a, narrow, wide, Form::nt);
  const std::int32_t d_down_b = f.scaled(f.product(gradient, p, last_b, tokens, Form::tn), last_b);
  const std::int32_t d_down_a = f.product(d_p, d_h, last_a, tokens, Form::tn);
  std::vector<std::int32_t> locals{d_p, d_h, p};
  struct Pair {
    std::int32_t of_narrow, of_a, of_b;
  };
  const auto pair = [&](std::int32_t incoming, std::int32_t own_a, std::int32_t own_b) {
    const std::int32_t q = f.product(in, own_a, narrow, h, Form::nt);
    const std::int32_t of_b = f.scaled(f.product(incoming, q, of_wide, tokens, Form::tn), of_wide);
    const std::int32_t of_narrow =
        f.scaled(f.product(incoming, own_b, narrow, wide, Form::nn), narrow);
    locals.insert(locals.end(), {q, of_narrow});
    return Pair{of_narrow, f.product(of_narrow, in, a, tokens, Form::tn), of_b};
  };
  const Pair of_up = pair(d_up, up_a, up_b), of_gate = pair(d_gate, gate_a, gate_b);
  std::int32_t of_x = -1;
  if (grad(x)) {
    of_x = f.product_beside(f.product(d_gate, gate_w, shape(x), wide, Form::nn), of_gate.of_narrow,
                            gate_a, shape(x), rank);
    of_x = f.added_product(of_x, d_up, up_w, shape(x), wide);
    of_x = f.added_product(of_x, of_up.of_narrow, up_a, shape(x), rank);
  }
  const std::vector<V> given{x,           b.gate.lora_a, b.gate.lora_b, b.up.lora_a,
                             b.up.lora_b, b.down.lora_a, b.down.lora_b, b.gate.weight,
                             b.up.weight, b.down.weight, gate,          up};
  return node(OpKind::autograd_function, given, made,
              f.ends(std::move(locals), {of_x, of_gate.of_a, of_gate.of_b, of_up.of_a, of_up.of_b,
                                         d_down_a, d_down_b, -1, -1, -1, -1, -1}));
}

}  // namespace ac_advisor::passes
