#pragma once

#include <cstddef>
#include <cstdint>

namespace ac_advisor::ir {

/// The primitive ops that a framework dispatches. One row each in the op table (op_table.hpp).
enum class OpKind : std::uint8_t {
  // Bookkeeping: launches nothing.
  record_function,  ///< begins and ends of `dim` profiler ranges, which PyTorch dispatches as ops
  hold,  ///< its operands live until here: a Python local's end, a cache, the held output
  // Views that autograd gives a node of their own.
  view,
  slice,
  split,
  expand,
  // Forward.
  embedding,
  mm,
  addmm,
  bmm,
  baddbmm,
  grouped_mm,
  cast,
  clone,
  add,
  add_scalar,
  mul,
  mul_scalar,
  div,
  neg,
  clamp,
  minimum,
  floor,
  log,
  polar,  ///< angles to pairs of fp32: cos and sin
  max,    ///< over the last dimension: values, indices
  pow,
  mean,
  rsqrt,
  layer_norm,
  cat,
  sum,
  exp,
  silu,
  gelu_tanh,
  gelu,
  relu,
  sigmoid,
  tanh,
  softmax,
  dropout,
  sdpa,
  cos,
  sin,
  arange,
  pad,
  masked_fill,
  log_softmax,
  nll_loss,
  topk,
  gather,
  sort,
  histc,
  cumsum,
  floor_divide,
  index,
  index_put,
  empty,
  copy,
  copy_part,  ///< into a slice of its first operand along the last dimension
  compare,
  // Fused forward kernels.
  rms_norm,
  add_rms_norm,
  rope,
  swiglu,
  linear_cross_entropy,
  // bitsandbytes' quantized layers.
  dequantize,        ///< codes and scales to a weight in the compute dtype
  quantize_rows,     ///< LLM.int8(): rows to 8-bit integers with a scale each
  mm_int8,           ///< of 8-bit integers, into 32-bit ones
  mm_quantized,      ///< a layer's product; its backward dequantizes the weight once more
  precomputed_grad,  ///< a loss whose gradients were computed in forward (chunked)
  tiled_log_probs,   ///< log-probabilities of targets; its backward makes the tiles of logits again
  tiled_divergence,  ///< of each token, between two models' distributions; as tiled_log_probs
  // Backward kinds.
  fill,
  embedding_backward,
  silu_backward,
  gelu_backward,
  relu_backward,
  where,
  sigmoid_backward,
  tanh_backward,
  layer_norm_backward,
  softmax_backward,
  dropout_backward,
  sdpa_backward,
  log_softmax_backward,
  nll_loss_backward,
  slice_backward,
  index_backward,
  scatter,
  accumulate,
  accumulate_inplace,
  rms_norm_backward,
  add_rms_norm_backward,
  rope_backward,
  swiglu_backward,
  linear_cross_entropy_backward,
  // Optimizers.
  foreach,
  adamw_fused,
  sgd_fused,
  // Collectives and their copies.
  all_gather_copy_in,
  all_gather,
  all_gather_copy_out,
  reduce_scatter_copy_in,
  reduce_scatter,
  all_reduce,
  bucket_copy,
  broadcast,
  // Tensor parallelism: functional collectives, whose results are new tensors.
  tp_all_gather,
  tp_reduce_scatter,
  tp_all_reduce,
  // Expert parallelism: between the ranks that share a layer's experts.
  ep_all_gather,
  ep_reduce_scatter,
  all_to_all,           ///< each rank's rows to the ranks that have their experts
  send_recv,            ///< a batch of messages between pipeline stages: one kernel
  ring_exchange,        ///< to the next rank of a context-parallel ring, from the one before
  mask_shard,           ///< zero where a token's row is on another rank, in place
  vocab_parallel_loss,  ///< launches nothing: the autograd nodes of a loss over shards of logits
  tp_replicate,         ///< launches nothing: what ranks have alike, whose gradients they add up
  row_adapter,  ///< launches nothing: the autograd nodes of LoRA beside a layer split by rows
  amax,
  abs,
  random,                ///< numbers of a distribution
  mul_of_view,           ///< in place, where the first operand is a view
  recomputed_gelu,       ///< the last product of a gelu whose backward computes it again
  routing_multiplier,    ///< PhimoeMultiplier: two experts' weights by sampled gates
  safe_softmax,          ///< zeros where all of a softmax's row was masked
  convolution,           ///< of patches: a kernel as large as its stride
  convolution_backward,  ///< of its weight, and its bias
  masked_scatter,        ///< rows of the second operand in the first's places that a mask names
  masked_select,         ///< and their gradient
  orthogonalize,         ///< columns of a matrix, in place (Gram and Schmidt)
  index_fill,            ///< zero at indices, in place
  index_add,             ///< adds the third operand at indices, in place
  exp_of,                ///< exp out of place
  softplus,
  softplus_backward,
  flip,              ///< the other way round along the last dimension
  triangle,          ///< of matrices what lies on one side of their diagonal
  solve_triangular,  ///< A X = B of triangular matrices A: A, B
  depthwise_conv,    ///< a channel by itself, along the tokens: (B, channels, tokens), its taps
  depthwise_conv_backward,
  generated,      ///< a kernel that a compiler wrote: pointwise nodes and reductions over one space
  compiled_unit,  ///< launches nothing: the autograd node of a compiled unit
  autograd_function,  ///< launches nothing: the node of an autograd.Function, which holds what it
                      ///< was given and what it makes to its end
  copy_to_host,       ///< into pinned memory, on a stream of its own: launches no kernel
  copy_from_host,     ///< and back, into what it makes
  fp8_amax,     ///< the largest of an operand's magnitudes, or of each row's or column's of it
  fp8_scale,    ///< what it is multiplied by, in fp32
  scaled_mm,    ///< of operands in fp8 with their scales
  fp8_product,  ///< as scaled_mm, of scales as they are: inverses that a compiled kernel has made,
                ///< or mx_blocked's
  float8_linear,  ///< launches nothing: the autograd node of torchao's Float8Linear, MXFP8Linear
  mx_cast,        ///< to fp8 by blocks of 32, and a scale of a byte each
  mx_blocked,     ///< such scales in the order in which cuBLAS reads them
  vector_norm,    ///< the length of each row: (rows, 1)
  log_sigmoid,
  cp_all_gather,      ///< keys and values of all ranks that share a sequence, into a new tensor
  cp_all_to_all,      ///< parts that ranks of a sequence exchange, each as many, into a new tensor
  cp_reduce_scatter,  ///< the ranks' sums of their parts
  weighted_loss,      ///< launches nothing: the nodes of a loss of all ranks that share a sequence
  ring_attention,     ///< launches nothing: the node of attention over such a sequence
  eye,                ///< ones on the diagonal of a square
  mm_dequant,         ///< a product of 8-bit rows by the scales of both, in fp16
  repeat_interleave,  ///< of counts and their sums: each entry's index, as often as it counts
  hada_weight,        ///< launches nothing: the autograd node of LoHa's weight
  host_read,          ///< numbers that the host waits for
  fused_rms_norm,     ///< torch.nn.RMSNorm in one kernel: the result, 1 / rms of each row in fp32
  fused_rms_norm_backward,
  complex_mul,  ///< of pairs of fp32 that are complex numbers, by a table of them
  captured,     ///< an op of an imported graph that has no row of its own
  count_        // number of kinds
};
inline constexpr std::size_t op_kind_count = static_cast<std::size_t>(OpKind::count_);

}  // namespace ac_advisor::ir
