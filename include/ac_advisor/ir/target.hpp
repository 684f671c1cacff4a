#pragma once

#include <cstdint>

namespace ac_advisor::ir {

/// What a node of the joint graph calls, after Inductor's decompositions (v2.11). A row each in
/// `passes::compile::target_table`.
enum class Target : std::uint8_t {
  placeholder,
  tangent,
  convert,
  pow,
  mean,
  add,
  sub,
  mul,
  div,
  neg,
  exp,
  log,
  cos,
  sin,
  tanh,
  erf,
  relu,
  rsqrt,
  reciprocal,
  compare,
  bitwise_and,
  where,
  sum,
  amax,
  cumsum,
  var_mean,
  cat,
  full,
  iota,
  embedding,
  index,
  gather,
  index_put,
  pad,
  slice_scatter,
  clone,
  view,
  permute,
  unsqueeze,
  slice,
  expand,
  split,
  mm,
  addmm,
  sdpa_cudnn,
  sdpa_flash,
  sdpa_cudnn_backward,
  sdpa_flash_backward,
  getitem,
  greater,
  floor,
  select,
  seeds,
  seed,
  random,
  topk,
  sort,
  floor_divide,
  histc,
  grouped_mm,
  empty,
  scatter,
  scatter_add,
  sigmoid,
  fma,
  bitwise_not,
  abs,
  clamp_min,
  clamp_max,
  log2,
  exp2,
  max,        ///< of all elements
  scaled_mm,  ///< of operands in fp8 with the inverses of their scales
  copy,       ///< of a library's operand (ir.py: ExternKernel.copy_input)
  all_gather,
  all_reduce,
  reduce_scatter,
  wait,  ///< until a collective's result is there, which it is
  sdpa_efficient,
  sdpa_efficient_backward,
  gemm_4bit,          ///< bitsandbytes' ops: a product with codes that it dequantizes for itself
  dequantize_scales,  ///< scales that are in 8 bits, in fp32
  dequantize_4bit,    ///< codes and their scales in fp32, [N, K]
  as_complex,         ///< view_as_complex of pairs of fp32: the same memory
  as_real,            ///< view_as_real: and back
  complex_mul,        ///< of pairs that are complex numbers
  complex_rows,       ///< of a table of them, at places
  conj,               ///< a flag on a view of the same memory
  conjugate,          ///< what has that flag, copied
  all_to_all,         ///< to the next rank of a ring
  minimum,            ///< of an operand and zero
  log1p,
  count_
};

}  // namespace ac_advisor::ir
