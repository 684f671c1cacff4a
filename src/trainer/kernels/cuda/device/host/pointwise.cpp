#include "trainer/kernels/cuda/device/bodies/dropout.hpp"
#include "trainer/kernels/cuda/device/bodies/rope.hpp"
#include "trainer/kernels/cuda/device/bodies/swiglu.hpp"
#include "trainer/kernels/cuda/device/host/block.hpp"

namespace ac_advisor::trainer::cuda::device {

void rope(const Rope& q, const Rope& k, Stream) {
  require_rope(q, k);
  const std::int64_t tokens = q.rows > 0 ? q.tokens : k.rows > 0 ? k.tokens : 0;
  with_pointwise_form<1>(q.type, rope_aligned(q) && rope_aligned(k), [&](auto form) {
    for (std::int64_t token = 0; token < tokens; ++token) {
      Threads block(rope_threads);
      rope_token<decltype(form)>(block, q, k, token, 0, 1);
    }
  });
}

void swiglu(const Swiglu& c, Stream) {
  require_rows(c.rows, c.columns, "swiglu");
  with_pointwise_form<swiglu_kept>(c.type, swiglu_aligned(c), [&](auto form) {
    Threads block(swiglu_threads<decltype(form)>(c.columns));
    for (std::int64_t row = 0; row < c.rows; ++row) swiglu_row<decltype(form)>(block, c, row);
  });
}

void swiglu_backward(const SwigluBackward& c, Stream) {
  require_rows(c.rows, c.columns, "swiglu_backward");
  with_pointwise_form<swiglu_backward_kept>(c.type, swiglu_aligned(c), [&](auto form) {
    Threads block(swiglu_threads<decltype(form)>(c.columns));
    for (std::int64_t row = 0; row < c.rows; ++row)
      swiglu_backward_row<decltype(form)>(block, c, row);
  });
}

void dropout(const Dropout& c, Stream) {
  with_pointwise_form<dropout_kept>(c.type, aligned(c.from) && aligned(c.data), [&](auto form) {
    Threads block(dropout_threads);
    for (std::int64_t tile = 0; tile < dropout_tiles<decltype(form)>(c.elements); ++tile)
      dropout_tile<decltype(form)>(block, c, dropped_below(c.p), tile);
  });
}

}  // namespace ac_advisor::trainer::cuda::device
