#include "trainer/kernels/cuda/device/bodies/loss.hpp"

#include "trainer/kernels/cuda/device/host/block.hpp"

namespace ac_advisor::trainer::cuda::device {

void loss_forward(const LossTile& tile, float* log_sum_exp, float* target_logit, Stream) {
  require_tile(tile);
  const bool wide = tile_aligned(tile, 4);
  for (std::int64_t token = 0; token < tile.tokens; ++token) {
    Threads block(loss_threads);
    if (wide)
      loss_row<4>(block, tile, log_sum_exp, target_logit, token);
    else
      loss_row<1>(block, tile, log_sum_exp, target_logit, token);
  }
}

void loss_mean(const float* log_sum_exp, const float* target_logit, const std::int64_t* targets,
               std::int64_t tokens, void* loss, Element loss_type, Stream) {
  Threads block(loss_mean_threads);
  if (loss_type == Element::f32)
    loss_mean_of(block, log_sum_exp, target_logit, targets, tokens, static_cast<float*>(loss));
  else
    loss_mean_of(block, log_sum_exp, target_logit, targets, tokens, static_cast<Bf16*>(loss));
}

void loss_scale(const void* gradient, Element gradient_type, const std::int64_t* targets,
                std::int64_t tokens, float* scale, Stream) {
  Threads block(loss_mean_threads);
  if (gradient_type == Element::f32)
    loss_scale_of(block, static_cast<const float*>(gradient), targets, tokens, scale);
  else
    loss_scale_of(block, static_cast<const Bf16*>(gradient), targets, tokens, scale);
}

void loss_backward(const LossTile& tile, const float* log_sum_exp, const float* scale,
                   void* gradient, Element type, Stream) {
  require_tile(tile);
  const bool wide = tile_aligned(tile, numbers_of(type)) && aligned(gradient);
  with_pointwise_form<loss_backward_kept>(type, wide, [&](auto form) {
    using Number = typename decltype(form)::Number;
    for (std::int64_t token = 0; token < tile.tokens; ++token) {
      Threads block(loss_threads);
      loss_gradient_row<decltype(form)>(block, tile, log_sum_exp, scale,
                                        static_cast<Number*>(gradient), token);
    }
  });
}

}  // namespace ac_advisor::trainer::cuda::device
