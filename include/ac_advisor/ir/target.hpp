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
  count_
};

}  // namespace ac_advisor::ir
