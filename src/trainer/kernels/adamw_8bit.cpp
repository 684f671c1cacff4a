#include "trainer/kernels/adamw_8bit.hpp"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace ac_advisor::trainer::adamw_8bit {
namespace {

constexpr std::int64_t block = dynamic_map::block;

/// One element's step.
class Rule {
 public:
  Rule(std::int64_t step, const OptimizerSettings& o)
      : beta1_(static_cast<float>(o.beta1)),
        beta2_(static_cast<float>(o.beta2)),
        one_less_beta1_(static_cast<float>(1.0 - o.beta1)),
        one_less_beta2_(static_cast<float>(1.0 - o.beta2)),
        root_(static_cast<float>(std::sqrt(1.0 - std::pow(o.beta2, static_cast<double>(step))))),
        epsilon_(static_cast<float>(o.epsilon)),
        decay_(static_cast<float>(1.0 - o.learning_rate * o.weight_decay)),
        rate_(static_cast<float>(o.learning_rate /
                                 (1.0 - std::pow(o.beta1, static_cast<double>(step))))) {}

  [[nodiscard]] float operator()(float p, float g, float& average, float& square) const {
    average = average * beta1_ + one_less_beta1_ * g;
    square = square * beta2_ + one_less_beta2_ * g * g;
    return p * decay_ - rate_ * average / (std::sqrt(square) / root_ + epsilon_);
  }

 private:
  float beta1_, beta2_, one_less_beta1_, one_less_beta2_, root_, epsilon_, decay_, rate_;
};

constexpr Operands operands[] = {
    {Optimizer::adamw_8bit, {2, 4, 6}, {3, 5, 7}, dynamic_map::Ties::down},
    {Optimizer::adamw_8bit_torchao, {2, 3, 4}, {5, 6, 7}, dynamic_map::Ties::up},
};

std::span<const float, 256> map_of(const Bytes& bytes) {
  return std::span<const float, 256>(bytes.map.const_data_ptr<float>(), 256);
}

}  // namespace

const Operands* operands_of(Optimizer kind) {
  for (const Operands& one : operands)
    if (one.kind == kind) return &one;
  return nullptr;
}

void update(const at::Tensor& parameter, const at::Tensor& gradient, const Bytes& average,
            const Bytes& squares, std::int64_t step, const OptimizerSettings& settings,
            dynamic_map::Ties ties) {
  const Rule rule(step, settings);
  const std::int64_t n = parameter.numel();
  const auto averages = map_of(average), of_squares = map_of(squares);
  auto *a = average.codes.mutable_data_ptr<std::uint8_t>(),
       *s = squares.codes.mutable_data_ptr<std::uint8_t>();
  auto *a_scale = average.scales.mutable_data_ptr<float>(),
       *s_scale = squares.scales.mutable_data_ptr<float>();
  AT_DISPATCH_FLOATING_TYPES_AND(at::kBFloat16, parameter.scalar_type(), "adamw_8bit::update", [&] {
    auto* p = parameter.mutable_data_ptr<scalar_t>();
    const auto* g = gradient.const_data_ptr<scalar_t>();
    at::parallel_for(0, (n + block - 1) / block, 16, [&](std::int64_t from, std::int64_t to) {
      std::array<float, block> first{}, second{};
      for (std::int64_t b = from; b < to; ++b) {
        const std::int64_t begin = b * block;
        const auto size = static_cast<std::size_t>(std::min(block, n - begin));
        for (std::size_t k = 0; k < size; ++k) {
          const std::int64_t i = begin + static_cast<std::int64_t>(k);
          first[k] = averages[a[i]] * a_scale[b];
          second[k] = of_squares[s[i]] * s_scale[b];
          p[i] = static_cast<scalar_t>(
              rule(static_cast<float>(p[i]), static_cast<float>(g[i]), first[k], second[k]));
        }
        a_scale[b] = dynamic_map::quantize_block(averages, {first.data(), size}, a + begin, ties);
        s_scale[b] =
            dynamic_map::quantize_block(of_squares, {second.data(), size}, s + begin, ties);
      }
    });
  });
}

void update(const at::Tensor& parameter, const at::Tensor& gradient, const at::Tensor& average,
            const at::Tensor& squares, std::int64_t step, const OptimizerSettings& settings) {
  const Rule rule(step, settings);
  AT_DISPATCH_FLOATING_TYPES_AND(at::kBFloat16, parameter.scalar_type(), "adamw_8bit::update", [&] {
    auto* p = parameter.mutable_data_ptr<scalar_t>();
    const auto* g = gradient.const_data_ptr<scalar_t>();
    const auto each = [&](auto* a, auto* s) {
      for (std::int64_t i = 0; i < parameter.numel(); ++i) {
        auto first = static_cast<float>(a[i]), second = static_cast<float>(s[i]);
        p[i] = static_cast<scalar_t>(
            rule(static_cast<float>(p[i]), static_cast<float>(g[i]), first, second));
        a[i] = first;
        s[i] = second;
      }
    };
    if (average.scalar_type() == at::kFloat)  // bitsandbytes' always, torchao's the parameter's
      each(average.mutable_data_ptr<float>(), squares.mutable_data_ptr<float>());
    else
      each(average.mutable_data_ptr<at::BFloat16>(), squares.mutable_data_ptr<at::BFloat16>());
  });
}

}  // namespace ac_advisor::trainer::adamw_8bit
