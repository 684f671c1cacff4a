// Linear + cross-entropy in one op, whose logits exist a tile at a time.
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>

#include "ac_advisor/ir/tiles.hpp"
#include "trainer/kernels/cpu/cpu.hpp"
#include "trainer/kernels/cpu/rows.hpp"

namespace ac_advisor::trainer::cpu {
namespace {

/// Tokens that count: all but the ignored ones.
std::int64_t counted(const at::Tensor& targets) {
  const auto* t = targets.const_data_ptr<std::int64_t>();
  return std::max<std::int64_t>(
      1, std::count_if(t, t + targets.numel(), [](std::int64_t v) { return v != ignored_label; }));
}

/// Walks the logits tile by tile (Wijmans et al. 2024, "Cut Your Losses"): vocabulary outside,
/// tokens inside, products in fp32.
class Tiles {
 public:
  Tiles(const at::Tensor& hidden, const at::Tensor& weight)
      : hidden_(hidden), weight_(weight), wide_(hidden.scalar_type() == at::kFloat) {
    const auto options = at::TensorOptions().dtype(at::kFloat);
    tokens_ = std::min(ir::loss_tile_tokens, hidden.size(0));
    words_ = std::min(ir::loss_tile_vocab, weight.size(0));
    logits_ = at::empty({tokens_ * words_}, options);
    if (!wide_) {
      hidden_tile_ = at::empty({tokens_, hidden.size(1)}, options);
      weight_tile_ = at::empty({words_, hidden.size(1)}, options);
    }
  }

  /// f(first word, words, first token, tokens, logits, fp32 rows of hidden, fp32 rows of weight)
  template <typename F, typename AfterWords>
  void walk(F f, AfterWords after_words) {
    for (std::int64_t v = 0; v < weight_.size(0); v += words_) {
      const std::int64_t nv = std::min(words_, weight_.size(0) - v);
      const at::Tensor w = part(weight_, weight_tile_, v, nv);
      for (std::int64_t t = 0; t < hidden_.size(0); t += tokens_) {
        const std::int64_t nt = std::min(tokens_, hidden_.size(0) - t);
        const at::Tensor h = part(hidden_, hidden_tile_, t, nt);
        at::Tensor logits = logits_.narrow(0, 0, nt * nv).view({nt, nv});
        at::mm_out(logits, h, w.t());
        f(v, nv, t, nt, logits, h, w);
      }
      after_words(v, nv);
    }
  }

 private:
  at::Tensor part(const at::Tensor& all, const at::Tensor& tile, std::int64_t start,
                  std::int64_t size) const {
    const at::Tensor rows = all.narrow(0, start, size);
    if (wide_) return rows;
    const at::Tensor widened = tile.narrow(0, 0, size);
    widened.copy_(rows);
    return widened;
  }

