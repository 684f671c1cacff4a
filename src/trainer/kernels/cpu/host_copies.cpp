// What autograd saves, to the host and back (--offload activations): the device is the host itself,
// so both are copies to memory that is counted apart.
#include "trainer/executor.hpp"
#include "trainer/kernels/cpu/cpu.hpp"

namespace ac_advisor::trainer::cpu {

/// inputs: what is copied, and where that is a contiguous copy, of which value
void copy_to_host(const Call& c) {
  Executor& executor = c.executor();
  executor.host().keep(executor.current(), c.in(0));
}

/// What comes back lies as the tensor did that the saved one is a view of.
void copy_from_host(const Call& c) {
  Executor& executor = c.executor();
  const ir::Op& sent = c.program().op(c.op().forward);
  const at::Tensor whole = c.out(), copy = executor.host().take(c.op().forward);
  if (sent.inputs > 1)
    executor.seen_as(c.program().input(sent, 1), whole).copy_(copy);
  else
    whole.copy_(copy);
}

}  // namespace ac_advisor::trainer::cpu
