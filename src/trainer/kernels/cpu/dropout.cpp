// Dropout by a counter-based generator: a recomputed forward drops the same elements.
#include "trainer/kernels/counter_rng.hpp"
#include "trainer/kernels/cpu/cpu.hpp"

namespace ac_advisor::trainer::cpu {

void dropout(const Call& c) {
  const at::Tensor x = c.in(0);
  at::Tensor y = c.out();
  y.copy_(x);
  if (c.outputs() > 1) {
    at::Tensor mask = c.out(1);
    mask.fill_(1);
    apply_dropout(mask, c.attributes<ir::Dropout>().probability, 1.0, c.dropout_key());
  }
  apply_dropout(y, c.attributes<ir::Dropout>().probability,
                1.0 / (1.0 - c.attributes<ir::Dropout>().probability), c.dropout_key());
}

void dropout_backward(const Call& c) {
  at::Tensor dx = c.out();
  dx.copy_(c.in(0));
  apply_dropout(dx, c.attributes<ir::Dropout>().probability,
                1.0 / (1.0 - c.attributes<ir::Dropout>().probability), c.dropout_key());
}

}  // namespace ac_advisor::trainer::cpu
