#include "trainer/kernels/cuda/device/bodies/dropout.hpp"
#include "trainer/kernels/cuda/device/bodies/rope.hpp"
#include "trainer/kernels/cuda/device/bodies/swiglu.hpp"
#include "trainer/kernels/cuda/device/cuda/block.cuh"
#include "trainer/kernels/cuda/device/cuda/launch.cuh"

namespace ac_advisor::trainer::cuda::device {
namespace {

template <class Form>
__global__ void __launch_bounds__(rope_threads)
    rope_kernel(const __grid_constant__ Rope q, const __grid_constant__ Rope k) {
  __shared__ Threads::Scratch scratch;
  Threads block(rope_threads, scratch);
  rope_token<Form>(block, q, k, blockIdx.x, static_cast<int>(blockIdx.y),
                   static_cast<int>(gridDim.y));
}

template <class Form>
__global__ void __launch_bounds__(256) swiglu_kernel(const __grid_constant__ Swiglu c) {
  __shared__ Threads::Scratch scratch;
  Threads block(static_cast<int>(blockDim.x), scratch);
  swiglu_row<Form>(block, c, blockIdx.x);
}

template <class Form>
__global__ void __launch_bounds__(256)
    swiglu_backward_kernel(const __grid_constant__ SwigluBackward c) {
  __shared__ Threads::Scratch scratch;
  Threads block(static_cast<int>(blockDim.x), scratch);
  swiglu_backward_row<Form>(block, c, blockIdx.x);
}

template <class Form>
__global__ void __launch_bounds__(dropout_threads)
    dropout_kernel(const __grid_constant__ Dropout c, std::uint64_t below) {
  __shared__ Threads::Scratch scratch;
  Threads block(dropout_threads, scratch);
  dropout_tile<Form>(block, c, below, blockIdx.x);
}

}  // namespace

void rope(const Rope& q, const Rope& k, Stream stream) {
  require_rope(q, k);
  if (q.rows + k.rows == 0) return;
  with_pointwise_form<1>(q.type, rope_aligned(q) && rope_aligned(k), [&](auto form) {
    const std::int64_t tokens = q.rows > 0 ? q.tokens : k.tokens,
                       items = rope_items<form.numbers>(q) + rope_items<form.numbers>(k);
    const std::int64_t parts = std::min<std::int64_t>(ceil_div(items, 4 * rope_threads), 65535);
    launch("rope", rope_kernel<decltype(form)>,
           {static_cast<unsigned>(tokens), static_cast<unsigned>(parts)}, rope_threads, stream, q,
           k);
  });
}

void swiglu(const Swiglu& c, Stream stream) {
  require_rows(c.rows, c.columns, "swiglu");
  if (c.rows == 0) return;
  with_pointwise_form<swiglu_kept>(c.type, swiglu_aligned(c), [&](auto form) {
    launch("swiglu", swiglu_kernel<decltype(form)>, blocks(c.rows),
           swiglu_threads<decltype(form)>(c.columns), stream, c);
  });
}

void swiglu_backward(const SwigluBackward& c, Stream stream) {
  require_rows(c.rows, c.columns, "swiglu_backward");
  if (c.rows == 0) return;
  with_pointwise_form<swiglu_backward_kept>(c.type, swiglu_aligned(c), [&](auto form) {
    launch("swiglu_backward", swiglu_backward_kernel<decltype(form)>, blocks(c.rows),
           swiglu_threads<decltype(form)>(c.columns), stream, c);
  });
}

void dropout(const Dropout& c, Stream stream) {
  if (c.elements == 0) return;
  with_pointwise_form<dropout_kept>(c.type, aligned(c.from) && aligned(c.data), [&](auto form) {
    launch("dropout", dropout_kernel<decltype(form)>,
           blocks(dropout_tiles<decltype(form)>(c.elements)), dropout_threads, stream, c,
           dropped_below(c.p));
  });
}

}  // namespace ac_advisor::trainer::cuda::device
