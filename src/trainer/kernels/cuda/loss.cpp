// Linear + cross-entropy in one op: the logits exist a tile at a time (Wijmans et al. 2024, "Cut
// Your Losses"), vocabulary outside, tokens inside; products by cuBLAS with fp32 sums, the
// softmax's parts by kernels of this project's own.
#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "ac_advisor/ir/tiles.hpp"
#include "trainer/kernels/cuda/cuda.hpp"
#include "trainer/kernels/cuda/torch/torch.hpp"

namespace ac_advisor::trainer::cuda {
namespace {

/// Walks the tiles: f(tile, its first token, hidden rows, weight rows, logits); after(first word,
/// words) once all tokens of some words are done.
template <typename F, typename After>
void walk(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& targets, float cap,
          F f, After after) {
  const std::int64_t tokens = std::min(ir::cuda_loss_tile_tokens, hidden.size(0)),
                     words = std::min(ir::cuda_loss_tile_vocab, weight.size(0));
  const at::Tensor memory = at::empty({tokens * words}, hidden.options().dtype(at::kFloat));
  for (std::int64_t v = 0; v < weight.size(0); v += words) {
    const std::int64_t nv = std::min(words, weight.size(0) - v);
    const at::Tensor w = weight.narrow(0, v, nv);
    for (std::int64_t t = 0; t < hidden.size(0); t += tokens) {
      const std::int64_t nt = std::min(tokens, hidden.size(0) - t);
      const at::Tensor h = hidden.narrow(0, t, nt);
      const at::Tensor logits = memory.narrow(0, 0, nt * nv).view({nt, nv});
      product(logits, h, w.t(), /*accumulate=*/false);
      const device::LossTile tile{logits.mutable_data_ptr<float>(),
                                  targets.const_data_ptr<std::int64_t>() + t,
                                  nt,
                                  nv,
                                  v,
                                  cap};
      f(tile, t, h, w, logits);
    }
    after(v, nv);
  }
}

}  // namespace

/// loss = mean over counted tokens of logsumexp(h Wᵀ) - (h Wᵀ)[target]
void linear_cross_entropy(const Call& c) {
  const at::Tensor hidden = c.in(0), targets = c.in(2).view({-1}), loss = c.out(0),
                   log_sum_exp = c.out(1);
  const at::Tensor target_logit = at::zeros_like(log_sum_exp);
  log_sum_exp.fill_(-std::numeric_limits<double>::infinity());
  auto* sums = log_sum_exp.mutable_data_ptr<float>();
  auto* picked = target_logit.mutable_data_ptr<float>();
  walk(
      hidden, c.in(1), targets, static_cast<float>(c.attributes<ir::LinearCrossEntropy>().soft_cap),
      [&](const device::LossTile& tile, std::int64_t t, const at::Tensor&, const at::Tensor&,
          const at::Tensor&) { device::loss_forward(tile, sums + t, picked + t, stream()); },
      [](std::int64_t, std::int64_t) {});
  device::loss_mean(sums, picked, targets.const_data_ptr<std::int64_t>(), targets.numel(),
                    loss.mutable_data_ptr(), element(loss), stream());
}

/// inputs: gradient, hidden, weight, targets, log-sum-exp; a frozen weight has no gradient
void linear_cross_entropy_backward(const Call& c) {
  const at::Tensor gradient = c.in(0), hidden = c.in(1), weight = c.in(2),
                   targets = c.in(3).view({-1}), dh = c.out(0);
  const bool frozen = c.outputs() == 1;
  const at::Tensor dw = frozen ? at::Tensor() : c.out(1);
  const auto* sums = c.in(4).const_data_ptr<float>();
  const bool wide = hidden.scalar_type() == at::kFloat;
  const auto floats = hidden.options().dtype(at::kFloat);
  const std::int64_t tokens = std::min(ir::cuda_loss_tile_tokens, hidden.size(0)),
                     words = std::min(ir::cuda_loss_tile_vocab, weight.size(0));
  const at::Tensor scale = at::empty({1}, floats);
  device::loss_scale(gradient.const_data_ptr(), element(gradient),
                     targets.const_data_ptr<std::int64_t>(), targets.numel(),
                     scale.mutable_data_ptr<float>(), stream());
  // In bf16 the sums are apart, in fp32, and the tile's gradient is narrowed for the products.
  const at::Tensor dh_sum = wide ? dh : at::empty(dh.sizes(), floats);
  const at::Tensor dw_sum = wide || frozen ? dw : at::empty({words, weight.size(1)}, floats);
  const at::Tensor narrow = wide ? at::Tensor() : at::empty({tokens * words}, hidden.options());
  walk(
      hidden, weight, targets, static_cast<float>(c.attributes<ir::LinearCrossEntropy>().soft_cap),
      [&](const device::LossTile& tile, std::int64_t t, const at::Tensor& h, const at::Tensor& w,
          const at::Tensor& logits) {
        const std::int64_t v = tile.first_word, nt = tile.tokens, nv = tile.words;
        const at::Tensor d = wide ? logits : narrow.narrow(0, 0, nt * nv).view({nt, nv});
        device::loss_backward(tile, sums + t, scale.const_data_ptr<float>(), d.mutable_data_ptr(),
                              element(d), stream());
        product(dh_sum.narrow(0, t, nt), d, w, /*accumulate=*/v > 0);
        if (!frozen) product(dw_sum.narrow(0, wide ? v : 0, nv), d.t(), h, /*accumulate=*/t > 0);
      },
      [&](std::int64_t v, std::int64_t nv) {
        if (!wide && !frozen) dw.narrow(0, v, nv).copy_(dw_sum.narrow(0, 0, nv));
      });
  if (!wide) dh.copy_(dh_sum);
}

}  // namespace ac_advisor::trainer::cuda
