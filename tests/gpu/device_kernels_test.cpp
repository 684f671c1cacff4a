// Each kernel on the GPU against the same body on the host's threads, which tests/trainer/cuda/
// compares with LibTorch.
#include <doctest/doctest.h>

#include <cstdio>
#include <functional>

#include "gpu/arena.hpp"
#include "gpu/kernels_table.hpp"

namespace ac_advisor::test {
namespace {

namespace device = trainer::cuda::device;
using device::Element;
using device::Rows;

double relative(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    size += std::pow(static_cast<double>(b[i]), 2);
  }
  return difference == 0 ? 0 : std::sqrt(difference / size);
}

using Scenario = std::function<void(const KernelTable&, Arena&)>;

void compare(const Scenario& scenario) {
  if (!has_device()) {
    std::puts("not run: no CUDA device");
    return;
  }
  Arena host(Arena::Place::host), gpu(Arena::Place::gpu), again(Arena::Place::gpu);
  scenario(host_kernels(), host);
  scenario(linked_kernels, gpu);
  scenario(linked_kernels, again);
  const auto expected = host.read(), got = gpu.read();
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(relative(got[i], expected[i]) < (host.type(i) == Element::f32 ? 1e-5 : 0x1p-8));
  }
  CHECK(got == again.read());  // deterministic
}

Rows contiguous(void* data, std::int64_t rows, std::int64_t columns) {
  return {data, {1, 1, rows}, {0, 0, columns}};
}
/// The heads of a (B, S, heads x D) buffer.
Rows heads(void* data, std::int64_t batch, std::int64_t n, std::int64_t tokens, std::int64_t d) {
  return {data, {batch, n, tokens}, {tokens * n * d, d, n * d}};
}

constexpr std::int64_t widths[] = {7, 64, 128, 520, 2048, 4096, 8192, 16384, 20000};
constexpr Element types[] = {Element::f32, Element::bf16};

}  // namespace

TEST_CASE("gpu: rms_norm and its backward are the host's") {
  for (const Element type : types)
    for (const std::int64_t n : widths)
      for (const int odd : {0, 1}) {
        CAPTURE(n);
        compare([&](const KernelTable& k, Arena& a) {
          const std::int64_t rows = 67;
          void* weight = a.numbers(type, n);
          const Rows x = contiguous(a.numbers(type, rows * n, odd), rows, n),
                     added = contiguous(a.numbers(type, rows * n), rows, n),
                     sum = contiguous(a.unwritten(type, rows * n), rows, n),
                     y = contiguous(a.unwritten(type, rows * n), rows, n),
                     g = contiguous(a.numbers(type, rows * n), rows, n);
          auto* inverse_rms = static_cast<float*>(a.unwritten(Element::f32, rows));
          k.rms_norm({.type = type,
                      .x = x,
                      .added = added,
                      .y = y,
                      .sum = sum,
                      .weight = weight,
                      .inverse_rms = inverse_rms,
                      .rows = rows,
                      .columns = n,
                      .epsilon = 1e-5F,
                      .unit_offset = odd == 1},
                     nullptr);
          k.rms_norm_backward({.type = type,
                               .g = g,
                               .dx = g,
                               .x = x,
                               .other = added,
                               .weight = weight,
                               .inverse_rms = inverse_rms,
                               .dweight = a.unwritten(type, n),
                               // As many as there are rows: all of them are written.
                               .partials = static_cast<float*>(a.unwritten(Element::f32, rows * n)),
                               .partial_rows = rows,
                               .rows = rows,
                               .columns = n,
                               .unit_offset = odd == 1},
                              nullptr);
        });
      }
}

TEST_CASE("gpu: rope is the host's, forth and back") {
  for (const Element type : types)
    for (const auto& [d, width] :
         {std::pair<std::int64_t, std::int64_t>{128, 128}, {80, 32}, {22, 22}})
      for (const bool back : {false, true}) {
        CAPTURE(d);
        compare([&](const KernelTable& k, Arena& a) {
          const std::int64_t tokens = 37;
          void* cos = a.numbers(type, tokens * width);
          void* sin = a.numbers(type, tokens * width);
          const auto half = [&](std::int64_t n) {
            void* x = a.numbers(type, 2 * n * tokens * d);
            void* y = n == 6 ? a.constant(type, 2 * n * tokens * d, 0) : x;
            return device::Rope{type,
                                heads(x, 2, n, tokens, d),
                                heads(y, 2, n, tokens, d),
                                cos,
                                sin,
                                2 * n * tokens,
                                d,
                                tokens,
                                width,
                                back};
          };
          const device::Rope q = half(6), of_k = half(2);
          k.rope(q, of_k, nullptr);
        });
      }
}

