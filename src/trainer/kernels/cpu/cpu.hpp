#pragma once

#include "trainer/kernels/kernels.hpp"

/// The CPU's kernels: LibTorch's ops where it has them, this project's own for fused kinds. Each
/// allocates nothing but the op's outputs and the workspace that its row declares.
namespace ac_advisor::trainer::cpu {

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
void neg(const Call& c);
void pow(const Call& c);
void rsqrt(const Call& c);
void exp(const Call& c);
void cos(const Call& c);
void sin(const Call& c);
void silu(const Call& c);
void silu_backward(const Call& c);
void gelu(const Call& c);
void gelu_backward(const Call& c);
void tanh(const Call& c);
void tanh_backward(const Call& c);
void fill(const Call& c);
void copy(const Call& c);
void accumulate(const Call& c);
void accumulate_inplace(const Call& c);
void dropout(const Call& c);
void dropout_backward(const Call& c);

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
void sum(const Call& c);
void softmax(const Call& c);
void softmax_backward(const Call& c);

// matmul.cpp
void mm(const Call& c);
void addmm(const Call& c);
void baddbmm(const Call& c);
void bmm(const Call& c);
void grouped_mm(const Call& c);

// attention.cpp
void sdpa(const Call& c);
void sdpa_backward(const Call& c);

// embedding.cpp
void embedding(const Call& c);
void embedding_backward(const Call& c);
void index(const Call& c);
void index_put(const Call& c);
void index_backward(const Call& c);

// loss.cpp
void pad(const Call& c);
void log_softmax(const Call& c);
void log_softmax_backward(const Call& c);
void nll_loss(const Call& c);
void nll_loss_backward(const Call& c);
void precomputed_grad(const Call& c);
void scatter(const Call& c);
void linear_cross_entropy(const Call& c);
void linear_cross_entropy_backward(const Call& c);

// integers.cpp: masks, and the routing of a mixture of experts
void arange(const Call& c);
void compare(const Call& c);
void masked_fill(const Call& c);
void cumsum(const Call& c);
void topk(const Call& c);
void sort(const Call& c);
void histc(const Call& c);
void floor_divide(const Call& c);

// rms_norm.cpp, rope.cpp, swiglu.cpp
void rms_norm(const Call& c);
void rms_norm_backward(const Call& c);
void add_rms_norm(const Call& c);
void add_rms_norm_backward(const Call& c);
void rope(const Call& c);
void rope_backward(const Call& c);
void swiglu(const Call& c);
void swiglu_backward(const Call& c);

// optimizer.cpp
void foreach (const Call& c);
void adamw_fused(const Call& c);
void sgd_fused(const Call& c);

// collectives.cpp
void all_gather_copy_in(const Call& c);
void all_gather(const Call& c);
void all_gather_copy_out(const Call& c);
void reduce_scatter_copy_in(const Call& c);
void reduce_scatter(const Call& c);
void all_reduce(const Call& c);
void bucket_copy(const Call& c);

}  // namespace ac_advisor::trainer::cpu
