// What communication hooks do to gradients: PowerSGD's factors (torch/distributed/algorithms/
// ddp_comm_hooks/powerSGD_hook.py, PyTorch v2.11), and elements at indices.
#include <ATen/Dispatch.h>

#include <cmath>

#include "trainer/kernels/cpu/cpu.hpp"

namespace ac_advisor::trainer::cpu {
namespace {

/// f(data of the tensor's type)
template <typename F>
void dispatch(const at::Tensor& tensor, F f) {
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, tensor.scalar_type(), "compression",
                                  [&] { f(tensor.mutable_data_ptr<scalar_t>()); });
}

}  // namespace

/// [n, columns] in place (_orthogonalize_gram_schmidt): each column to length 1, then out of those
/// that follow it. A column of zeros stays one, where PyTorch's becomes NaN.
void orthogonalize(const Call& c) {
  const at::Tensor matrix = c.in(0);
  const std::int64_t n = matrix.size(0), columns = matrix.size(1);
  dispatch(matrix, [&](auto* data) {
    using T = std::remove_pointer_t<decltype(data)>;
    const auto at = [&](std::int64_t row, std::int64_t column) -> T& {
      return data[row * columns + column];
    };
    const auto narrowed = [](double x) { return static_cast<T>(static_cast<float>(x)); };
    const auto dot = [&](std::int64_t a, std::int64_t b) {
      double sum = 0;
      for (std::int64_t r = 0; r < n; ++r)
        sum += static_cast<double>(at(r, a)) * static_cast<double>(at(r, b));
      return sum;
    };
    for (std::int64_t i = 0; i < columns; ++i) {
      const double length = std::sqrt(dot(i, i));
      if (length == 0) continue;
      for (std::int64_t r = 0; r < n; ++r)
        at(r, i) = narrowed(static_cast<double>(at(r, i)) / length);
      for (std::int64_t k = i + 1; k < columns; ++k) {
        const double part = dot(i, k);
        for (std::int64_t r = 0; r < n; ++r)
          at(r, k) = narrowed(static_cast<double>(at(r, k)) - part * static_cast<double>(at(r, i)));
      }
    }
  });
}

void index_fill(const Call& c) {
  const at::Tensor target = c.in(0), index = c.in(1);
  const auto* where = index.const_data_ptr<std::int64_t>();
  dispatch(target, [&](auto* data) {
    for (std::int64_t i = 0; i < index.numel(); ++i) data[where[i]] = {};
  });
}

void index_add(const Call& c) {
  const at::Tensor target = c.in(0), index = c.in(1), values = c.in(2);
  const auto* where = index.const_data_ptr<std::int64_t>();
  const auto add = [&](auto* data) {
    const auto* what = static_cast<decltype(data)>(values.mutable_data_ptr());
    for (std::int64_t i = 0; i < index.numel(); ++i) data[where[i]] += what[i];
  };
  if (target.scalar_type() == at::kLong)  // of how many rows experts have
    add(target.mutable_data_ptr<std::int64_t>());
  else
    dispatch(target, add);
}

}  // namespace ac_advisor::trainer::cpu
