#pragma once

#include <span>
#include <vector>

#include "trainer/kernels/kernels.hpp"

/// Kernels for any device: LibTorch's ops, into memory that the executor has allocated. Each
/// allocates nothing but the op's outputs.
namespace ac_advisor::trainer::aten {

/// A number as LibTorch's pointwise ops on `like` take it without a cast. Its bytes are no part of
/// the step: a compiler would have put them into the code.
[[nodiscard]] at::Tensor number(double value, const at::Tensor& like);

// pointwise.cpp
void cast(const Call& c);
void clone(const Call& c);
void add(const Call& c);
void add_scalar(const Call& c);
void mul(const Call& c);
void mul_scalar(const Call& c);
void div(const Call& c);
void clamp(const Call& c);
void neg(const Call& c);
void pow(const Call& c);
void rsqrt(const Call& c);
void exp(const Call& c);
void log(const Call& c);
void cos(const Call& c);
void sin(const Call& c);
void silu(const Call& c);
void silu_backward(const Call& c);
void gelu(const Call& c);
void gelu_backward(const Call& c);
void tanh(const Call& c);
void sigmoid(const Call& c);
void log_sigmoid(const Call& c);
void tanh_backward(const Call& c);
void fill(const Call& c);
void eye(const Call& c);
void copy(const Call& c);
void accumulate(const Call& c);
void accumulate_inplace(const Call& c);

// parallel.cpp
void rearrange(const at::Tensor& x, const at::Tensor& y, const ir::Rearrange& how);
void tp_all_gather(const Call& c);
void tp_reduce_scatter(const Call& c);
void tp_all_reduce(const Call& c);
void send_recv(const Call& c);
void mask_shard(const Call& c);
void cp_all_gather(const Call& c);
void ring_exchange(const Call& c);
void cp_all_to_all(const Call& c);
void cp_reduce_scatter(const Call& c);
void all_to_all(const Call& c);
void amax(const Call& c);
void gather(const Call& c);
void put_in_rows(const Call& c);

// views.cpp
void nothing(const Call& c);
void empty(const Call& c);
void view(const Call& c);
void slice(const Call& c);
void slice_backward(const Call& c);
void split(const Call& c);
void expand(const Call& c);
void cat(const Call& c);

// reductions.cpp
void mean(const Call& c);
void vector_norm(const Call& c);
void sum(const Call& c);
void softmax(const Call& c);
void softmax_backward(const Call& c);

// matmul.cpp
void mm(const Call& c);
void mm_quantized(const Call& c);
void abs(const Call& c);
void addmm(const Call& c);
void bmm(const Call& c);

// embedding.cpp
void embedding(const Call& c);
void embedding_backward(const Call& c);
void index(const Call& c);
void index_backward(const Call& c);

// loss.cpp
void pad(const Call& c);
void log_softmax(const Call& c);
void log_softmax_backward(const Call& c);
void nll_loss(const Call& c);
void nll_loss_backward(const Call& c);
void precomputed_grad(const Call& c);

// integers.cpp: masks, and the routing of a mixture of experts
void arange(const Call& c);
void compare(const Call& c);
void masked_fill(const Call& c);
void cumsum(const Call& c);
void topk(const Call& c);
void sort(const Call& c);
void floor_divide(const Call& c);
void repeat_interleave(const Call& c);

// optimizer.cpp
void foreach (const Call& c);
void sgd_fused(const Call& c);

// collectives.cpp
void all_gather_copy_in(const Call& c);
void all_gather(const Call& c);
void all_gather_copy_out(const Call& c);
void reduce_scatter_copy_in(const Call& c);
void reduce_scatter(const Call& c);
void all_reduce(const Call& c);
void bucket_copy(const Call& c);

/// These kernels and a device's own; its own win.
[[nodiscard]] KernelTable kernels_with(std::span<const KernelRow> own);

/// An optimizer op's inputs by what they are for; what is neither updated, nor a gradient, nor
/// state is a denominator.
struct OptimizerTensors {
  std::vector<at::Tensor> parameters, gradients, averages, squares, steps, denominators;
};
[[nodiscard]] OptimizerTensors optimizer_tensors(const Call& c);

}  // namespace ac_advisor::trainer::aten
