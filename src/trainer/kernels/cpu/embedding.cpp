// Lookups: rows by index, and the rows' gradients added back.
#include "trainer/kernels/cpu/cpu.hpp"

namespace ac_advisor::trainer::cpu {

void embedding(const Call& c) {
  at::Tensor y = c.out().view({-1, c.out_value(0).shape.back()});
  at::index_select_out(y, c.in(0), 0, c.in(1).view({-1}));
}

void embedding_backward(const Call& c) {
  const std::int64_t rows = c.out_value(0).shape[0];
  c.adopt(0, at::embedding_dense_backward(c.in(0), c.in(1), rows, /*padding_idx=*/-1,
                                          /*scale_grad_by_freq=*/false));
}

void index(const Call& c) {
  at::Tensor y = c.out();
  at::index_select_out(y, c.in(0), 0, c.in(1));
}

void index_put(const Call& c) {
  const at::Tensor target = c.in(0), index = c.in(1), values = c.in(2);
  const auto where = index.accessor<std::int64_t, 1>(), what = values.accessor<std::int64_t, 1>();
  auto out = target.accessor<std::int64_t, 1>();
  for (std::int64_t i = 0; i < index.size(0); ++i) out[where[i]] = what[i];
  static_cast<void>(c.out());
}

/// inputs: zeros like the source, index, gradient of the gathered rows
void index_backward(const Call& c) {
  const at::Tensor dx = c.out();
  if (c.in(0).data_ptr() != dx.data_ptr()) dx.copy_(c.in(0));
  dx.index_add_(0, c.in(1), c.in(2));
}

}  // namespace ac_advisor::trainer::cpu
