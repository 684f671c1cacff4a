#pragma once

#include "trainer/kernels/cuda/device/bodies/shape.hpp"

namespace ac_advisor::trainer::cuda::device {

constexpr int dropout_threads = 256, dropout_kept = 2;

// counter_rng.hpp's, which the device's compiler cannot include; the tests compare them bit by bit.
AC_ADVISOR_DEVICE std::uint64_t mix_bits(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}
AC_ADVISOR_DEVICE std::uint64_t combine_bits(std::uint64_t key, std::uint64_t part) {
  return mix_bits(key ^ mix_bits(part));
}

/// uniform(key, i) < p exactly where its 53 bits are below this: p 2^53 is a shift of the exponent.
inline std::uint64_t dropped_below(double p) {
  return static_cast<std::uint64_t>(std::ceil(p * 0x1p53));
}

/// A block each; one of them at least, for the elements beyond the last access.
template <class Form>
std::int64_t dropout_tiles(std::int64_t elements) {
  const std::int64_t tile = Form::numbers * Form::kept * dropout_threads;
  return (elements + tile - 1) / tile;
}

template <class T, int N>
AC_ADVISOR_DEVICE void drop(const Dropout& c, std::uint64_t key, std::uint64_t below,
                            std::int64_t first, float (&x)[N]) {
  std::uint64_t kept = 0;  // a byte each, the first one lowest
  AC_ADVISOR_UNROLL
  for (int j = 0; j < N; ++j) {
    const auto counter = static_cast<std::uint64_t>(first + j);
    const bool keep = (mix_bits(key ^ (counter * 0xD1342543DE82EF95ULL)) >> 11) >= below;
    kept |= static_cast<std::uint64_t>(keep) << (8 * j);
    x[j] = keep ? x[j] * c.scale : 0.0F;
  }
  if (c.mask == nullptr) return;
  std::uint8_t* mask = c.mask + first;
  if (N % 4 == 0 && reinterpret_cast<std::uintptr_t>(mask) % 4 == 0) {
    AC_ADVISOR_UNROLL
    for (int j = 0; j < N / 4; ++j)
      store_raw(mask + 4 * j, static_cast<std::uint32_t>(kept >> (32 * j)));
  } else {
    AC_ADVISOR_UNROLL
    for (int j = 0; j < N; ++j) mask[j] = static_cast<std::uint8_t>(kept >> (8 * j));
  }
}

/// Tile `tile` of the accesses and, in the last one, the elements beyond the last access.
template <class Form, class Block>
AC_ADVISOR_DEVICE void dropout_tile(Block& block, const Dropout& c, std::uint64_t below,
                                    std::int64_t tile) {
  using T = typename Form::Number;
  constexpr int N = Form::numbers, P = Form::kept;
  using L = Lanes<T, N>;
  const T* from = static_cast<const T*>(c.from);
  T* data = static_cast<T*>(c.data);
  const std::uint64_t key =
      combine_bits(combine_bits(combine_bits(*c.step_key, c.micro), c.rank), c.op);
  const std::int64_t accesses = c.elements / N, size = static_cast<std::int64_t>(P) * block.count(),
                     first = tile * size;
  const int here = static_cast<int>(accesses - first < size ? accesses - first : size);
  typename Block::template Kept<typename L::Raw, P> raws(block);
  block.template each<P>(here, [&](int i, int slot) { raws[slot] = load<T, N>(from, first + i); });
  block.template each<P>(here, [&](int i, int slot) {
    float x[N];
    L::widen_all(raws[slot], x);
    drop<T, N>(c, key, below, (first + i) * N, x);
    store<T, N>(data, first + i, x);
  });
  if (c.elements - first * N > size * N) return;
  block.part(0, 1, static_cast<int>(c.elements - accesses * N), [&](int i) {
    const std::int64_t at = accesses * N + i;
    float x[1] = {widen(from[at])};
    drop<T, 1>(c, key, below, at, x);
    assign(data[at], x[0]);
  });
}

}  // namespace ac_advisor::trainer::cuda::device