  at::Tensor hidden_, weight_, logits_, hidden_tile_, weight_tile_;
  bool wide_;
  std::int64_t tokens_ = 0, words_ = 0;
};

float log_add_exp(float a, float b) {
  const float most = std::max(a, b), least = std::min(a, b);
  return std::isinf(most) ? most : most + std::log1p(std::exp(least - most));
}

}  // namespace

/// loss = mean over counted tokens of logsumexp(h Wᵀ) - (h Wᵀ)[target]
void linear_cross_entropy(const Call& c) {
  const at::Tensor hidden = c.in(0), targets = c.in(2), loss = c.out(0), log_sum_exp = c.out(1);
  const auto cap = static_cast<float>(c.attributes<ir::LinearCrossEntropy>().soft_cap);
  const auto* target = targets.const_data_ptr<std::int64_t>();
  auto* sums = log_sum_exp.mutable_data_ptr<float>();
  std::fill(sums, sums + log_sum_exp.numel(), -INFINITY);
  double total = 0.0;
  Tiles(hidden, c.in(1))
      .walk(
          [&](std::int64_t v, std::int64_t nv, std::int64_t t, std::int64_t nt,
              const at::Tensor& logits, const at::Tensor&, const at::Tensor&) {
            auto* data = logits.mutable_data_ptr<float>();
            at::parallel_for(0, nt, 8, [&](std::int64_t begin, std::int64_t end) {
              for (std::int64_t r = begin; r < end; ++r) {
                float* row = data + r * nv;
                if (cap > 0.0F) soft_cap(row, cap, row, nv);
                const float most = largest(row, nv);
                sums[t + r] = log_add_exp(sums[t + r], most + std::log(sum_exp(row, most, nv)));
              }
            });
            for (std::int64_t r = 0; r < nt; ++r)
              if (target[t + r] >= v && target[t + r] < v + nv)
                total -= static_cast<double>(data[r * nv + target[t + r] - v]);
          },
          [](std::int64_t, std::int64_t) {});
  for (std::int64_t i = 0; i < targets.numel(); ++i)
    if (target[i] != ignored_label) total += static_cast<double>(sums[i]);
  loss.fill_(total / static_cast<double>(counted(targets)));
}

/// P = (softmax - one-hot) g / counted, tile by tile; dh = P W, dW = Pᵀ h, summed in fp32. A frozen
/// weight has no dW.
void linear_cross_entropy_backward(const Call& c) {
  const at::Tensor hidden = c.in(1), weight = c.in(2), targets = c.in(3);
  const bool frozen = c.outputs() == 1;
  const at::Tensor dh = c.out(0), dw = frozen ? at::Tensor() : c.out(1);
  const auto cap = static_cast<float>(c.attributes<ir::LinearCrossEntropy>().soft_cap);
  const auto scale =
      static_cast<float>(c.in(0).item<double>() / static_cast<double>(counted(targets)));
  const auto* target = targets.const_data_ptr<std::int64_t>();
  const auto* sums = c.in(4).const_data_ptr<float>();
  const bool wide = hidden.scalar_type() == at::kFloat;
  const auto options = at::TensorOptions().dtype(at::kFloat);
  Tiles tiles(hidden, weight);
  const at::Tensor dh_sum = wide ? dh : at::empty(dh.sizes(), options);
  const at::Tensor dw_sum =
      wide || frozen
          ? dw
          : at::empty({std::min(ir::loss_tile_vocab, weight.size(0)), weight.size(1)}, options);
  tiles.walk(
      [&](std::int64_t v, std::int64_t nv, std::int64_t t, std::int64_t nt,
          const at::Tensor& logits, const at::Tensor& h, const at::Tensor& w) {
        auto* data = logits.mutable_data_ptr<float>();
        at::parallel_for(0, nt, 8, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t r = begin; r < end; ++r) {
            float* row = data + r * nv;
            const std::int64_t label = target[t + r];
            if (label == ignored_label) {
              std::fill(row, row + nv, 0.0F);
              continue;
            }
            float* capped = cap > 0.0F ? thread_scratch(nv, 0) : row;
            if (cap > 0.0F) soft_cap(row, cap, capped, nv);
            exp_scaled(capped, sums[t + r], scale, row, nv);
            if (label >= v && label < v + nv) row[label - v] -= scale;
            if (cap > 0.0F) soft_cap_gradient(capped, cap, row, nv);
          }
        });
        at::Tensor into_h = dh_sum.narrow(0, t, nt);
        if (v == 0)
          at::mm_out(into_h, logits, w);
        else
          into_h.addmm_(logits, w);
        if (frozen) return;
        at::Tensor into_w = dw_sum.narrow(0, wide ? v : 0, nv);
        if (t == 0)
          at::mm_out(into_w, logits.t(), h);
        else
          into_w.addmm_(logits.t(), h);
      },
      [&](std::int64_t v, std::int64_t nv) {
        if (!wide && !frozen) dw.narrow(0, v, nv).copy_(dw_sum.narrow(0, 0, nv));
      });
  if (!wide) dh.copy_(dh_sum);
}

}  // namespace ac_advisor::trainer::cpu
