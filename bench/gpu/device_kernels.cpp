// The fused kernels on a GPU: bytes that each must move, its time, and what share that is of the
// memory's bandwidth, by the datasheet (--peak-gbps) and by a copy measured in the same run.
#include <cuda_runtime_api.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "trainer/kernels/cuda/device/device.hpp"

namespace {

namespace device = ac_advisor::trainer::cuda::device;
using device::Element;
using device::Rows;

constexpr std::int64_t rows = 16384;

void check(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}

/// Device memory for one kernel's run; random numbers, since zeros run faster than data does.
class Memory {
 public:
  ~Memory() {
    for (void* p : all_) static_cast<void>(cudaFree(p));
  }
  void* bytes(std::int64_t n) {
    void* p = nullptr;
    check(cudaMalloc(&p, static_cast<std::size_t>(n)));
    all_.push_back(p);
    return p;
  }
  void* numbers(Element type, std::int64_t n) {
    const std::int64_t size = n * (type == Element::f32 ? 4 : 2);
    auto* p = static_cast<std::uint8_t*>(bytes(size));
    const std::vector<std::uint8_t>& some = pattern(type);
    const auto whole = static_cast<std::int64_t>(some.size());
    for (std::int64_t at = 0; at < size; at += whole)
      check(cudaMemcpy(p + at, some.data(), static_cast<std::size_t>(std::min(whole, size - at)),
                       cudaMemcpyHostToDevice));
    return p;
  }
  template <class T>
  T* values(const std::vector<T>& v) {
    const auto size = static_cast<std::int64_t>(v.size() * sizeof(T));
    void* p = bytes(size);
    check(cudaMemcpy(p, v.data(), static_cast<std::size_t>(size), cudaMemcpyHostToDevice));
    return static_cast<T*>(p);
  }

 private:
  /// 64 MiB of positive numbers below 1, so that they serve as second moments too.
  static const std::vector<std::uint8_t>& pattern(Element type) {
    static std::vector<std::uint8_t> patterns[2];
    std::vector<std::uint8_t>& some = patterns[type == Element::f32 ? 0 : 1];
    if (!some.empty()) return some;
    const std::size_t width = type == Element::f32 ? 4 : 2;
    some.resize(std::size_t{64} << 20);
    std::mt19937 random(1);
    std::uniform_real_distribution<float> uniform;
    for (std::size_t i = 0; i < some.size(); i += width) {
      const float x = uniform(random);
      std::memcpy(&some[i], reinterpret_cast<const std::uint8_t*>(&x) + 4 - width, width);
    }
    return some;
  }
  std::vector<void*> all_;
};

/// Median time of a call, in ms.
double time_of(const std::function<void()>& call) {
  cudaEvent_t begin = nullptr, end = nullptr;
  check(cudaEventCreate(&begin));
  check(cudaEventCreate(&end));
  for (int i = 0; i < 3; ++i) call();
  std::vector<float> times(15);
  for (float& ms : times) {
    check(cudaEventRecord(begin));
    call();
    check(cudaEventRecord(end));
    check(cudaEventSynchronize(end));
    check(cudaEventElapsedTime(&ms, begin, end));
  }
  check(cudaEventDestroy(begin));
  check(cudaEventDestroy(end));
  std::nth_element(times.begin(), times.begin() + 7, times.end());
  return static_cast<double>(times[7]);
}

class Table {
 public:
  explicit Table(double peak) : peak_(peak) {
    fmt::print("{:<32} {:>10} {:>9} {:>8} {:>10} {:>8}\n", "kernel", "MB moved", "ms", "GB/s",
               "% of peak", "% of copy");
  }
  double line(const std::string& name, std::int64_t bytes, const std::function<void()>& call) {
    const double ms = time_of(call), rate = static_cast<double>(bytes) / ms / 1e6;
    if (copy_ == 0) copy_ = rate;
    const std::string of_peak = peak_ > 0 ? fmt::format("{:.1f}", 100 * rate / peak_) : "-";
    fmt::print("{:<32} {:>10.1f} {:>9.4f} {:>8.0f} {:>10} {:>8.1f}\n", name,
               static_cast<double>(bytes) / 1e6, ms, rate, of_peak, 100 * rate / copy_);
    return rate;
  }

