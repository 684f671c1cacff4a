// Losses over whole logits.
#include "trainer/kernels/aten/aten.hpp"

namespace ac_advisor::trainer::aten {

/// [B, S] of labels to [B, S + 1], the last one ignored.
void pad(const Call& c) {
  const at::Tensor x = c.in(0), y = c.out();
  y.narrow(-1, 0, x.size(-1)).copy_(x);
  y.narrow(-1, x.size(-1), y.size(-1) - x.size(-1)).fill_(ignored_label);
}

void log_softmax(const Call& c) {
  at::Tensor y = c.out();
  at::_log_softmax_out(y, c.in(0), -1, /*half_to_float=*/false);
}

void log_softmax_backward(const Call& c) {
  at::Tensor dx = c.out();
  at::_log_softmax_backward_data_out(dx, c.in(0), c.in(1), -1, dx.scalar_type());
}

void nll_loss(const Call& c) {
  at::Tensor loss = c.out(0), weight = c.out(1);
  const auto reduction = c.attributes<ir::NllLoss>().reduction == ir::Reduction::sum
                             ? at::Reduction::Sum
                             : at::Reduction::Mean;
  at::nll_loss_forward_out(loss, weight, c.in(0), c.in(1).view({-1}), {}, reduction, ignored_label);
}

void nll_loss_backward(const Call& c) {
  // inputs: gradient, log-probabilities, targets, total weight
  at::Tensor dx = c.out();
  at::nll_loss_backward_out(dx, c.in(0), c.in(1), c.in(2).view({-1}), {}, at::Reduction::Mean,
                            ignored_label, c.in(3));
}

void precomputed_grad(const Call& c) { static_cast<void>(c.out()); }

}  // namespace ac_advisor::trainer::aten
