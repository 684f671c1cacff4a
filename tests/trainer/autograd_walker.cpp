// LibTorch's own autograd over a forward program, op by op, with at:: functions written here, not
// the trainer's kernels.
#include "trainer/autograd_walker.hpp"

#include <torch/csrc/autograd/autograd.h>

#include <map>

#include "ac_advisor/ir/op_table.hpp"
#include "trainer/doctest_after_torch.hpp"
#include "trainer/kernels/counter_rng.hpp"
#include "trainer/kernels/kernels.hpp"

namespace ac_advisor::test {
namespace {

using ir::OpKind;
using ir::ValueId;

at::Tensor heads(const at::Tensor& x, const ir::Shape& to) {
  return x.reshape({to[0], to[2], to[1], to[3]}).transpose(1, 2);
}

std::vector<std::int64_t> sizes(const ir::Shape& shape) {
  return {shape.sizes().begin(), shape.sizes().end()};
}

at::Tensor norm(const at::Tensor& x, const at::Tensor& w, const ir::RmsNorm& a) {
  const at::Tensor scaled = x * (x.square().mean(-1, true) + a.epsilon).rsqrt();
  return scaled * (a.unit_offset ? w + 1.0 : w);
}

at::Tensor rotate_half(const at::Tensor& x) {
  const std::int64_t half = x.size(-1) / 2;
  return at::cat({-x.narrow(-1, half, half), x.narrow(-1, 0, half)}, -1);
}

at::Tensor rotated(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  const std::int64_t width = cos.size(-1);
  const at::Tensor part = x.narrow(-1, 0, width);
  const at::Tensor turned = part * cos + rotate_half(part) * sin;
  return width == x.size(-1) ? turned
                             : at::cat({turned, x.narrow(-1, width, x.size(-1) - width)}, -1);
}

/// Runs the forward of one micro-batch with autograd on.
class Walker {
 public:
  explicit Walker(trainer::Rank& rank) : rank_(rank), p_(rank.built().step.program) {}

  /// Gradients in the order of step.parameters.
  std::vector<at::Tensor> gradients(std::set<OpKind>& seen) {
    const passes::StepProgram& step = rank_.built().step;
    for (ValueId v : step.resident) values_[p_.root(v)] = rank_.executor().tensor(v).clone();
    std::vector<at::Tensor> leaves;
    for (const passes::Parameter& parameter : step.parameters) {
      at::Tensor leaf = rank_.parameter(leaves.size());
      leaf.requires_grad_(true);
      leaves.push_back(leaf);
      values_[parameter.value] = leaf;
    }
    for (const ir::Op& op : p_.ops) {
      if (op.phase >= ir::Phase::backward) break;
      if (ir::row(op.kind).derive != nullptr) seen.insert(op.kind);
      run(op);
    }
    torch::autograd::backward({get(step.loss)}, {});
    std::vector<at::Tensor> result;
    for (std::size_t i = 0; i < leaves.size(); ++i)
      if (step.parameters[i].trained) result.push_back(leaves[i].grad());
    return result;
  }

 private:
  at::Tensor get(ValueId v) {
    const auto found = values_.find(v);
    if (found != values_.end()) return found->second;
    const ir::Value& value = p_.value(v);
    REQUIRE(value.base != ir::no_id);
    const at::Tensor base = get(value.base);
    if (value.narrow_dim >= 0)
      return base.narrow(value.narrow_dim, value.narrow_start,
                         value.shape[static_cast<std::size_t>(value.narrow_dim)]);
    const ir::Value& from = p_.value(value.base);
    if (from.permuted && !value.permuted && base.dim() == 4)
      return base.transpose(1, 2).reshape(sizes(value.shape));
    return base.reshape(sizes(value.shape));
  }

