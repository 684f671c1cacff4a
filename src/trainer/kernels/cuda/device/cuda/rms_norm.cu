#include "trainer/kernels/cuda/device/bodies/rms_norm.hpp"

#include "trainer/kernels/cuda/device/cuda/block.cuh"
#include "trainer/kernels/cuda/device/cuda/launch.cuh"

namespace ac_advisor::trainer::cuda::device {
namespace {

constexpr int small_rows_threads = 256;  // of a block that has several rows

template <class Form>
__global__ void __launch_bounds__(most_threads)
    norm_kernel(const __grid_constant__ NormForward c, int threads) {
  __shared__ Threads::Scratch scratch;
  Threads block(threads, scratch);
  const std::int64_t row =
      (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / threads;
  if (row < c.rows) norm_row<Form>(block, c, row);
}

template <class Form>
__global__ void __launch_bounds__(most_threads)
    norm_backward_kernel(const __grid_constant__ NormBackward c, int threads,
                         std::int64_t workers) {
  __shared__ Threads::Scratch scratch;
  Threads block(threads, scratch);
  const std::int64_t worker =
      (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / threads;
  if (worker < workers) norm_backward_rows<Form>(block, c, worker, workers);
}

template <class T>
__global__ void __launch_bounds__(most_threads)
    norm_weight_kernel(const __grid_constant__ NormBackward c, std::int64_t workers) {
  __shared__ Threads::Scratch scratch;
  __shared__ float shared[sum_columns * sum_groups];
  Threads block(sum_columns * sum_groups, scratch, shared);
  norm_weight_columns<T>(block, c, workers, blockIdx.x);
}

/// Rows that a block of several threads a row has: more than one where they fit in a warp.
int rows_per_block(int threads) { return threads <= 32 ? small_rows_threads / threads : 1; }

}  // namespace

void rms_norm(const NormForward& c, Stream stream) {
  require_rows(c.rows, c.columns, "rms_norm");
  if (c.rows == 0) return;
  const Shape shape = norm_shape(c);
  const int rows = rows_per_block(shape.threads);
  with_form(c.type, shape, [&](auto form) {
    launch("rms_norm", norm_kernel<decltype(form)>, blocks(ceil_div(c.rows, rows)),
           rows * shape.threads, stream, c, shape.threads);
  });
}

void rms_norm_backward(const NormBackward& c, Stream stream) {
  require_rows(c.rows, c.columns, "rms_norm_backward");
  require(c.partial_rows > 0, "rms_norm_backward", "there are no partial rows");
  const Shape shape = norm_shape(c);
  const int rows = rows_per_block(shape.threads);
  std::int64_t workers = std::min(c.partial_rows, c.rows);
  if (workers > 0)
    with_form(c.type, shape, [&](auto form) {
      const auto kernel = norm_backward_kernel<decltype(form)>;
      workers = std::min(workers,
                         rows * resident_blocks("rms_norm_backward", kernel, rows * shape.threads));
      launch("rms_norm_backward", kernel, blocks(ceil_div(workers, rows)), rows * shape.threads,
             stream, c, shape.threads, workers);
    });
  const dim3 tiles = blocks(ceil_div(c.columns, sum_columns));
  const auto kernel = c.type == Element::f32 ? norm_weight_kernel<float> : norm_weight_kernel<Bf16>;
  launch("rms_norm_backward's sum", kernel, tiles, sum_columns * sum_groups, stream, c, workers);
}

}  // namespace ac_advisor::trainer::cuda::device
