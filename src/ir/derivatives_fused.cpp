// Derivatives of the fused kernels: they save less, and write their gradients in place
// (LinkedIn Liger-Kernel's rms_norm.py, rope.py and swiglu.py work the same way).
#include "derivatives.hpp"

namespace ac_advisor::ir::derive {

void rms_norm(Derivation& d) {
  // inputs: x, weight; outputs: y, 1/rms per row. dx overwrites dy, unless a residual needs it too
  // (Gemma's norms before the addition; Liger's rms_norm has in_place=False for them).
  const ValueId x = d.in(0), w = d.in(1), g = d.grad();
  const ValueId dx = d.overwrite_incoming(0);
  const ValueId dw = d.make(d.shape(w), d.dtype(w));
  d.emit_raw(OpKind::rms_norm_backward, {g, x, w, d.out(1)}, {dx, dw}, d.attributes<RmsNorm>());
  d.give(0, dx);
  d.give(1, dw);
}

void add_rms_norm(Derivation& d) {
  // inputs: residual, x, weight; outputs: y, 1/rms, residual + x. The sum's own gradient, if any,
  // is added in the same launch.
  const ValueId w = d.in(2), g = d.grad(0), sum = d.out(2);
  const ValueId dx = d.overwrite_incoming(0);
  const ValueId dw = d.make(d.shape(w), d.dtype(w));
  if (d.grad(2) != no_id)
    d.emit_raw(OpKind::add_rms_norm_backward, {g, sum, w, d.out(1), d.grad(2)}, {dx, dw},
               d.attributes<RmsNorm>());
  else
    d.emit_raw(OpKind::rms_norm_backward, {g, sum, w, d.out(1)}, {dx, dw}, d.attributes<RmsNorm>());
  d.give(0, dx);
  d.give(1, dx);
  d.give(2, dw);
}

void rope(Derivation& d) {
  // inputs: q, k, cos, sin; outputs: q and k rotated in place. Backward rotates back, in place.
  const ValueId gq = d.grad(0), gk = d.grad(1);
  const ValueId dq = d.overwrite_incoming(0), dk = d.overwrite_incoming(1);
  d.emit_raw(OpKind::rope_backward, {gq, gk, d.in(2), d.in(3)}, {dq, dk});
  d.give(0, dq);
  d.give(1, dk);
}

void swiglu(Derivation& d) {
  // inputs: gate, up; output: act(gate) * up. Their gradients overwrite gate and up.
  const ValueId gate = d.in(0), up = d.in(1);
  const ValueId dgate = d.overwrite(gate), dup = d.overwrite(up);
  d.emit_raw(OpKind::swiglu_backward, {d.grad(), gate, up}, {dgate, dup}, d.attributes<SwiGlu>());
  d.give(0, dgate);
  d.give(1, dup);
}

}  // namespace ac_advisor::ir::derive
