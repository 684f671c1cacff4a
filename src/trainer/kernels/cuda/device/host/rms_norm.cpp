#include "trainer/kernels/cuda/device/bodies/rms_norm.hpp"

#include <algorithm>

#include "trainer/kernels/cuda/device/host/block.hpp"

namespace ac_advisor::trainer::cuda::device {

void rms_norm(const NormForward& c, Stream) {
  require_rows(c.rows, c.columns, "rms_norm");
  const Shape shape = norm_shape(c);
  with_form(c.type, shape, [&](auto form) {
    for (std::int64_t row = 0; row < c.rows; ++row) {
      Threads block(shape.threads);
      norm_row<decltype(form)>(block, c, row);
    }
  });
}

void rms_norm_backward(const NormBackward& c, Stream) {
  require_rows(c.rows, c.columns, "rms_norm_backward");
  require(c.partial_rows > 0, "rms_norm_backward", "there are no partial rows");
  const Shape shape = norm_shape(c);
  const std::int64_t workers = std::min(c.partial_rows, c.rows);
  with_form(c.type, shape, [&](auto form) {
    for (std::int64_t worker = 0; worker < workers; ++worker) {
      Threads block(shape.threads);
      norm_backward_rows<decltype(form)>(block, c, worker, workers);
    }
  });
  for (std::int64_t tile = 0; tile * sum_columns < c.columns; ++tile) {
    Threads block(sum_columns * sum_groups);
    if (c.type == Element::f32)
      norm_weight_columns<float>(block, c, workers, tile);
    else
      norm_weight_columns<Bf16>(block, c, workers, tile);
  }
}

}  // namespace ac_advisor::trainer::cuda::device
