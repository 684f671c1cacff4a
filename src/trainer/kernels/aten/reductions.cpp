#include "trainer/kernels/aten/aten.hpp"

namespace ac_advisor::trainer::aten {

void mean(const Call& c) {
  at::Tensor y = c.out();
  const at::Tensor x = c.in(0);
  // What at::mean_out does, without its scalar's temporaries.
  at::sum_out(y, x, {-1}, /*keepdim=*/true);
  at::div_out(y, y, number(static_cast<double>(x.size(-1)), y));
}

/// Of each row.
void vector_norm(const Call& c) {
  at::Tensor y = c.out();
  const at::Tensor x = c.in(0);
  at::linalg_vector_norm_out(y, x, 2, at::IntArrayRef{-1}, /*keepdim=*/y.dim() == x.dim());
}

/// To the output's shape, whose sizes are the input's or 1, or as SumOver says.
void sum(const Call& c) {
  at::Tensor x = c.in(0), y = c.out();
  const ir::SumOver over = c.attributes<ir::Sum>().over;
  if (over == ir::SumOver::experts || over == ir::SumOver::choices) {
    at::sum_out(y, x.view({y.size(0), -1, y.size(1)}), {1});
    return;
  }
  if (over == ir::SumOver::groups) {
    at::sum_out(y, x, {2});
    return;
  }
  at::Tensor wide = y;
  while (wide.dim() < x.dim()) wide = wide.unsqueeze(0);
  std::vector<std::int64_t> dims;
  for (std::int64_t d = 0; d < x.dim(); ++d)
    if (wide.size(d) != x.size(d)) dims.push_back(d);
  if (dims.empty())
    wide.copy_(x);
  else
    at::sum_out(wide, x, dims, /*keepdim=*/true);
}

void softmax(const Call& c) {
  at::Tensor y = c.out();
  at::_softmax_out(y, c.in(0), -1, /*half_to_float=*/false);
}

void softmax_backward(const Call& c) {
  at::Tensor dx = c.out();
  at::_softmax_backward_data_out(dx, c.in(0), c.in(1), -1, dx.scalar_type());
}

}  // namespace ac_advisor::trainer::aten
