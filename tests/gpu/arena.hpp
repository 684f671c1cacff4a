#pragma once

#include <cuda_runtime_api.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "trainer/kernels/cuda/device/device.hpp"

namespace ac_advisor::test {

inline void check(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}
/// False, and a line that says so, where there is no GPU.
inline bool has_device() {
  int devices = 0;
  return cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0;
}

/// Arrays of one run on the host or on the GPU: two arenas from which the same arrays are asked for
/// in the same order hold the same numbers.
class Arena {
 public:
  enum class Place { host, gpu };
  using Element = trainer::cuda::device::Element;

  explicit Arena(Place place) : place_(place) {}
  ~Arena() {
    for (const Array& a : arrays_)
      if (place_ == Place::gpu) static_cast<void>(cudaFree(a.memory));
  }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// Normal numbers times `scale`; the array begins `offset` elements beyond an aligned address.
  void* numbers(Element type, std::int64_t n, int offset = 0, float scale = 1) {
    return filled(type, n, offset, [&] { return normal_(random_) * scale; });
  }
  /// What a kernel has to write.
  void* unwritten(Element type, std::int64_t n) {
    return filled(type, n, 0, [] { return NAN; });
  }
  void* constant(Element type, std::int64_t n, float value) {
    return filled(type, n, 0, [&] { return value; });
  }
  /// Raw values, not compared.
  template <class T>
  T* values(const std::vector<T>& v) {
    return static_cast<T*>(place(v.data(), v.size() * sizeof(T), 0, 0, Element::f32));
  }

  /// Every array of numbers, after the kernels have ended.
  [[nodiscard]] std::vector<std::vector<float>> read() const {
    if (place_ == Place::gpu) check(cudaDeviceSynchronize());
    std::vector<std::vector<float>> all;
    for (const Array& a : arrays_) {
      const std::size_t size = bytes(a.type);
      std::vector<std::uint8_t> raw(static_cast<std::size_t>(a.numbers) * size);
      const auto* from = static_cast<const std::uint8_t*>(a.memory) + a.start;
      copy(raw.data(), from, raw.size());
      std::vector<float> wide;
      for (std::size_t i = 0; i < raw.size(); i += size) {
        std::uint32_t bits = 0;
        std::memcpy(reinterpret_cast<std::uint8_t*>(&bits) + 4 - size, &raw[i], size);
        float x = 0;
        std::memcpy(&x, &bits, sizeof x);
        wide.push_back(x);
      }
      all.push_back(std::move(wide));
    }
    return all;
  }
  [[nodiscard]] Element type(std::size_t i) const { return arrays_[i].type; }

 private:
  struct Array {
    void* memory;
    std::size_t start;  ///< in bytes
    std::int64_t numbers;
    Element type;
  };
  static std::size_t bytes(Element type) { return type == Element::f32 ? 4 : 2; }

  void copy(void* to, const void* from, std::size_t size) const {
    if (place_ == Place::gpu)
      check(cudaMemcpy(to, from, size, cudaMemcpyDefault));
    else
      std::memcpy(to, from, size);
  }

  template <class Next>
  void* filled(Element type, std::int64_t n, int offset, Next next) {
    std::vector<std::uint8_t> raw;
    for (std::int64_t i = 0; i < n; ++i) {
      const float x = next();
      std::uint8_t b[4];
      std::memcpy(b, &x, 4);  // bf16: the upper half
      raw.insert(raw.end(), b + 4 - bytes(type), b + 4);
    }
    return place(raw.data(), raw.size(), static_cast<std::size_t>(offset) * bytes(type), n, type);
  }

  void* place(const void* from, std::size_t size, std::size_t start, std::int64_t numbers,
              Element type) {
    void* memory = nullptr;
    if (place_ == Place::gpu) {
      check(cudaMalloc(&memory, size + start + 256));
    } else {
      blocks_.emplace_back((size + start) / 16 + 16);
      memory = blocks_.back().data();
    }
    auto* at = static_cast<std::uint8_t*>(memory) + start;
    if (size > 0) copy(at, from, size);
    arrays_.push_back({memory, start, numbers, type});
    return at;
  }

  struct alignas(16) Block {
    std::uint8_t bytes[16];
  };
  Place place_;
  std::vector<Array> arrays_;
  std::vector<std::vector<Block>> blocks_;
  std::mt19937 random_{20};
  std::normal_distribution<float> normal_;
};

}  // namespace ac_advisor::test
