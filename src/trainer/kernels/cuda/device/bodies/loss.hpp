#pragma once

#include "trainer/kernels/cuda/device/bodies/shape.hpp"

namespace ac_advisor::trainer::cuda::device {

constexpr std::int64_t ignored_target = -100;  // torch.nn.CrossEntropyLoss's ignore_index
constexpr int loss_threads = 256, loss_kept = 4, loss_backward_kept = 2, loss_mean_threads = 512;

inline bool tile_aligned(const LossTile& tile, int numbers) {
  return aligned(tile.logits) && tile.words % numbers == 0;
}
inline void require_tile(const LossTile& tile) { require_rows(tile.tokens, tile.words, "loss"); }

/// Sum of exp(x - most), with the largest x.
struct Exponentials {
  float most = -INFINITY, sum = 0;
};

AC_ADVISOR_DEVICE float finite_or_0(float x) { return x == -INFINITY ? 0.0F : x; }

AC_ADVISOR_DEVICE Exponentials joined(const Exponentials& a, const Exponentials& b) {
  const float most = std::fmax(a.most, b.most), shift = finite_or_0(most);
  return {most, a.sum * std::exp(a.most - shift) + b.sum * std::exp(b.most - shift)};
}

AC_ADVISOR_DEVICE float capped(float x, float cap) {
  return cap > 0 ? cap * std::tanh(x / cap) : x;
}

AC_ADVISOR_DEVICE float log_add_exp(float a, float b) {
  const float most = std::fmax(a, b), least = std::fmin(a, b);
  if (std::isnan(a) || std::isnan(b)) return a + b;
  return std::isinf(most) ? most : most + std::log1p(std::exp(least - most));
}

/// One token's logits; online: each access moves the shift where it brings a larger one (Milakov
/// and Gimelshein 2018).
template <int N, class Block>
AC_ADVISOR_DEVICE void loss_row(Block& block, const LossTile& tile, float* log_sum_exp,
                                float* target_logit, std::int64_t token) {
  const float* row = tile.logits + token * tile.words;
  const Exponentials all = block.template reduce<loss_kept, Exponentials>(
      static_cast<int>(tile.words) / N, [&](int i) { return load<float, N>(row, i); },
      [&](Exponentials& e, const auto& raw) {
        float x[N];
        Lanes<float, N>::widen_all(raw, x);
        float most = e.most;
        AC_ADVISOR_UNROLL
        for (int j = 0; j < N; ++j) {
          x[j] = capped(x[j], tile.cap);
          most = std::fmax(most, x[j]);
        }
        const float shift = finite_or_0(most);
        float sum = e.sum * std::exp(e.most - shift);
        AC_ADVISOR_UNROLL
        for (int j = 0; j < N; ++j) sum += std::exp(x[j] - shift);
        e = {most, sum};
      },
      [](const Exponentials& a, const Exponentials& b) { return joined(a, b); });
  if (!block.first()) return;
  log_sum_exp[token] = log_add_exp(log_sum_exp[token], all.most + std::log(all.sum));
  const std::int64_t word = tile.targets[token] - tile.first_word;
  if (word >= 0 && word < tile.words) target_logit[token] = capped(row[word], tile.cap);
}

/// A sum over tokens, and how many of them count.
struct TokenSum {
  float sum = 0;
  int tokens = 0;
};

template <class Block, class Term>
AC_ADVISOR_DEVICE TokenSum sum_tokens(Block& block, const std::int64_t* targets,
                                      std::int64_t tokens, Term term) {
  return block.template reduce<1, TokenSum>(
      static_cast<int>(tokens), [](int i) { return i; },
      [&](TokenSum& s, int i) {
        if (targets[i] == ignored_target) return;
        s.sum += term(i);
        ++s.tokens;
      },
      [](const TokenSum& a, const TokenSum& b) {
        return TokenSum{a.sum + b.sum, a.tokens + b.tokens};
      });
}
AC_ADVISOR_DEVICE float at_least_1(int tokens) {
  return static_cast<float>(tokens > 1 ? tokens : 1);
}

template <class T, class Block>
AC_ADVISOR_DEVICE void loss_mean_of(Block& block, const float* log_sum_exp,
                                    const float* target_logit, const std::int64_t* targets,
                                    std::int64_t tokens, T* loss) {
  const TokenSum total =
      sum_tokens(block, targets, tokens, [&](int i) { return log_sum_exp[i] - target_logit[i]; });
  if (block.first()) assign(*loss, total.sum / at_least_1(total.tokens));
}

template <class T, class Block>
AC_ADVISOR_DEVICE void loss_scale_of(Block& block, const T* gradient, const std::int64_t* targets,
                                     std::int64_t tokens, float* scale) {
  const TokenSum total = sum_tokens(block, targets, tokens, [](int) { return 0.0F; });
  if (block.first()) *scale = widen(*gradient) / at_least_1(total.tokens);
}

/// N logits as fp32, in as many accesses as that takes.
AC_ADVISOR_DEVICE void load_logits(const float* row, int i, float (&x)[1]) { x[0] = row[i]; }
AC_ADVISOR_DEVICE void load_logits(const float* row, int i, float (&x)[4]) {
  Lanes<float, 4>::widen_all(load<float, 4>(row, i), x);
}
AC_ADVISOR_DEVICE void load_logits(const float* row, int i, float (&x)[8]) {
  float first[4], second[4];
  load_logits(row, 2 * i, first);
  load_logits(row, 2 * i + 1, second);
  AC_ADVISOR_UNROLL
  for (int j = 0; j < 4; ++j) {
    x[j] = first[j];
    x[j + 4] = second[j];
  }
}

/// One token's gradient; a thread reads an access of logits before it writes there.
template <class Form, class Block>
AC_ADVISOR_DEVICE void loss_gradient_row(Block& block, const LossTile& tile,
                                         const float* log_sum_exp, const float* scale,
                                         typename Form::Number* gradient, std::int64_t token) {
  using T = typename Form::Number;
  constexpr int N = Form::numbers, P = Form::kept;
  const float* row = tile.logits + token * tile.words;
  T* to = gradient + token * tile.words;
  const bool counts = tile.targets[token] != ignored_target;
  const std::int64_t word = tile.targets[token] - tile.first_word;
  const float shift = log_sum_exp[token], factor = *scale;
  typename Block::template Kept<Numbers<N>, P> logits(block);
  const int accesses = static_cast<int>(tile.words) / N, some = P * block.count();
  for (int first = 0; first < accesses; first += some) {
    const int here = accesses - first < some ? accesses - first : some;
    if (counts)
      block.template each<P>(here,
                             [&](int i, int slot) { load_logits(row, first + i, logits[slot].x); });
    block.template each<P>(here, [&](int i, int slot) {
      float d[N];
      AC_ADVISOR_UNROLL
      for (int j = 0; j < N; ++j) {
        const float x = counts ? capped(logits[slot].x[j], tile.cap) : 0.0F;
        d[j] = counts ? std::exp(x - shift) * factor : 0.0F;
        if (counts && static_cast<std::int64_t>(first + i) * N + j == word) d[j] -= factor;
        if (tile.cap > 0) d[j] *= 1.0F - (x / tile.cap) * (x / tile.cap);
      }
      store<T, N>(to, first + i, d);
    });
  }
}

}  // namespace ac_advisor::trainer::cuda::device
