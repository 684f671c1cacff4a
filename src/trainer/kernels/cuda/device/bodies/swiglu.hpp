#pragma once

#include <type_traits>

#include "trainer/kernels/cuda/device/bodies/shape.hpp"

namespace ac_advisor::trainer::cuda::device {

// gelu(x) = x / 2 (1 + tanh(k (x + c x³)))  (Hendrycks and Gimpel 2016)
constexpr float gelu_k = 0.7978845608028654F, gelu_c = 0.044715F;

constexpr int swiglu_kept = 4, swiglu_backward_kept = 2;

inline bool swiglu_aligned(const Swiglu& c) {
  return aligned(c.gate, c.type) && aligned(c.up, c.type) && aligned(c.y, c.type) &&
         c.columns % numbers_of(c.type) == 0;
}
inline bool swiglu_aligned(const SwigluBackward& c) {
  return aligned(c.g, c.type) && aligned(c.gate, c.type) && aligned(c.up, c.type) &&
         aligned(c.dgate, c.type) && aligned(c.dup, c.type) && c.columns % numbers_of(c.type) == 0;
}
/// A block a row; it loops where the row is longer than what its threads keep.
template <class Form>
int swiglu_threads(std::int64_t columns) {
  const int threads = threads_for(columns / Form::numbers, Form::kept);
  return threads < 32 ? 32 : threads > 256 ? 256 : threads;
}

/// 1 / (1 + e^-x)
template <class T>
AC_ADVISOR_DEVICE float sigmoid(float x) {
  const float below = 1.0F + std::exp(-x);
  if constexpr (std::is_same_v<T, Bf16>)
    return reciprocal_near(below);
  else
    return 1.0F / below;
}

/// 2 sigmoid(2x) - 1; its error near 0 is of the size of 1's last bit, which 1 + tanh cannot tell.
template <class T>
AC_ADVISOR_DEVICE float tanh_of(float x) {
  return 2.0F * sigmoid<T>(2.0F * x) - 1.0F;
}

/// act(x) and its derivative.
struct Activation {
  float value, slope;
};
template <class T>
AC_ADVISOR_DEVICE Activation activation(float x, bool gelu) {
  if (gelu) {
    const float t = tanh_of<T>(gelu_k * (x + gelu_c * x * x * x));
    const float inner = gelu_k * (1.0F + 3.0F * gelu_c * x * x);
    return {0.5F * x * (1.0F + t), 0.5F * (1.0F + t) + 0.5F * x * (1.0F - t * t) * inner};
  }
  const float s = sigmoid<T>(x);
  return {x * s, s * (1.0F + x * (1.0F - s))};
}

template <class Form, class Block>
AC_ADVISOR_DEVICE void swiglu_row(Block& block, const Swiglu& c, std::int64_t row) {
  using T = typename Form::Number;
  constexpr int N = Form::numbers, P = Form::kept;
  using L = Lanes<T, N>;
  const T* gate = row_start<const T>(c.gate, row);
  const T* up = row_start<const T>(c.up, row);
  T* y = row_start<T>(c.y, row);
  typename Block::template Kept<typename L::Raw, P> gates(block), ups(block);
  const int accesses = static_cast<int>(c.columns) / N, tile = P * block.count();
  for (int first = 0; first < accesses; first += tile) {
    const int here = accesses - first < tile ? accesses - first : tile;
    block.template each<P>(here, [&](int i, int slot) {
      gates[slot] = load<T, N>(gate, first + i);
      ups[slot] = load<T, N>(up, first + i);
    });
    block.template each<P>(here, [&](int i, int slot) {
      float a[N], b[N];
      L::widen_all(gates[slot], a);
      L::widen_all(ups[slot], b);
      AC_ADVISOR_UNROLL
      for (int j = 0; j < N; ++j) a[j] = activation<T>(a[j], c.gelu).value * b[j];
      store<T, N>(y, first + i, a);
    });
  }
}

template <class Form, class Block>
AC_ADVISOR_DEVICE void swiglu_backward_row(Block& block, const SwigluBackward& c,
                                           std::int64_t row) {
  using T = typename Form::Number;
  constexpr int N = Form::numbers, P = Form::kept;
  using L = Lanes<T, N>;
  const T* g = row_start<const T>(c.g, row);
  const T* gate = row_start<const T>(c.gate, row);
  const T* up = row_start<const T>(c.up, row);
  T* dgate = row_start<T>(c.dgate, row);
  T* dup = row_start<T>(c.dup, row);
  typename Block::template Kept<typename L::Raw, P> gradients(block), gates(block), ups(block);
  const int accesses = static_cast<int>(c.columns) / N, tile = P * block.count();
  for (int first = 0; first < accesses; first += tile) {
    const int here = accesses - first < tile ? accesses - first : tile;
    block.template each<P>(here, [&](int i, int slot) {
      gradients[slot] = load<T, N>(g, first + i);
      gates[slot] = load<T, N>(gate, first + i);
      ups[slot] = load<T, N>(up, first + i);
    });
    block.template each<P>(here, [&](int i, int slot) {
      float d[N], a[N], b[N];
      L::widen_all(gradients[slot], d);
      L::widen_all(gates[slot], a);
      L::widen_all(ups[slot], b);
      AC_ADVISOR_UNROLL
      for (int j = 0; j < N; ++j) {
        const Activation act = activation<T>(a[j], c.gelu);
        a[j] = d[j] * b[j] * act.slope;
        b[j] = d[j] * act.value;
      }
      store<T, N>(dgate, first + i, a);
      store<T, N>(dup, first + i, b);
    });
  }
}

}  // namespace ac_advisor::trainer::cuda::device
