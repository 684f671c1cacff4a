#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "trainer/kernels/cuda/device/bodies/number.hpp"
#include "trainer/kernels/cuda/device/device.hpp"

/// How rows are given to threads: the same on the device and on the host, so that sums are taken in
/// the same order.
namespace ac_advisor::trainer::cuda::device {

/// T: numbers in memory; N: how many one access moves; P: accesses that a thread keeps in registers
/// (0: none, it reads again).
template <class T, int N, int P>
struct Form {
  using Number = T;
  static constexpr int numbers = N, kept = P;
};

constexpr int most_threads = 512;  ///< of a block, so that each may have 128 registers

struct Shape {
  bool wide = false;  ///< 16 bytes an access
  int kept = 0;
  int threads = 1;  ///< of one row: a power of two up to 32, else whole warps
};

constexpr int numbers_of(Element type) { return type == Element::f32 ? 4 : 8; }
constexpr std::int64_t bytes_of(Element type) { return type == Element::f32 ? 4 : 2; }

inline bool aligned(const void* data) { return reinterpret_cast<std::uintptr_t>(data) % 16 == 0; }
/// Each row begins at a multiple of 16 bytes.
inline bool aligned(const Rows& rows, Element type) {
  for (int d = 0; d < 3; ++d)
    if (rows.sizes[d] > 1 && rows.strides[d] * bytes_of(type) % 16 != 0) return false;
  return aligned(rows.data);
}

/// Threads for `accesses` of which each thread has up to `kept`.
constexpr int threads_for(std::int64_t accesses, int kept) {
  const std::int64_t wanted = (accesses + kept - 1) / kept;
  if (wanted > most_threads) return most_threads;
  if (wanted > 32) return static_cast<int>((wanted + 31) / 32 * 32);
  int threads = 1;
  while (threads < wanted) threads *= 2;
  return threads;
}

/// A row that is read once and kept: two accesses a thread, or four; longer rows are read again.
constexpr Shape kept_shape(std::int64_t columns, Element type, bool all_aligned) {
  const int numbers = numbers_of(type);
  const std::int64_t accesses = columns / numbers;
  if (!all_aligned || columns % numbers != 0 || accesses > 4 * most_threads)
    return {false, 0, threads_for(columns, 4)};
  const int kept = accesses <= most_threads ? 2 : 4;  // two where 256 threads are enough
  return {true, kept, threads_for(accesses, kept)};
}

/// f(Form) of a kept shape.
template <class F>
void with_form(Element type, const Shape& shape, F f) {
  const bool wide = type == Element::f32;
  if (!shape.wide)
    wide ? f(Form<float, 1, 0>{}) : f(Form<Bf16, 1, 0>{});
  else if (shape.kept == 2)
    wide ? f(Form<float, 4, 2>{}) : f(Form<Bf16, 8, 2>{});
  else
    wide ? f(Form<float, 4, 4>{}) : f(Form<Bf16, 8, 4>{});
}

/// f(Form) of pointwise kernels, which loop over tiles of P accesses a thread.
template <int P, class F>
void with_pointwise_form(Element type, bool all_aligned, F f) {
  if (type == Element::f32)
    all_aligned ? f(Form<float, 4, P>{}) : f(Form<float, 1, P>{});
  else
    all_aligned ? f(Form<Bf16, 8, P>{}) : f(Form<Bf16, 1, P>{});
}

inline void require(bool right, const char* kernel, const char* what) {
  if (!right) throw std::invalid_argument(std::string(kernel) + ": " + what);
}
/// Rows are counted in 32 bits on the device.
inline void require_rows(std::int64_t rows, std::int64_t columns, const char* kernel) {
  require(rows >= 0 && rows < INT32_MAX, kernel, "the number of rows is not in [0, 2^31)");
  require(columns > 0 && columns < INT32_MAX, kernel, "the number of columns is not in [1, 2^31)");
}

template <class T>
AC_ADVISOR_DEVICE T* row_start(const Rows& rows, std::int64_t row) {
  const auto r = static_cast<std::uint32_t>(row);
  const auto inner = static_cast<std::uint32_t>(rows.sizes[2]),
             middle = static_cast<std::uint32_t>(rows.sizes[1]);
  const std::uint32_t outer = r / inner;
  return static_cast<T*>(rows.data) + (outer / middle) * rows.strides[0] +
         (outer % middle) * rows.strides[1] + (r % inner) * rows.strides[2];
}

}  // namespace ac_advisor::trainer::cuda::device
