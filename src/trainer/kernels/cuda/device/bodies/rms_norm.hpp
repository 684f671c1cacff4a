#pragma once

#include <type_traits>

#include "trainer/kernels/cuda/device/bodies/shape.hpp"

namespace ac_advisor::trainer::cuda::device {

inline Shape norm_shape(const NormForward& c) {
  const auto fits = [&](const Rows& rows) { return rows.data == nullptr || aligned(rows, c.type); };
  return kept_shape(c.columns, c.type,
                    fits(c.x) && fits(c.added) && fits(c.y) && fits(c.sum) && aligned(c.weight));
}
inline Shape norm_shape(const NormBackward& c) {
  const bool fits = aligned(c.g, c.type) && aligned(c.dx, c.type) && aligned(c.x, c.type) &&
                    (c.other.data == nullptr || aligned(c.other, c.type));
  return kept_shape(c.columns, c.type, fits && aligned(c.weight));
}

/// One row.
template <class Form, class Block>
AC_ADVISOR_DEVICE void norm_row(Block& block, const NormForward& c, std::int64_t row) {
  using T = typename Form::Number;
  constexpr int N = Form::numbers, P = Form::kept;
  using L = Lanes<T, N>;
  using Raw = typename L::Raw;
  const int accesses = static_cast<int>(c.columns) / N;
  const T* x = row_start<const T>(c.x, row);
  const bool adds = c.added.data != nullptr;
  const T* added = adds ? row_start<const T>(c.added, row) : nullptr;
  T* sum = adds ? row_start<T>(c.sum, row) : nullptr;
  T* y = row_start<T>(c.y, row);
  const T* weight = static_cast<const T*>(c.weight);

  typename Block::template Kept<Raw, P> rows(block), others(block);
  if constexpr (P > 0)
    block.template each<P>(accesses, [&](int i, int slot) {
      rows[slot] = load<T, N>(x, i);
      if (adds) others[slot] = load<T, N>(added, i);
    });
  const float squares = block.template sum<P>(accesses, [&](int i, int slot) {
    Raw raw;
    if constexpr (P > 0)
      raw = rows[slot];
    else
      raw = load<T, N>(x, i);
    float v[N];
    L::widen_all(raw, v);
    if (adds) {
      if constexpr (P > 0)
        raw = others[slot];
      else
        raw = load<T, N>(added, i);
      float other[N];
      L::widen_all(raw, other);
      AC_ADVISOR_UNROLL
      for (int j = 0; j < N; ++j) v[j] += other[j];
      raw = L::narrow_all(v);
      store_raw(sum + static_cast<std::int64_t>(i) * N, raw);
      L::widen_all(raw, v);  // as rounded as the stored sum
      if constexpr (P > 0) rows[slot] = raw;
    }
    float total = 0;
    AC_ADVISOR_UNROLL
    for (int j = 0; j < N; ++j) total += v[j] * v[j];
    return total;
  });
  const float scale = 1.0F / std::sqrt(squares / static_cast<float>(c.columns) + c.epsilon);
  if (block.first()) c.inverse_rms[row] = scale;

  const T* normed = adds ? sum : x;
  block.template each<P>(accesses, [&](int i, int slot) {
    Raw raw;
    if constexpr (P > 0)
      raw = rows[slot];
    else
      raw = load<T, N>(normed, i);
    float v[N], w[N];
    L::widen_all(raw, v);
    L::widen_all(load<T, N>(weight, i), w);
    AC_ADVISOR_UNROLL
    for (int j = 0; j < N; ++j) {
      const float normal = v[j] * scale;
      if (c.unit_offset)
        v[j] = normal * (w[j] + 1.0F);
      else if constexpr (std::is_same_v<T, Bf16>)  // transformers: cast back before the weight
        v[j] = rounded_to_bf16(normal) * w[j];
      else
        v[j] = normal * w[j];
    }
    store<T, N>(y, i, v);
  });
}

/// The rows worker, worker + workers, ... and their part of dweight, which is row `worker` of the
/// partial sums.
template <class Form, class Block>
AC_ADVISOR_DEVICE void norm_backward_rows(Block& block, const NormBackward& c, std::int64_t worker,
                                          std::int64_t workers) {
  using T = typename Form::Number;
  constexpr int N = Form::numbers, P = Form::kept;
  using L = Lanes<T, N>;
  using Raw = typename L::Raw;
  const int accesses = static_cast<int>(c.columns) / N;
  const float offset = c.unit_offset ? 1.0F : 0.0F;
  const T* weight = static_cast<const T*>(c.weight);
  float* partial = c.partials + worker * c.columns;

  typename Block::template Kept<Raw, P> gradients(block), rows(block), others(block);
  typename Block::template Kept<Numbers<N>, P> totals(block);
  block.template each<P>(accesses, [&](int i, int slot) {
    if constexpr (P > 0)
      totals[slot] = {};
    else
      partial[i] = 0;
  });
  for (std::int64_t row = worker; row < c.rows; row += workers) {
    const T* g = row_start<const T>(c.g, row);
    const T* x = row_start<const T>(c.x, row);
    const bool adds = c.other.data != nullptr;
    const T* other = adds ? row_start<const T>(c.other, row) : nullptr;
    T* dx = row_start<T>(c.dx, row);
    const float scale = c.inverse_rms[row];
    if constexpr (P > 0)
      block.template each<P>(accesses, [&](int i, int slot) {
        gradients[slot] = load<T, N>(g, i);
        rows[slot] = load<T, N>(x, i);
        if (adds) others[slot] = load<T, N>(other, i);
      });
    const auto widen_row = [&](int i, int slot, float(&gv)[N], float(&xv)[N], float(&wv)[N]) {
      if constexpr (P > 0) {
        L::widen_all(gradients[slot], gv);
        L::widen_all(rows[slot], xv);
      } else {
        L::widen_all(load<T, N>(g, i), gv);
        L::widen_all(load<T, N>(x, i), xv);
      }
      L::widen_all(load<T, N>(weight, i), wv);  // in the first-level cache
    };
    const float dot = block.template sum<P>(accesses, [&](int i, int slot) {
      float gv[N], xv[N], wv[N];
      widen_row(i, slot, gv, xv, wv);
      float total = 0;
      AC_ADVISOR_UNROLL
      for (int j = 0; j < N; ++j) total += gv[j] * (wv[j] + offset) * xv[j];
      return total;
    });
    const float mean = dot * scale * scale / static_cast<float>(c.columns);
    block.template each<P>(accesses, [&](int i, int slot) {
      float gv[N], xv[N], wv[N], d[N];
      widen_row(i, slot, gv, xv, wv);
      AC_ADVISOR_UNROLL
      for (int j = 0; j < N; ++j) {
        d[j] = (gv[j] * (wv[j] + offset) - xv[j] * mean) * scale;
        const float part = gv[j] * xv[j] * scale;
        if constexpr (P > 0)
          totals[slot].x[j] += part;
        else
          partial[i] += part;
      }
      if (adds) {
        float o[N];
        if constexpr (P > 0)
          L::widen_all(others[slot], o);
        else
          L::widen_all(load<T, N>(other, i), o);
        AC_ADVISOR_UNROLL
        for (int j = 0; j < N; ++j) d[j] += o[j];
      }
      store<T, N>(dx, i, d);
    });
  }
  if constexpr (P > 0)
    block.template each<P>(accesses, [&](int i, int slot) {
      AC_ADVISOR_UNROLL
      for (int j = 0; j < N; ++j) partial[i * N + j] = totals[slot].x[j];
    });
}

constexpr int sum_columns = 16, sum_groups = 32;  ///< a block that sums partials

/// dweight's columns [tile * sum_columns, ...): each group of threads sums every sum_groups-th row.
template <class T, class Block>
AC_ADVISOR_DEVICE void norm_weight_columns(Block& block, const NormBackward& c,
                                           std::int64_t workers, std::int64_t tile) {
  block.threads([&](int thread) {
    const std::int64_t column = tile * sum_columns + thread % sum_columns;
    float total = 0;
    if (column < c.columns) {
      AC_ADVISOR_UNROLL_8
      for (std::int64_t row = thread / sum_columns; row < workers; row += sum_groups)
        total += c.partials[row * c.columns + column];
    }
    block.shared(thread) = total;
  });
  block.sync();
  block.threads([&](int thread) {
    const std::int64_t column = tile * sum_columns + thread;
    if (thread >= sum_columns || column >= c.columns) return;
    float total = 0;
    for (int group = 0; group < sum_groups; ++group)
      total += block.shared(group * sum_columns + thread);
    assign(static_cast<T*>(c.dweight)[column], total);
  });
}

}  // namespace ac_advisor::trainer::cuda::device