  void run(const ir::Op& op) {
    const auto in = [&](std::size_t i) { return get(p_.input(op, i)); };
    const auto put = [&](std::size_t i, const at::Tensor& t) { values_[p_.output(op, i)] = t; };
    const auto shape = [&](std::size_t i) { return p_.value(p_.output(op, i)).shape; };
    switch (op.kind) {
      case OpKind::record_function:
      case OpKind::hold:
        return;
      case OpKind::view:
        if (shape(0).rank() == 2) return put(0, in(0).reshape(sizes(shape(0))));  // rows of experts
        return put(0, in(0).dim() == 4 ? in(0) : heads(in(0), shape(0)));
      case OpKind::slice:
        return put(0, in(0).narrow(-1, ir::attributes<ir::Slice>(op).start, shape(0).back()));
      case OpKind::split:
        put(0, in(0).narrow(-1, 0, shape(0).back()));
        return put(1, in(0).narrow(-1, shape(0).back(), shape(1).back()));
      case OpKind::expand:
        return put(0, in(0).unsqueeze(2).expand(sizes(shape(0))));
      case OpKind::embedding:
        return put(0, at::embedding(in(0), in(1)));
      case OpKind::mm:
        return put(0, at::linear(in(0), in(1)));
      case OpKind::addmm:
        return put(0, at::linear(in(1), in(2), in(0)));
      case OpKind::bmm:
        return put(0, ir::attributes<ir::Product>(op).form == ir::Form::nt
                          ? at::matmul(in(0), in(1).transpose(-1, -2))
                          : at::matmul(in(0), in(1)));
      case OpKind::grouped_mm:
        return put(0, grouped(in(0), in(1), in(2)));
      case OpKind::cast:
        return put(0, in(0).to(trainer::scalar_type(p_.value(p_.output(op, 0)).dtype)));
      case OpKind::clone:
        return put(0, in(0).clone().reshape(sizes(shape(0))));
      case OpKind::add:
        return put(0, ir::attributes<ir::Add>(op).alpha == 1.0 ? in(0) + in(1) : in(0) - in(1));
      case OpKind::add_scalar:
        if (in(0).is_floating_point()) return put(0, in(0) + ir::attributes<ir::Number>(op).value);
        return put(0, moved(in(0) + static_cast<std::int64_t>(ir::attributes<ir::Number>(op).value),
                            sizes(shape(0))));
      case OpKind::mul:
        if (in(0).numel() > 1 && in(1).numel() > 1 &&
            in(0).numel() * in(1).numel() == shape(0).numel())
          return put(0, in(0).view({1, -1, 1}) * in(1).view({1, 1, -1}));
        return put(0, in(0) * in(1));
      case OpKind::mul_scalar:
        return put(0, in(0) * ir::attributes<ir::Number>(op).value);
      case OpKind::div:
        return put(0,
                   op.inputs == 1 ? in(0) / ir::attributes<ir::Number>(op).value : in(0) / in(1));
      case OpKind::neg:
        return put(0, -in(0));
      case OpKind::pow:
        return put(0, in(0).pow(ir::attributes<ir::Power>(op).exponent));
      case OpKind::mean:
        return put(0, in(0).mean(-1, true));
      case OpKind::rsqrt:
        return put(0, in(0).rsqrt());
      case OpKind::cat: {
        std::vector<at::Tensor> parts;
        for (std::size_t i = 0; i < op.inputs; ++i) {
          std::vector<std::int64_t> whole = sizes(shape(0));
          whole.back() = in(i).size(-1);
          parts.push_back(in(i).expand(whole));
        }
        return put(0, at::cat(parts, -1));
      }
      case OpKind::sum:
        return put(0, ir::attributes<ir::Sum>(op).over == ir::SumOver::experts
                          ? in(0).view({shape(0)[0], -1, shape(0)[1]}).sum(1)
                          : in(0).sum_to_size(sizes(shape(0))));
      case OpKind::silu:
        return put(0, at::silu(in(0)));
      case OpKind::gelu_tanh:
        return put(0, at::gelu(in(0), "tanh"));
      case OpKind::tanh:
        return put(0, at::tanh(in(0)));
      case OpKind::softmax:
        return put(0, at::softmax(in(0), -1));
      case OpKind::log_softmax:
        return put(0, at::log_softmax(in(0), -1));
      case OpKind::dropout: {
        at::Tensor mask = at::ones_like(in(0)).contiguous();
        const double p = ir::attributes<ir::Dropout>(op).probability;
        trainer::apply_dropout(mask, p, 1.0 / (1.0 - p),
                               trainer::Call(rank_.executor(), op).dropout_key());
        return put(0, in(0) * mask);
      }
      case OpKind::sdpa: {
        const std::int64_t groups = in(0).size(1) / in(1).size(1);
        const at::Tensor k = in(1).repeat_interleave(groups, 1),
                         v = in(2).repeat_interleave(groups, 1);
        const std::int64_t s = in(0).size(2);
        const at::Tensor future = at::ones({s, s}, at::kBool).triu(1);
        const at::Tensor scores =
            (at::matmul(in(0), k.transpose(-1, -2)) * ir::attributes<ir::Sdpa>(op).scale)
                .masked_fill(future, -INFINITY);
        return put(0, at::matmul(scores.softmax(-1), v));
      }
      case OpKind::cos:
        return put(0, in(0).cos());
      case OpKind::sin:
        return put(0, in(0).sin());
      case OpKind::arange:
        return put(0, at::arange(shape(0).numel(), at::kLong));
      case OpKind::pad:
        return put(0, at::cat({in(0), at::full({in(0).size(0), 1}, -100, at::kLong)}, -1));
      case OpKind::fill:
        return put(0, at::full(sizes(shape(0)), ir::attributes<ir::Number>(op).value,
                               trainer::scalar_type(p_.value(p_.output(op, 0)).dtype)));
      case OpKind::masked_fill: {
        const at::Tensor mask = in(0).to(at::kBool).expand(sizes(shape(0)));
        return put(0, at::where(mask, in(1), in(2)));
      }
      case OpKind::compare:
        return put(0, compare(op, in(0), op.inputs > 1 ? in(1) : in(0)).view(sizes(shape(0))));
      case OpKind::cumsum:
        return put(0, in(0).cumsum(-1).to(trainer::scalar_type(p_.value(p_.output(op, 0)).dtype)));
      case OpKind::topk: {
        const auto [values, indices] = in(0).topk(ir::attributes<ir::TopK>(op).k, -1);
        put(0, values);
        return put(1, indices);
      }
      case OpKind::sort: {
        const auto [values, order] = at::sort(in(0), std::optional<bool>(true), -1);
        put(0, values);
        return put(1, order);
      }
      case OpKind::floor_divide:
        return put(0, in(0).floor_divide(ir::attributes<ir::FloorDivide>(op).divisor));
      case OpKind::histc:
        return put(0, at::bincount(in(0), {}, ir::attributes<ir::Histc>(op).bins).to(at::kInt));
      case OpKind::index:
        return put(0, in(0).index_select(0, in(1)));
      case OpKind::empty:
        return put(0, at::empty(sizes(shape(0)), at::kLong));
      case OpKind::index_put:
        return put(0, in(0).index_put({in(1)}, in(2)));
      case OpKind::nll_loss:
        return put(0, at::nll_loss(in(0), in(1).reshape({-1})));
      case OpKind::rms_norm:
        return put(0, norm(in(0), in(1), ir::attributes<ir::RmsNorm>(op)));
      case OpKind::add_rms_norm: {
        const at::Tensor sum = in(0) + in(1);
        put(2, sum);
        return put(0, norm(sum, in(2), ir::attributes<ir::RmsNorm>(op)));
      }
      case OpKind::rope:
        put(0, rotated(in(0), in(2), in(3)));
        return put(1, rotated(in(1), in(2), in(3)));
      case OpKind::swiglu:
        return put(
            0, (ir::attributes<ir::SwiGlu>(op).gate == ir::Gate::gelu_tanh ? at::gelu(in(0), "tanh")
                                                                           : at::silu(in(0))) *
                   in(1));
      case OpKind::linear_cross_entropy: {
        at::Tensor logits = at::linear(in(0), in(1));
        const double cap = ir::attributes<ir::LinearCrossEntropy>(op).soft_cap;
        if (cap > 0) logits = (logits / cap).tanh() * cap;
        return put(0, at::nll_loss(at::log_softmax(logits, -1), in(2).reshape({-1})));
      }
      default:
        FAIL("the walker has no op " << ir::row(op.kind).name);
    }
  }

