#pragma once

#include "ac_advisor/ir/derivation.hpp"

/// One function per differentiable kind: the formula of tools/autograd/derivatives.yaml (PyTorch
/// 2.11), op by op. Gradients whose shape is larger than their input's are summed by the caller.
namespace ac_advisor::ir::derive {

void pass_to_all(Derivation& d);  ///< add, add_scalar, hold: the gradient itself
void add(Derivation& d);
void layer_norm(Derivation& d);
void fused_rms_norm(Derivation& d);
void cos(Derivation& d);
void sin(Derivation& d);
void exp_of(Derivation& d);
void softplus(Derivation& d);
void logarithm(Derivation& d);
void pad(Derivation& d);
void masked_fill(Derivation& d);
void cumsum(Derivation& d);
void solve_triangular(Derivation& d);
void depthwise_conv(Derivation& d);
void gather(Derivation& d);
void scatter(Derivation& d);
void baddbmm(Derivation& d);
void mul_of_view(Derivation& d);
void recomputed_gelu(Derivation& d);
void routing_multiplier(Derivation& d);
void safe_softmax(Derivation& d);
void relu(Derivation& d);
void clamp(Derivation& d);
void minimum(Derivation& d);
void max(Derivation& d);
void copy_part(Derivation& d);
void sigmoid(Derivation& d);
void embedding(Derivation& d);
void mm(Derivation& d);
void addmm(Derivation& d);
void mm_quantized(Derivation& d);
void bmm(Derivation& d);
void grouped_mm(Derivation& d);
void cast(Derivation& d);
void mul(Derivation& d);
void complex_mul(Derivation& d);
void mul_scalar(Derivation& d);
void div(Derivation& d);
void neg(Derivation& d);
void pow(Derivation& d);
void mean(Derivation& d);
void sum(Derivation& d);
void rsqrt(Derivation& d);
void vector_norm(Derivation& d);
void cat(Derivation& d);
void view(Derivation& d);
void slice(Derivation& d);
void split(Derivation& d);
void expand(Derivation& d);
void silu(Derivation& d);
void gelu_tanh(Derivation& d);
void tanh(Derivation& d);
void softmax(Derivation& d);
void dropout(Derivation& d);
void sdpa(Derivation& d);
void log_softmax(Derivation& d);
void nll_loss(Derivation& d);
void topk(Derivation& d);
void index(Derivation& d);
void index_put(Derivation& d);
void rms_norm(Derivation& d);
void add_rms_norm(Derivation& d);
void rope(Derivation& d);
void swiglu(Derivation& d);
void precomputed_grad(Derivation& d);
void tiled_log_probs(Derivation& d);
void tiled_divergence(Derivation& d);
void linear_cross_entropy(Derivation& d);
void tp_all_gather(Derivation& d);
void tp_reduce_scatter(Derivation& d);
void all_to_all(Derivation& d);
void vocab_parallel_loss(Derivation& d);
void tp_all_reduce(Derivation& d);
void tp_replicate(Derivation& d);
void row_adapter(Derivation& d);
void convolution(Derivation& d);
void masked_scatter(Derivation& d);
void compiled_unit(Derivation& d);
void float8_linear(Derivation& d);
void hada_weight(Derivation& d);
void ring_attention(Derivation& d);
void clone(Derivation& d);
void cp_all_to_all(Derivation& d);
void weighted_loss(Derivation& d);

}  // namespace ac_advisor::ir::derive
