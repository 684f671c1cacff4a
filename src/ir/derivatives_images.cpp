// Derivatives of what takes images in: patches, and their rows among those of tokens.
#include "derivatives.hpp"

namespace ac_advisor::ir::derive {

void convolution(Derivation& d) {
  // inputs: pixels, which need no gradient, and the weight; the gradient is made contiguous
  if (!d.needs(1)) return;
  const ValueId x = d.in(0), w = d.in(1), g = d.grad();
  const ValueId dense = d.emit(OpKind::clone, {g}, d.shape(g), d.dtype(g));
  const auto patches = static_cast<std::int32_t>(d.shape(g).numel() / d.shape(w)[0]);
  d.give(1, d.emit(OpKind::convolution_backward, {dense, x}, d.shape(w), d.dtype(w),
                   Product{patches, Form::tn}));
}

void masked_scatter(Derivation& d) {
  // inputs: self, mask, source; masked_fill is a clone, filled in place
  const ValueId mask = d.in(1), g = d.grad();
  if (d.needs(0)) {
    const ValueId copy = d.emit(OpKind::clone, {g}, d.shape(g), d.dtype(g));
    const ValueId cleared = d.overwrite(copy);
    d.emit_raw(OpKind::masked_fill, {copy, mask}, {cleared});
    d.give(0, cleared);
  }
  if (d.needs(2))
    d.give(2, d.emit(OpKind::masked_select, {g, mask}, d.shape(d.in(2)), d.dtype(d.in(2))));
}

}  // namespace ac_advisor::ir::derive
