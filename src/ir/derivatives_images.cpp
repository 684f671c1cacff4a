// Derivatives of what takes images in: patches, and their rows among those of tokens.
#include "derivatives.hpp"

namespace ac_advisor::ir::derive {

void convolution(Derivation& d) {
  // inputs: pixels, which need no gradient, and the weight; the gradient is made contiguous
  if (!d.needs(1)) return;
  const ValueId x = d.in(0), w = d.in(1), g = d.grad();
  const bool in_rows = d.shape(g).rank() == 2;  // of patches that are one image each
  const ValueId dense = in_rows ? g : d.emit(OpKind::clone, {g}, d.shape(g), d.dtype(g));
  const auto patches = static_cast<std::int32_t>(d.shape(g).numel() / d.shape(w)[0]);
  const Product product{patches, Form::tn};
  if (d.inputs() == 2)
    return d.give(
        1, d.emit(OpKind::convolution_backward, {dense, x}, d.shape(w), d.dtype(w), product));
  const ValueId dw = d.make_like(w), db = d.make_like(d.in(2));
  d.emit_raw(OpKind::convolution_backward, {dense, x}, {dw, db}, product);
  d.give(1, dw);
  d.give(2, db);
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