 private:
  double peak_, copy_ = 0;
};

Rows contiguous(void* data, std::int64_t columns) { return {data, {1, 1, rows}, {0, 0, columns}}; }

void norms(Table& table, std::int64_t n) {
  Memory m;
  const auto row = [&] { return contiguous(m.numbers(Element::bf16, rows * n), n); };
  const std::int64_t partial_rows = std::max<std::int64_t>(1, (1 << 21) / n), one = rows * n * 2;
  device::NormForward forward{.type = Element::bf16,
                              .x = row(),
                              .y = row(),
                              .weight = m.numbers(Element::bf16, n),
                              .inverse_rms = static_cast<float*>(m.bytes(rows * 4)),
                              .rows = rows,
                              .columns = n,
                              .epsilon = 1e-5F};
  table.line(fmt::format("rms_norm {}", n), 2 * one, [&] { device::rms_norm(forward, nullptr); });
  device::NormForward added = forward;
  added.added = row();
  added.sum = row();
  table.line(fmt::format("add_rms_norm {}", n), 4 * one, [&] { device::rms_norm(added, nullptr); });
  device::NormBackward backward{.type = Element::bf16,
                                .g = row(),
                                .dx = row(),
                                .x = forward.x,
                                .weight = forward.weight,
                                .inverse_rms = forward.inverse_rms,
                                .dweight = m.bytes(n * 2),
                                .partials = static_cast<float*>(m.bytes(partial_rows * n * 4)),
                                .partial_rows = partial_rows,
                                .rows = rows,
                                .columns = n};
  table.line(fmt::format("rms_norm_backward {}", n), 3 * one,
             [&] { device::rms_norm_backward(backward, nullptr); });
  backward.other = added.added;
  table.line(fmt::format("add_rms_norm_backward {}", n), 4 * one,
             [&] { device::rms_norm_backward(backward, nullptr); });
}

void swiglus(Table& table, std::int64_t n) {
  Memory m;
  const auto row = [&] { return contiguous(m.numbers(Element::bf16, rows * n), n); };
  const Rows gate = row(), up = row(), y = row(), g = row(), dgate = row(), dup = row();
  const std::int64_t one = rows * n * 2;
  for (const bool gelu : {false, true}) {
    const char* act = gelu ? "gelu" : "silu";
    table.line(fmt::format("swiglu ({}) {}", act, n), 3 * one, [&] {
      device::swiglu({Element::bf16, gate, up, y, rows, n, gelu}, nullptr);
    });
    table.line(fmt::format("swiglu_backward ({}) {}", act, n), 5 * one, [&] {
      device::swiglu_backward({Element::bf16, g, gate, up, dgate, dup, rows, n, gelu}, nullptr);
    });
  }
}

/// 8 sequences of 2048 tokens, 32 and 8 heads of d in (B, S, heads x d) buffers, in place.
void ropes(Table& table, std::int64_t d) {
  Memory m;
  constexpr std::int64_t batch = 8, tokens = rows / batch;
  void* cos = m.numbers(Element::bf16, tokens * d);
  void* sin = m.numbers(Element::bf16, tokens * d);
  const auto half = [&](std::int64_t heads) {
    const Rows x{m.numbers(Element::bf16, rows * heads * d),
                 {batch, heads, tokens},
                 {tokens * heads * d, d, heads * d}};
    return device::Rope{Element::bf16, x, x, cos, sin, rows * heads, d, tokens, d, false};
  };
  const device::Rope q = half(32), k = half(8);
  table.line(fmt::format("rope 32 + 8 heads of {}", d), rows * 40 * d * 2 * 2,
             [&] { device::rope(q, k, nullptr); });
}

void adamw(Table& table) {
  Memory m;
  // A 1B model: 2 large tables' worth in one, and 16 blocks of 9 tensors, of which 2 are norms.
  std::vector<std::int64_t> sizes = {262'668'288, 2048};
  for (int block = 0; block < 16; ++block)
    for (const std::int64_t n : {4'194'304, 1'048'576, 1'048'576, 4'194'304, 16'777'216, 16'777'216,
                                 16'777'216, 2048, 2048})
      sizes.push_back(n);
  std::vector<device::AdamWTensor> tensors;
  std::int64_t elements = 0;
  for (const std::int64_t n : sizes) {
    const auto some = [&] { return m.numbers(Element::bf16, n); };
    tensors.push_back(
        {Element::bf16, some(), some(), some(), some(), m.values(std::vector<float>{1}), n});
    elements += n;
  }
  const float* rate = m.values(std::vector<float>{1e-6F});
  table.line(fmt::format("adamw {:.2f}e9 in {}", static_cast<double>(elements) / 1e9, sizes.size()),
             elements * 14, [&] {
               device::adamw(tensors.data(), static_cast<std::int64_t>(tensors.size()),
                             {.learning_rate = rate}, nullptr);
             });
}

/// A Llama-3.1-8B block's parameters out of what 64 ranks have gathered.
void shard_copies(Table& table) {
  Memory m;
  constexpr std::int64_t ranks = 64, hidden = 4096;
  const std::vector<std::int64_t> parameter_rows = {4096, 1024, 1024, 4096, 14336, 14336, 14336};
  std::int64_t all = 0, start = 0;
  for (const std::int64_t r : parameter_rows) all += r * hidden;
  const auto* gathered = static_cast<const char*>(m.numbers(Element::bf16, all));
  std::vector<device::ShardCopy> copies;
  for (const std::int64_t r : parameter_rows) {
    const std::int64_t part = r / ranks * hidden;
    copies.push_back({.from_type = Element::bf16,
                      .to_type = Element::bf16,
                      .from = gathered + 2 * start,
                      .to = m.bytes(2 * r * hidden),
                      .elements = r * hidden,
                      .part = part,
                      .parts = ranks,
                      .from_stride = all / ranks,
                      .to_stride = part});
    start += part;
  }
  table.line("copy_shards of 64 ranks", all * 4, [&] {
    device::copy_shards(copies.data(), static_cast<std::int64_t>(copies.size()), nullptr);
  });
}

void loss(Table& table, bool small) {
  Memory m;
  // The trainer's tile stays in the second-level cache, as in a step; the other one does not.
  const std::int64_t tokens = small ? 2048 : rows, words = small ? 4096 : 16384;
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < tokens; ++i) labels.push_back(i * 7919 % words);
  device::LossTile tile{static_cast<float*>(m.numbers(Element::f32, tokens * words)),
                        m.values(labels),
                        tokens,
                        words,
                        0,
                        0};
  auto* log_sum_exp = static_cast<float*>(m.numbers(Element::f32, tokens));
  auto* target_logit = static_cast<float*>(m.numbers(Element::f32, tokens));
  const float* scale = m.values(std::vector<float>{1e-4F});
  void* gradient = m.bytes(tokens * words * 2);
  for (const float cap : {0.0F, 30.0F}) {
    tile.cap = cap;
    const std::string name = fmt::format("{} x {}{}", tokens, words, cap > 0 ? ", soft cap" : "");
    table.line("loss_forward " + name, tokens * words * 4,
               [&] { device::loss_forward(tile, log_sum_exp, target_logit, nullptr); });
    table.line("loss_backward " + name, tokens * words * 6, [&] {
      device::loss_backward(tile, log_sum_exp, scale, gradient, Element::bf16, nullptr);
    });
  }
}

