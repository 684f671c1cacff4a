// Views, and what joins and pads them.
#include <algorithm>

#include "trainer/kernels/aten/aten.hpp"

namespace ac_advisor::trainer::aten {

void nothing(const Call&) {}

void empty(const Call& c) { static_cast<void>(c.out()); }

/// [B, S, heads x D] seen as [B, heads, S, D], [B, S, H] as rows, or the same shape again.
void view(const Call& c) {
  const at::Tensor x = c.in(0);
  const ir::Value& to = c.out_value(0);
  if (x.dim() == static_cast<std::int64_t>(to.shape.rank())) {
    c.set_view(0, x);
    return;
  }
  if (!to.permuted || to.shape.rank() != 4) {
    const auto sizes = to.shape.sizes();
    c.set_view(0, x.view(at::IntArrayRef(sizes.data(), sizes.size())));
    return;
  }
  c.set_view(0, x.view({to.shape[0], to.shape[2], to.shape[1], to.shape[3]}).transpose(1, 2));
}

void slice(const Call& c) {
  c.set_view(0, c.in(0).narrow(-1, c.attributes<ir::Slice>().start, c.out_value(0).shape.back()));
}

void slice_backward(const Call& c) {
  const at::Tensor dx = c.out(), g = c.in(0);
  dx.zero_();
  dx.narrow(-1, c.attributes<ir::Slice>().start, g.size(-1)).copy_(g);
}

void split(const Call& c) {
  const at::Tensor x = c.in(0);
  std::int64_t start = 0;
  for (std::size_t i = 0; i < c.outputs(); ++i) {
    const std::int64_t size = c.out_value(i).shape.back();
    c.set_view(i, x.narrow(-1, start, size));
    start += size;
  }
}

/// [B, kv, S, D] → [B, kv, groups, S, D]
void expand(const Call& c) {
  const auto sizes = c.out_value(0).shape.sizes();
  c.set_view(0, c.in(0).unsqueeze(2).expand(at::IntArrayRef(sizes.data(), sizes.size())));
}

/// Along the one dimension in which what is joined is smaller than what it makes.
void cat(const Call& c) {
  at::Tensor y = c.out();
  const at::Tensor first = c.in(0);
  const std::int64_t dims = std::min(first.dim(), y.dim());
  std::int64_t dim = -1;  // from the end: operands may lack sizes of one
  while (-dim < dims && first.size(dim) == y.size(dim)) --dim;
  if (first.size(dim) == y.size(dim)) dim = -1;
  std::int64_t start = 0;
  for (std::size_t i = 0; i < c.inputs(); ++i) {
    const at::Tensor x = c.in(i);
    y.narrow(dim, start, x.size(dim)).copy_(x);
    start += x.size(dim);
  }
}

}  // namespace ac_advisor::trainer::aten
