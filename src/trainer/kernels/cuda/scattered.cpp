// Writes at computed places, and the experts' products, by LibTorch.
#include <ATen/ops/_grouped_mm.h>

#include "trainer/kernels/aten/aten.hpp"
#include "trainer/kernels/cuda/cuda.hpp"

namespace ac_advisor::trainer::cuda {

void index_put(const Call& c) {
  if (c.inputs() == 4) return aten::put_in_rows(c);
  const at::Tensor target = c.in(0);
  target.scatter_(0, c.in(1), c.in(2));
  static_cast<void>(c.out());
}

/// How many rows each expert has.
void histc(const Call& c) {
  at::Tensor counts = c.out();
  const std::int64_t experts = counts.numel();
  at::histc_out(counts, c.in(0), experts, 0, experts - 1);
}

/// With labels (the chunked loss): adds each row's entry at its label, and clears the rows that are
/// ignored. With indices (topk's gradient): writes each row's entries at its indices.
void scatter(const Call& c) {
  const at::Tensor y = c.out(), index = c.in(1), what = c.in(2);
  if (c.in(0).data_ptr() != y.data_ptr()) y.copy_(c.in(0));
  if (index.dim() == 2) {
    y.scatter_(-1, index, what);
    return;
  }
  y.scatter_add_(-1, index.clamp_min(0).unsqueeze(-1), what);
  y.masked_fill_(index.eq(ignored_label).unsqueeze(-1), 0.0);
}

/// Rows [begin, end) of expert e times its weight; offsets [E] are the ends.
void grouped_mm(const Call& c) {
  const at::Tensor a = c.in(0), b = c.in(1), offsets = c.in(2);
  const ir::Form form = c.attributes<ir::Product>().form;
  const at::Tensor made = at::_grouped_mm(form == ir::Form::tn ? a.t() : a,
                                          form == ir::Form::nt ? b.transpose(-2, -1) : b, offsets);
  // Its rows begin at multiples of 16 bytes, with gaps between them where they must.
  if (made.is_contiguous() && static_cast<std::int64_t>(made.storage().nbytes()) == c.out_bytes(0))
    c.adopt(0, made);
  else
    c.out().copy_(made);
}

}  // namespace ac_advisor::trainer::cuda