  static at::Tensor moved(const at::Tensor& x, const std::vector<std::int64_t>& to) {
    return x.numel() == at::empty(to).numel() ? x.reshape(to) : x.expand(to);
  }

  static at::Tensor compare(const ir::Op& op, const at::Tensor& a, const at::Tensor& b) {
    switch (ir::attributes<ir::Compare>(op).how) {
      case ir::Comparison::not_equal:
        return a.ne(static_cast<std::int64_t>(ir::attributes<ir::Compare>(op).number))
            .to(at::kByte);
      case ir::Comparison::less_equal:
        return a.le(b).to(at::kByte);
      case ir::Comparison::greater:
        return a.gt(b).to(at::kByte);
      case ir::Comparison::both:
        return a.logical_and(b).to(at::kByte);
      case ir::Comparison::equal:   // of packed documents, which are compared apart
      case ir::Comparison::either:  // of ranks that share a layer
      case ir::Comparison::below:
      case ir::Comparison::at_least:
        break;
    }
    return a;
  }

  static at::Tensor grouped(const at::Tensor& x, const at::Tensor& w, const at::Tensor& offsets) {
    std::vector<at::Tensor> parts;
    std::int64_t begin = 0;
    for (std::int64_t e = 0; e < w.size(0); ++e) {
      const std::int64_t end = offsets[e].item<std::int64_t>();
      parts.push_back(at::linear(x.narrow(0, begin, end - begin), w[e]));
      begin = end;
    }
    return at::cat(parts, 0);
  }

  trainer::Rank& rank_;
  const ir::Program& p_;
  std::map<ValueId, at::Tensor> values_;
};

}  // namespace

std::vector<at::Tensor> autograd_gradients(trainer::Rank& rank, std::set<OpKind>& seen) {
  return Walker(rank).gradients(seen);
}

}  // namespace ac_advisor::test
