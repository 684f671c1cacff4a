// Masks, and the routing of a mixture of experts.
#include <ATen/ExpandUtils.h>

#include "trainer/kernels/aten/aten.hpp"

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

/// inputs: which positions may be seen, what is added there, what is added elsewhere
void masked_fill(const Call& c) {
  at::Tensor y = c.out();
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
  at::topk_out(values, indices, c.in(0), c.attributes<ir::TopK>().k, -1);
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
