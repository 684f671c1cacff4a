#include "trainer/weights/initial.hpp"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "ac_advisor/model/error.hpp"
#include "trainer/kernels/counter_rng.hpp"

namespace ac_advisor::trainer {
namespace {

constexpr float standard_deviation = 0.02F;  // initializer_range of every family's configuration

std::uint64_t hash(const std::string& text) {  // FNV-1a
  std::uint64_t h = 0xCBF29CE484222325ULL;
  for (unsigned char c : text) h = (h ^ c) * 0x100000001B3ULL;
  return h;
}

template <typename T, typename Draw>
void fill(T* data, std::int64_t begin, std::int64_t end, const Draw& draw) {
  at::parallel_for(begin, end, 4096, [&](std::int64_t from, std::int64_t until) {
    for (std::int64_t i = from; i < until; ++i) data[i - begin] = static_cast<T>(draw(i));
  });
}

template <typename Draw>
void fill(const at::Tensor& flat, std::int64_t begin, std::int64_t end, const Draw& draw) {
  if (flat.scalar_type() == at::kFloat)
    fill(flat.mutable_data_ptr<float>(), begin, end, draw);
  else
    fill(flat.mutable_data_ptr<at::BFloat16>(), begin, end, draw);
}

}  // namespace

/// Box and Muller (1958), a pair of uniforms an element; in fp32, as the weights are at most.
float normal(std::uint64_t key, std::int64_t index) {
  const auto i = static_cast<std::uint64_t>(index);
  const auto u = static_cast<float>(1.0 - uniform(key, 2 * i)),
             v = static_cast<float>(uniform(key, 2 * i + 1));
  return std::sqrt(-2.0F * std::log(u)) * std::cos(2.0F * std::numbers::pi_v<float> * v);
}

void initial_parameter(const model::ModelSpec& spec, const NamedParameter& parameter,
                       std::uint64_t seed, std::int64_t begin, std::int64_t end, at::Tensor to) {
  const std::string& name = parameter.name;
  at::Tensor flat = to.view({-1}).narrow(0, 0, end - begin);
  const std::uint64_t key = combine(mix(seed), hash(name));
  if (parameter.holds == Holds::adapter_a) {
    const double bound = 1.0 / std::sqrt(static_cast<double>(parameter.shape.back()));
    fill(flat, begin, end, [&](std::int64_t i) {
      return static_cast<float>(bound * (2.0 * uniform(key, static_cast<std::uint64_t>(i)) - 1.0));
    });
    return;
  }
  if (name.find("norm") != std::string::npos) {
    flat.fill_(spec.unit_offset_norm ? 0.0 : 1.0);
    return;
  }
  if (parameter.holds == Holds::adapter_b || name.ends_with(".bias")) {
    flat.zero_();
    return;
  }
  fill(flat, begin, end, [&](std::int64_t i) { return standard_deviation * normal(key, i); });
}

}  // namespace ac_advisor::trainer