TEST_CASE("gpu: swiglu and its backward are the host's") {
  for (const Element type : types)
    for (const std::int64_t n : widths)
      for (const bool gelu : {false, true}) {
        CAPTURE(n);
        compare([&](const KernelTable& k, Arena& a) {
          const std::int64_t rows = 19;
          void* both = a.numbers(type, rows * 2 * n);
          const Rows gate{both, {1, 1, rows}, {0, 0, 2 * n}},
              up{static_cast<std::uint8_t*>(both) + n * (type == Element::f32 ? 4 : 2),
                 {1, 1, rows},
                 {0, 0, 2 * n}};
          const Rows y = contiguous(a.unwritten(type, rows * n), rows, n),
                     g = contiguous(a.numbers(type, rows * n), rows, n);
          k.swiglu({type, gate, up, y, rows, n, gelu}, nullptr);
          k.swiglu_backward({type, g, gate, up, gate, up, rows, n, gelu}, nullptr);
        });
      }
}

TEST_CASE("gpu: AdamW is the host's for 1100 tensors and for large ones") {
  compare([](const KernelTable& k, Arena& a) {
    std::vector<device::AdamWTensor> tensors;
    for (std::int64_t i = 0; i < 1100; ++i) {
      const Element type = types[i % 2];
      const std::int64_t n = i == 500 ? 200001 : i == 501 ? 131072 : 1 + i * 7 % 50;
      const int odd = i % 7 == 0 ? 1 : 0;
      tensors.push_back(
          {type, a.numbers(type, n, odd), a.numbers(type, n), a.numbers(type, n),
           a.constant(type, n, 0.01F),
           static_cast<float*>(a.constant(Element::f32, 1, static_cast<float>(i % 5))), n});
    }
    const float* rate = a.values(std::vector<float>{3e-3F});
    for (int step = 0; step < 2; ++step)
      k.adamw(tensors.data(), static_cast<std::int64_t>(tensors.size()),
              {.learning_rate = rate, .weight_decay = 0.1}, nullptr);
  });
}

TEST_CASE("gpu: the loss's tiles, mean, scale and gradient are the host's") {
  for (const Element type : types)
    for (const std::int64_t words : {64, 1001, 4096})
      for (const float cap : {0.0F, 30.0F}) {
        CAPTURE(words);
        compare([&](const KernelTable& k, Arena& a) {
          const std::int64_t tokens = 1030;
          std::vector<std::int64_t> labels;
          for (std::int64_t i = 0; i < tokens; ++i)
            labels.push_back(i % 3 == 1 ? -100 : i * 7919 % (2 * words));
          const std::int64_t* targets = a.values(labels);
          auto* log_sum_exp = static_cast<float*>(a.constant(Element::f32, tokens, -1e30F));
          auto* target_logit = static_cast<float*>(a.constant(Element::f32, tokens, 0));
          device::LossTile tiles[2];
          for (int i = 0; i < 2; ++i) {
            tiles[i] = {static_cast<float*>(a.numbers(Element::f32, tokens * words, 0, 8)),
                        targets,
                        tokens,
                        words,
                        i * words,
                        cap};
            k.loss_forward(tiles[i], log_sum_exp, target_logit, nullptr);
          }
          k.loss_mean(log_sum_exp, target_logit, targets, tokens, a.unwritten(type, 1), type,
                      nullptr);
          auto* scale = static_cast<float*>(a.unwritten(Element::f32, 1));
          k.loss_scale(a.constant(type, 1, 0.75F), type, targets, tokens, scale, nullptr);
          for (const device::LossTile& tile : tiles)
            k.loss_backward(tile, log_sum_exp, scale,
                            type == Element::f32 ? tile.logits : a.unwritten(type, tokens * words),
                            type, nullptr);
        });
      }
}

TEST_CASE("gpu: shards are copied as on the host") {
  constexpr std::int64_t parts = 3, part = 40000, most = parts * part, buffer = 2 * most;
  for (const Element from : types)
    for (const Element to : types)
      for (const std::int64_t elements : {most, most - 12345, part + 1}) {
        CAPTURE(elements);
        compare([&](const KernelTable& k, Arena& a) {
          const void* whole = a.numbers(from, most);
          void* place = a.constant(to, buffer, 7);
          const device::ShardCopy copy{.from_type = from,
                                       .to_type = to,
                                       .from = whole,
                                       .to = place,
                                       .elements = elements,
                                       .part = part,
                                       .parts = parts,
                                       .from_stride = part,
                                       .to_stride = 2 * part,
                                       .pads = true};
          k.copy_shards(&copy, 1, nullptr);
        });
      }
}

TEST_CASE("gpu: dropout is the host's") {
  for (const Element type : types)
    for (const std::int64_t n : {1, 4097, 100000})
      for (const bool masked : {false, true}) {
        CAPTURE(n);
        compare([&](const KernelTable& k, Arena& a) {
          const std::uint64_t* key = a.values(std::vector<std::uint64_t>{1234567});
          void* data = a.numbers(type, n);
          // The mask is read as numbers of 4 bytes, so it is set to whole ones.
          auto* mask = static_cast<std::uint8_t*>(a.constant(Element::f32, (n + 3) / 4, 0));
          k.dropout({type, data, data, masked ? mask : nullptr, n, 0.3, 1.25F, key, 1, 2, 3},
                    nullptr);
        });
      }
}

}  // namespace ac_advisor::test
