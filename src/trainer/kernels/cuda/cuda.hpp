#pragma once

#include "trainer/kernels/own_kernels.hpp"

/// A GPU's own kernels: this project's fused ones (device/device.hpp), LibTorch's flash attention
/// and grouped products, and what the CPU does element by element.
namespace ac_advisor::trainer::cuda {

/// Copies that a CPU makes one by one, as ATen's table has them.
#define AC_ADVISOR_SHARD_COPIES(row) \
  row(all_gather_copy_in) row(all_gather_copy_out) row(reduce_scatter_copy_in)

AC_ADVISOR_OWN_KERNELS(AC_ADVISOR_DECLARE_KERNEL)
AC_ADVISOR_SHARD_COPIES(AC_ADVISOR_DECLARE_KERNEL)

/// One kernel a kind.
[[nodiscard]] const KernelTable& kernels();

}  // namespace ac_advisor::trainer::cuda
