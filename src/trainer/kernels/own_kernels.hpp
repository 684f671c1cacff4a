#pragma once

#include "trainer/kernels/kernels.hpp"

// clang-format off
/// Each op that a device has a kernel of its own for, and ATen's table has none.
#define AC_ADVISOR_OWN_KERNELS(row) \
  row(grouped_mm) \
  row(dropout) \
  row(dropout_backward) \
  row(sdpa) \
  row(sdpa_backward) \
  row(histc) \
  row(index_put) \
  row(scatter) \
  row(rms_norm) \
  row(rms_norm_backward) \
  row(add_rms_norm) \
  row(add_rms_norm_backward) \
  row(rope) \
  row(rope_backward) \
  row(swiglu) \
  row(swiglu_backward) \
  row(linear_cross_entropy) \
  row(linear_cross_entropy_backward) \
  row(adamw_fused)
// clang-format on

/// The declaration of one, in the device's namespace.
#define AC_ADVISOR_DECLARE_KERNEL(kind) void kind(const Call& c);
/// Its row of the device's table.
#define AC_ADVISOR_KERNEL_ROW(kind) {ir::OpKind::kind, kind},
