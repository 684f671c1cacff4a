// Masks, and the routing of a mixture of experts.
#include <ATen/ExpandUtils.h>

#include "trainer/kernels/aten/aten.hpp"
#include "trainer/memory_tracker.hpp"

namespace ac_advisor::trainer::aten {

void arange(const Call& c) {
  at::Tensor y = c.out();
  at::arange_out(y, y.numel());
}

void compare(const Call& c) {
  const at::Tensor a = c.in(0), y = c.out();
  const at::Tensor b = c.inputs() > 1 ? c.in(1) : a;
  at::Tensor flat = y.view(at::infer_size(a.sizes(), b.sizes()));
  switch (c.attributes<ir::Compare>().how) {
    case ir::Comparison::not_equal:
      at::ne_out(flat, a, static_cast<std::int64_t>(c.attributes<ir::Compare>().number));
      return;
    case ir::Comparison::less_equal:
      at::le_out(flat, a, b);
      return;
    case ir::Comparison::greater:
      at::gt_out(flat, a, b);
      return;
    case ir::Comparison::both:
      at::logical_and_out(flat, a, b);
      return;
    case ir::Comparison::either:
      at::logical_or_out(flat, a, b);
      return;
    case ir::Comparison::below:
      at::lt_out(flat, a, static_cast<std::int64_t>(c.attributes<ir::Compare>().number));
      return;
    case ir::Comparison::at_least:
      at::ge_out(flat, a, static_cast<std::int64_t>(c.attributes<ir::Compare>().number));
      return;
    case ir::Comparison::equal:
      at::eq_out(flat, a, b);
      return;
  }
}

/// inputs: which positions may be seen, what is added there, what is added elsewhere; or rows, and
/// which of them are cleared
void masked_fill(const Call& c) {
  at::Tensor y = c.out();
  if (c.inputs() == 2) {
    const MemoryTracker::Scope outside(nullptr);  // a kernel reads the mask as it is
    if (c.in(0).data_ptr() != y.data_ptr()) y.copy_(c.in(0));
    y.masked_fill_(c.in(1).view(at::kBool).expand_as(y), 0);
    return;
  }
  const at::Tensor allowed = c.in(0).view(at::kBool);
  at::where_out(y, allowed.numel() == y.numel() ? allowed.view(y.sizes()) : allowed.expand_as(y),
                c.in(1), c.in(2));
}

void cumsum(const Call& c) {
  at::Tensor y = c.out();
  at::cumsum_out(y, c.in(0), -1, y.scalar_type());
}

void topk(const Call& c) {
  at::Tensor values = c.out(0), indices = c.out(1);
  if (c.attributes<ir::TopK>().in_turn) {
    at::Tensor flat = indices.view({-1});
    at::arange_out(flat, flat.numel());
    flat.remainder_(c.in(0).size(-1));
    at::gather_out(values, c.in(0), -1, indices);
    return;
  }
  at::topk_out(values, indices, c.in(0), c.attributes<ir::TopK>().k, -1);
}

/// inputs: how often each entry stands, and the sums of these up to it
void repeat_interleave(const Call& c) {
  const at::Tensor places = c.out(), times = c.in(0);
  const auto counts = times.accessor<std::int64_t, 1>();
  auto to = places.accessor<std::int64_t, 1>();
  std::int64_t at = 0;
  for (std::int64_t i = 0; i < counts.size(0); ++i)
    for (std::int64_t k = 0; k < counts[i]; ++k) to[at++] = i;
}

void sort(const Call& c) {
  at::Tensor values = c.out(0), order = c.out(1);
  at::sort_out(values, order, c.in(0), std::optional<bool>(true), -1, /*descending=*/false);
}

void floor_divide(const Call& c) {
  at::Tensor y = c.out();
  y.copy_(c.in(0));
  y.floor_divide_(c.attributes<ir::FloorDivide>().divisor);
}

}  // namespace ac_advisor::trainer::aten
