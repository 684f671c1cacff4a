// act(gate) * up in one launch (Shazeer 2020); act is SiLU, or GELU's tanh form where dim is 1. The
// gradients overwrite gate and up.
#include <ATen/Parallel.h>

#include "trainer/kernels/cpu/cpu.hpp"
#include "trainer/kernels/cpu/rows.hpp"

namespace ac_advisor::trainer::cpu {

void swiglu(const Call& c) {
  const at::Tensor gate = c.in(0), up = c.in(1), y = c.out();
  const std::int64_t n = gate.size(-1);
  const RowOffsets gate_row(gate), up_row(up), y_row(y);
  const auto combine = c.attributes<ir::SwiGlu>().gate == ir::Gate::gelu_tanh ? gelu_mul : silu_mul;
  at::parallel_for(0, gate_row.rows(), 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      float* out = target(y, y_row(r), thread_scratch(n, 2));
      combine(load(gate, gate_row(r), thread_scratch(n, 0), n),
              load(up, up_row(r), thread_scratch(n, 1), n), out, n);
      store(y, y_row(r), out, n);
    }
  });
}

void swiglu_backward(const Call& c) {
  const at::Tensor g = c.in(0), gate = c.in(1), up = c.in(2), dgate = c.out(0), dup = c.out(1);
  const std::int64_t n = gate.size(-1);
  const RowOffsets g_row(g), gate_row(gate), up_row(up), dgate_row(dgate), dup_row(dup);
  const auto combine = c.attributes<ir::SwiGlu>().gate == ir::Gate::gelu_tanh ? gelu_mul_gradient
                                                                              : silu_mul_gradient;
  at::parallel_for(0, gate_row.rows(), 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      float* into_gate = target(dgate, dgate_row(r), thread_scratch(n, 3));
      float* into_up = target(dup, dup_row(r), thread_scratch(n, 4));
      combine(load(g, g_row(r), thread_scratch(n, 0), n),
              load(gate, gate_row(r), thread_scratch(n, 1), n),
              load(up, up_row(r), thread_scratch(n, 2), n), into_gate, into_up, n);
      store(dgate, dgate_row(r), into_gate, n);
      store(dup, dup_row(r), into_up, n);
    }
  });
}

}  // namespace ac_advisor::trainer::cpu
