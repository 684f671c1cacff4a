#include "trainer/kernels/cuda/device/bodies/loss.hpp"

#include "trainer/kernels/cuda/device/cuda/block.cuh"
#include "trainer/kernels/cuda/device/cuda/launch.cuh"

namespace ac_advisor::trainer::cuda::device {
namespace {

template <int N>
__global__ void __launch_bounds__(loss_threads)
    loss_forward_kernel(const __grid_constant__ LossTile tile, float* log_sum_exp,
                        float* target_logit) {
  __shared__ Threads::Scratch scratch;
  Threads block(loss_threads, scratch);
  loss_row<N>(block, tile, log_sum_exp, target_logit, blockIdx.x);
}

template <class T>
__global__ void __launch_bounds__(loss_mean_threads)
    loss_mean_kernel(const float* log_sum_exp, const float* target_logit,
                     const std::int64_t* targets, std::int64_t tokens, void* loss) {
  __shared__ Threads::Scratch scratch;
  Threads block(loss_mean_threads, scratch);
  loss_mean_of(block, log_sum_exp, target_logit, targets, tokens, static_cast<T*>(loss));
}

template <class T>
__global__ void __launch_bounds__(loss_mean_threads)
    loss_scale_kernel(const void* gradient, const std::int64_t* targets, std::int64_t tokens,
                      float* scale) {
  __shared__ Threads::Scratch scratch;
  Threads block(loss_mean_threads, scratch);
  loss_scale_of(block, static_cast<const T*>(gradient), targets, tokens, scale);
}

template <class Form>
__global__ void __launch_bounds__(loss_threads)
    loss_backward_kernel(const __grid_constant__ LossTile tile, const float* log_sum_exp,
                         const float* scale, void* gradient) {
  __shared__ Threads::Scratch scratch;
  Threads block(loss_threads, scratch);
  loss_gradient_row<Form>(block, tile, log_sum_exp, scale,
                          static_cast<typename Form::Number*>(gradient), blockIdx.x);
}

}  // namespace

void loss_forward(const LossTile& tile, float* log_sum_exp, float* target_logit, Stream stream) {
  require_tile(tile);
  if (tile.tokens == 0) return;
  launch("loss_forward", tile_aligned(tile, 4) ? loss_forward_kernel<4> : loss_forward_kernel<1>,
         blocks(tile.tokens), loss_threads, stream, tile, log_sum_exp, target_logit);
}

void loss_mean(const float* log_sum_exp, const float* target_logit, const std::int64_t* targets,
               std::int64_t tokens, void* loss, Element loss_type, Stream stream) {
  launch("loss_mean", loss_type == Element::f32 ? loss_mean_kernel<float> : loss_mean_kernel<Bf16>,
         blocks(1), loss_mean_threads, stream, log_sum_exp, target_logit, targets, tokens, loss);
}

void loss_scale(const void* gradient, Element gradient_type, const std::int64_t* targets,
                std::int64_t tokens, float* scale, Stream stream) {
  launch("loss_scale",
         gradient_type == Element::f32 ? loss_scale_kernel<float> : loss_scale_kernel<Bf16>,
         blocks(1), loss_mean_threads, stream, gradient, targets, tokens, scale);
}

void loss_backward(const LossTile& tile, const float* log_sum_exp, const float* scale,
                   void* gradient, Element type, Stream stream) {
  require_tile(tile);
  if (tile.tokens == 0) return;
  const bool wide = tile_aligned(tile, numbers_of(type)) && aligned(gradient);
  with_pointwise_form<loss_backward_kept>(type, wide, [&](auto form) {
    launch("loss_backward", loss_backward_kernel<decltype(form)>, blocks(tile.tokens), loss_threads,
           stream, tile, log_sum_exp, scale, gradient);
  });
}

}  // namespace ac_advisor::trainer::cuda::device
