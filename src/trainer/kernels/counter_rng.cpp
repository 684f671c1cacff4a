#include "trainer/kernels/counter_rng.hpp"

#include <ATen/Parallel.h>

namespace ac_advisor::trainer {
namespace {

template <typename T>
void drop(T* data, std::int64_t n, double p, float scale, std::uint64_t key) {
  at::parallel_for(0, n, 4096, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const bool dropped = uniform(key, static_cast<std::uint64_t>(i)) < p;
      data[i] = dropped ? T(0) : static_cast<T>(static_cast<float>(data[i]) * scale);
    }
  });
}

}  // namespace

void apply_dropout(at::Tensor& x, double p, double scale, std::uint64_t key) {
  TORCH_INTERNAL_ASSERT(x.is_contiguous(), "dropout works on contiguous scores");
  const auto factor = static_cast<float>(scale);
  if (x.scalar_type() == at::kFloat)
    drop(x.mutable_data_ptr<float>(), x.numel(), p, factor, key);
  else if (x.scalar_type() == at::kBFloat16)
    drop(x.mutable_data_ptr<at::BFloat16>(), x.numel(), p, factor, key);
  else
    drop(x.mutable_data_ptr<std::uint8_t>(), x.numel(), p, factor, key);
}

}  // namespace ac_advisor::trainer
