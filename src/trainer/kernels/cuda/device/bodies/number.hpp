#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

/// Numbers as they lie in memory and in registers. The one place that tells nvcc from the host's
/// compiler: nvcc compiles the bodies for the device, g++ for the host.
#ifdef __CUDACC__
#include <cuda_bf16.h>
#define AC_ADVISOR_DEVICE __device__ __forceinline__
#define AC_ADVISOR_DEVICE_AND_HOST __host__ __device__ __forceinline__
#define AC_ADVISOR_UNROLL _Pragma("unroll")
#define AC_ADVISOR_UNROLL_8 _Pragma("unroll 8")
#else
#define AC_ADVISOR_DEVICE inline
#define AC_ADVISOR_DEVICE_AND_HOST inline
#define AC_ADVISOR_UNROLL
#define AC_ADVISOR_UNROLL_8
#endif

namespace ac_advisor::trainer::cuda::device {

struct Bf16 {
  std::uint16_t bits;
};
/// 16 bytes: one access.
struct alignas(16) Words {
  std::uint32_t words[4];
};

#ifdef __CUDACC__

AC_ADVISOR_DEVICE float float_of(std::uint32_t bits) { return __uint_as_float(bits); }
AC_ADVISOR_DEVICE std::uint32_t bits_of(float x) { return __float_as_uint(x); }
AC_ADVISOR_DEVICE std::uint16_t bf16_bits(float x) {
  return __bfloat16_as_ushort(__float2bfloat16_rn(x));
}
/// Two at once, the first in the low half: one instruction.
AC_ADVISOR_DEVICE std::uint32_t bf16_pair(float first, float second) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
  return static_cast<std::uint32_t>(__bfloat16_as_ushort(pair.x)) |
         static_cast<std::uint32_t>(__bfloat16_as_ushort(pair.y)) << 16;
}
template <class Raw>
AC_ADVISOR_DEVICE Raw load_raw(const void* from) {
  if constexpr (std::is_same_v<Raw, Words>) {
    const uint4 v = *static_cast<const uint4*>(from);
    return {{v.x, v.y, v.z, v.w}};
  } else {
    return *static_cast<const Raw*>(from);
  }
}
template <class Raw>
AC_ADVISOR_DEVICE void store_raw(void* to, const Raw& raw) {
  if constexpr (std::is_same_v<Raw, Words>)  // nvcc often stores a struct's words one by one
    __stwb(static_cast<uint4*>(to),
           make_uint4(raw.words[0], raw.words[1], raw.words[2], raw.words[3]));
  else
    *static_cast<Raw*>(to) = raw;
}
/// 1 / x to 2 ulp, for what is rounded to bf16 afterwards.
AC_ADVISOR_DEVICE float reciprocal_near(float x) { return __fdividef(1.0F, x); }

#else

AC_ADVISOR_DEVICE float float_of(std::uint32_t bits) {
  float x = 0;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}
AC_ADVISOR_DEVICE std::uint32_t bits_of(float x) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}
/// To the nearest, ties to even; NaN stays NaN.
AC_ADVISOR_DEVICE std::uint16_t bf16_bits(float x) {
  const std::uint32_t bits = bits_of(x);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return 0x7FC0U;
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}
AC_ADVISOR_DEVICE std::uint32_t bf16_pair(float first, float second) {
  return bf16_bits(first) | static_cast<std::uint32_t>(bf16_bits(second)) << 16;
}
template <class Raw>
AC_ADVISOR_DEVICE Raw load_raw(const void* from) {
  Raw raw;
  std::memcpy(&raw, from, sizeof raw);
  return raw;
}
template <class Raw>
AC_ADVISOR_DEVICE void store_raw(void* to, const Raw& raw) {
  std::memcpy(to, &raw, sizeof raw);
}
AC_ADVISOR_DEVICE float reciprocal_near(float x) { return 1.0F / x; }

#endif

AC_ADVISOR_DEVICE float rounded_to_bf16(float x) {
  return float_of(static_cast<std::uint32_t>(bf16_bits(x)) << 16);
}
AC_ADVISOR_DEVICE float widen(float x) { return x; }
AC_ADVISOR_DEVICE float widen(Bf16 x) { return float_of(static_cast<std::uint32_t>(x.bits) << 16); }
AC_ADVISOR_DEVICE void assign(float& to, float x) { to = x; }
AC_ADVISOR_DEVICE void assign(Bf16& to, float x) { to.bits = bf16_bits(x); }

template <int N>
struct Numbers {
  float x[N];
};

/// N numbers of type T that are loaded and stored in one access, and worked on in fp32.
template <class T, int N>
struct Lanes;

template <class T>
struct Lanes<T, 1> {
  using Raw = T;
  AC_ADVISOR_DEVICE static void widen_all(const T& raw, float (&x)[1]) { x[0] = widen(raw); }
  AC_ADVISOR_DEVICE static T narrow_all(const float (&x)[1]) {
    T raw;
    assign(raw, x[0]);
    return raw;
  }
};

template <>
struct Lanes<float, 4> {
  using Raw = Words;
  AC_ADVISOR_DEVICE static void widen_all(const Words& raw, float (&x)[4]) {
    AC_ADVISOR_UNROLL
    for (int i = 0; i < 4; ++i) x[i] = float_of(raw.words[i]);
  }
  AC_ADVISOR_DEVICE static Words narrow_all(const float (&x)[4]) {
    return {{bits_of(x[0]), bits_of(x[1]), bits_of(x[2]), bits_of(x[3])}};
  }
};

template <>
struct Lanes<Bf16, 8> {
  using Raw = Words;
  AC_ADVISOR_DEVICE static void widen_all(const Words& raw, float (&x)[8]) {
    AC_ADVISOR_UNROLL
    for (int i = 0; i < 4; ++i) {
      x[2 * i] = float_of(raw.words[i] << 16);
      x[2 * i + 1] = float_of(raw.words[i] & 0xFFFF0000U);
    }
  }
  AC_ADVISOR_DEVICE static Words narrow_all(const float (&x)[8]) {
    return {{bf16_pair(x[0], x[1]), bf16_pair(x[2], x[3]), bf16_pair(x[4], x[5]),
             bf16_pair(x[6], x[7])}};
  }
};

/// The i-th N numbers from `from` on.
template <class T, int N>
AC_ADVISOR_DEVICE typename Lanes<T, N>::Raw load(const T* from, std::int64_t i) {
  return load_raw<typename Lanes<T, N>::Raw>(from + i * N);
}
template <class T, int N>
AC_ADVISOR_DEVICE void store(T* to, std::int64_t i, const float (&x)[N]) {
  store_raw(to + i * N, Lanes<T, N>::narrow_all(x));
}

}  // namespace ac_advisor::trainer::cuda::device
