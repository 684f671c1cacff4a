#pragma once

#include "trainer/kernels/cuda/device/bodies/batches.hpp"
#include "trainer/kernels/cuda/device/bodies/shape.hpp"

namespace ac_advisor::trainer::cuda::device {

/// Tensors of one launch, in its arguments: below the 32,764 bytes that CUDA 12.1 and a device of
/// compute capability 7.0 take.
constexpr int adamw_tensors = 512, adamw_steps = 4000;
constexpr int adamw_chunk = 1 << 16;  ///< elements of one block
constexpr int adamw_threads = 256;

struct AdamWBatch {
  void* parameter[adamw_tensors];
  const void* gradient[adamw_tensors];
  void* average[adamw_tensors];
  void* square[adamw_tensors];
  const float* step[adamw_tensors];
  std::int64_t elements[adamw_tensors];
  std::uint32_t first_chunk[adamw_tensors + 1];  ///< of tensor i; the last: how many there are
  Element type[adamw_tensors];
  int count;
  const float* learning_rate;
  double beta1, beta2;
  float epsilon, weight_decay;
};
struct AdamWSteps {
  float* step[adamw_steps];
  int count;
};
static_assert(sizeof(AdamWBatch) <= 32764 && sizeof(AdamWSteps) <= 32764);

inline void fill(AdamWBatch& batch, const AdamWTensor* tensors, int count, const AdamW& settings) {
  std::uint32_t chunks = 0;
  for (int i = 0; i < count; ++i) {
    const AdamWTensor& t = tensors[i];
    batch.parameter[i] = t.parameter;
    batch.gradient[i] = t.gradient;
    batch.average[i] = t.average;
    batch.square[i] = t.square;
    batch.step[i] = t.step;
    batch.elements[i] = t.elements;
    batch.type[i] = t.type;
    batch.first_chunk[i] = chunks;
    chunks += static_cast<std::uint32_t>((t.elements + adamw_chunk - 1) / adamw_chunk);
  }
  batch.first_chunk[count] = chunks;
  batch.count = count;
  batch.learning_rate = settings.learning_rate;
  batch.beta1 = settings.beta1;
  batch.beta2 = settings.beta2;
  batch.epsilon = static_cast<float>(settings.epsilon);
  batch.weight_decay = static_cast<float>(settings.weight_decay);
}

inline void fill(AdamWSteps& steps, const AdamWTensor* tensors, int count) {
  for (int i = 0; i < count; ++i) steps.step[i] = tensors[i].step;
  steps.count = count;
}

template <class Block>
AC_ADVISOR_DEVICE void adamw_count_steps(Block& block, const AdamWSteps& steps, int part,
                                         int parts) {
  block.part(part, parts, steps.count, [&](int i) { *steps.step[i] += 1.0F; });
}

/// What is the same for all elements of a tensor.
struct AdamWFactors {
  float learning_rate, beta1, beta2, epsilon, weight_decay, correction1, root_correction2;
};

/// torch 2.11's adam_math (aten/src/ATen/native/cuda/fused_adam_utils.cuh), in fp32 for any type.
AC_ADVISOR_DEVICE void adamw_math(const AdamWFactors& f, float g, float& p, float& m, float& v) {
  if (f.weight_decay != 0) p -= f.learning_rate * f.weight_decay * p;
  m = std::fma(f.beta1, m, std::fma(-f.beta1, g, g));
  v = std::fma(f.beta2, v, std::fma(-f.beta2, g * g, g * g));
  const float step_size = f.learning_rate / f.correction1;
  const float denominator = std::sqrt(v) / f.root_correction2 + f.epsilon;
  p -= step_size * m / denominator;
}

/// G: numbers of the gradient that one access moves, N or 1. A shard's gradient begins anywhere in
/// what its unit has reduced; parameter and moments have memory of their own.
template <class T, int N, int G>
AC_ADVISOR_DEVICE void adamw_access(const AdamWFactors& f, T* parameter, const T* gradient,
                                    T* average, T* square, int i) {
  using L = Lanes<T, N>;
  float g[N], p[N], m[N], v[N];
  if constexpr (G == N) {
    L::widen_all(load<T, N>(gradient, i), g);
  } else {
    AC_ADVISOR_UNROLL
    for (int j = 0; j < N; ++j) g[j] = widen(gradient[i * N + j]);
  }
  L::widen_all(load<T, N>(parameter, i), p);
  L::widen_all(load<T, N>(average, i), m);
  L::widen_all(load<T, N>(square, i), v);
  AC_ADVISOR_UNROLL
  for (int j = 0; j < N; ++j) adamw_math(f, g[j], p[j], m[j], v[j]);
  store<T, N>(parameter, i, p);
  store<T, N>(average, i, m);
  store<T, N>(square, i, v);
}

AC_ADVISOR_DEVICE bool lies_wide(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data) % 16 == 0;
}

template <class T, int N, class Block>
AC_ADVISOR_DEVICE void adamw_chunk_of(Block& block, const AdamWBatch& batch, int tensor,
                                      std::int64_t start) {
  // In double, as there: in fp32 1 - 0.999 has lost five of its digits.
  const auto step = static_cast<double>(*batch.step[tensor]);
  const AdamWFactors f{*batch.learning_rate,
                       static_cast<float>(batch.beta1),
                       static_cast<float>(batch.beta2),
                       batch.epsilon,
                       batch.weight_decay,
                       static_cast<float>(1.0 - std::pow(batch.beta1, step)),
                       static_cast<float>(std::sqrt(1.0 - std::pow(batch.beta2, step)))};
  const std::int64_t left = batch.elements[tensor] - start;
  const int n = static_cast<int>(left < adamw_chunk ? left : adamw_chunk);
  T* p = static_cast<T*>(batch.parameter[tensor]) + start;
  const T* g = static_cast<const T*>(batch.gradient[tensor]) + start;
  T* m = static_cast<T*>(batch.average[tensor]) + start;
  T* v = static_cast<T*>(batch.square[tensor]) + start;
  const bool wide = lies_wide(p) && lies_wide(m) && lies_wide(v);
  const int accesses = wide ? n / N : 0;
  if (lies_wide(g))
    block.part(0, 1, accesses, [&](int i) { adamw_access<T, N, N>(f, p, g, m, v, i); });
  else
    block.part(0, 1, accesses, [&](int i) { adamw_access<T, N, 1>(f, p, g, m, v, i); });
  block.part(0, 1, n - accesses * N,
             [&](int i) { adamw_access<T, 1, 1>(f, p, g, m, v, accesses * N + i); });
}

template <class Block>
AC_ADVISOR_DEVICE void adamw_update(Block& block, const AdamWBatch& batch, std::uint32_t chunk) {
  int tensor = 0, end = batch.count;  // the last tensor that begins at or before the chunk
  while (end - tensor > 1) {
    const int middle = (tensor + end) / 2;
    if (batch.first_chunk[middle] <= chunk)
      tensor = middle;
    else
      end = middle;
  }
  const std::int64_t start =
      static_cast<std::int64_t>(chunk - batch.first_chunk[tensor]) * adamw_chunk;
  if (batch.type[tensor] == Element::f32)
    adamw_chunk_of<float, 4>(block, batch, tensor, start);
  else
    adamw_chunk_of<Bf16, 8>(block, batch, tensor, start);
}

}  // namespace ac_advisor::trainer::cuda::device