void dropout(Table& table) {
  Memory m;
  constexpr std::int64_t n = std::int64_t{1} << 28;
  void* data = m.numbers(Element::bf16, n);
  auto* mask = static_cast<std::uint8_t*>(m.bytes(n));
  const std::uint64_t* key = m.values(std::vector<std::uint64_t>{42});
  table.line("dropout", n * 4, [&] {
    device::dropout({Element::bf16, data, data, nullptr, n, 0.1, 1.0F, key, 0, 0, 1}, nullptr);
  });
  table.line("dropout with a mask", n * 5, [&] {
    device::dropout({Element::bf16, data, data, mask, n, 0.1, 1.0F, key, 0, 0, 1}, nullptr);
  });
}

void copy(Table& table) {
  Memory m;
  constexpr std::int64_t size = std::int64_t{1} << 30;
  void* from = m.numbers(Element::bf16, size / 2);
  void* to = m.bytes(size);
  table.line("copy (device to device)", 2 * size, [&] {
    check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(size), cudaMemcpyDeviceToDevice));
  });
}

int run(double peak) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, 0));
  fmt::print("{}, {} multiprocessors\n", properties.name, properties.multiProcessorCount);
  Table table(peak);
  copy(table);
  for (const std::int64_t columns : {2048, 4096, 8192}) {
    norms(table, columns);
    swiglus(table, columns);
  }
  ropes(table, 64);
  ropes(table, 128);
  adamw(table);
  shard_copies(table);
  loss(table, true);
  loss(table, false);
  dropout(table);
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  double peak = 0;
  if (count == 3 && std::strcmp(arguments[1], "--peak-gbps") == 0)
    peak = std::strtod(arguments[2], nullptr);
  if (count != 1 && !(peak > 0)) {
    fmt::print(stderr, "usage: {} [--peak-gbps GB/S]\n", arguments[0]);
    return 2;
  }
  try {
    int devices = 0;
    const cudaError_t error = cudaGetDeviceCount(&devices);
    if (error != cudaSuccess || devices == 0) {
      fmt::print(stderr, "error: nothing is measured, there is no CUDA device: {}\n",
                 cudaGetErrorString(error));
      return 3;
    }
    return run(peak);
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 3;
  }
}
