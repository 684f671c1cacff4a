// Lookups: rows by index, and the rows' gradients added back.
#include "trainer/executor.hpp"
#include "trainer/kernels/aten/aten.hpp"

namespace ac_advisor::trainer::aten {

void embedding(const Call& c) {
  at::Tensor y = c.out().view({-1, c.out_value(0).shape.back()});
  const auto [ranks, rank] = c.attributes<ir::Embedding>();
  at::Tensor rows = c.in(1).view({-1});
  if (ranks > 1) {  // rows of other ranks are looked up anywhere, and made zero by the next op
    const MemoryTracker::Scope outside(nullptr);
    const std::int64_t count = c.in(0).size(0);
    rows = (rows - rank * count).clamp(0, count - 1);
  }
  at::index_select_out(y, c.in(0), 0, rows);
}

void embedding_backward(const Call& c) {
  const std::int64_t rows = c.out_value(0).shape[0];
  c.adopt(0, at::embedding_dense_backward(c.in(0), c.in(1), rows, /*padding_idx=*/-1,
                                          /*scale_grad_by_freq=*/false));
}

/// Rows by number; or of each token, by its sequence's number, what a mask is made of.
void index(const Call& c) {
  const at::Tensor x = c.in(0), which = c.in(1);
  at::Tensor y = c.out();
  if (which.dim() == 1) {
    at::index_select_out(y, x, 0, which);
    return;
  }
  const at::Tensor rows = x.view({-1, x.size(-1)});
  at::Tensor flat = y.view(rows.sizes());
  at::gather_out(flat, rows, 0, which.view(rows.sizes()));
}

/// inputs: zeros like the source, index, gradient of the gathered rows
void index_backward(const Call& c) {
  const at::Tensor dx = c.out();
  if (c.in(0).data_ptr() != dx.data_ptr()) dx.copy_(c.in(0));
  dx.index_add_(0, c.in(1), c.in(2));
}

}  // namespace ac_advisor::trainer::aten
