#pragma once

#include "trainer/kernels/cuda/device/bodies/shape.hpp"

namespace ac_advisor::trainer::cuda::device {

constexpr int rope_threads = 128;

inline bool rope_aligned(const Rope& c) {
  if (c.rows == 0) return true;
  return aligned(c.x, c.type) && aligned(c.y, c.type) && aligned(c.cos) && aligned(c.sin) &&
         c.width / 2 % numbers_of(c.type) == 0;
}

inline void require_rope(const Rope& c) {
  if (c.rows == 0) return;
  require_rows(c.rows, c.columns, "rope");
  require(c.tokens > 0 && c.rows % c.tokens == 0, "rope", "rows are not whole sequences");
  require(c.width > 0 && c.width % 2 == 0 && c.width <= c.columns, "rope",
          "the width is not even, or is beyond the columns");
}

inline void require_rope(const Rope& q, const Rope& k) {
  require_rope(q);
  require_rope(k);
  if (q.rows > 0 && k.rows > 0)
    require(q.type == k.type && q.tokens == k.tokens, "rope",
            "q and k differ in their type or number of tokens");
}

/// Accesses of one token's rows: half a head is turned with the other half.
template <int N>
AC_ADVISOR_DEVICE_AND_HOST int rope_items(const Rope& c) {
  return c.rows == 0 ? 0 : static_cast<int>(c.rows / c.tokens * (c.width / 2 / N));
}

/// The N numbers at `access` of a row's first half, those of the second half, and their share of
/// what is not turned.
template <class T, int N>
AC_ADVISOR_DEVICE void turn(const Rope& c, std::int64_t token, int item) {
  const int half = static_cast<int>(c.width) / 2, accesses = half / N;
  const std::int64_t row = static_cast<std::int64_t>(item / accesses) * c.tokens + token;
  const int access = item % accesses;
  const T* x = row_start<const T>(c.x, row);
  T* y = row_start<T>(c.y, row);
  const T* cos = static_cast<const T*>(c.cos) + token * c.width;
  const T* sin = static_cast<const T*>(c.sin) + token * c.width;
  float x1[N], x2[N], c1[N], c2[N], s1[N], s2[N], y1[N], y2[N];
  using L = Lanes<T, N>;
  L::widen_all(load<T, N>(x, access), x1);
  L::widen_all(load<T, N>(x + half, access), x2);
  L::widen_all(load<T, N>(cos, access), c1);
  L::widen_all(load<T, N>(cos + half, access), c2);
  L::widen_all(load<T, N>(sin, access), s1);
  L::widen_all(load<T, N>(sin + half, access), s2);
  AC_ADVISOR_UNROLL
  for (int j = 0; j < N; ++j) {
    if (c.back) {
      y1[j] = x1[j] * c1[j] + x2[j] * s2[j];
      y2[j] = x2[j] * c2[j] - x1[j] * s1[j];
    } else {
      y1[j] = x1[j] * c1[j] - x2[j] * s1[j];
      y2[j] = x2[j] * c2[j] + x1[j] * s2[j];
    }
  }
  store<T, N>(y, access, y1);
  store<T, N>(y + half, access, y2);
  if (x != y)
    for (std::int64_t i = c.width + access; i < c.columns; i += accesses) y[i] = x[i];
}

/// A part of one token's rows of q and k: in a (B, S, heads x D) buffer they are neighbours.
template <class Form, class Block>
AC_ADVISOR_DEVICE void rope_token(Block& block, const Rope& q, const Rope& k, std::int64_t token,
                                  int part, int parts) {
  using T = typename Form::Number;
  constexpr int N = Form::numbers;
  const int of_q = rope_items<N>(q);
  block.part(part, parts, of_q + rope_items<N>(k), [&](int item) {
    if (item < of_q)
      turn<T, N>(q, token, item);
    else
      turn<T, N>(k, token, item - of_q);
  });
}

}  // namespace ac_advisor::trainer::cuda::device
