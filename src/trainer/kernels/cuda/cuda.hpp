#pragma once

#include "trainer/kernels/own_kernels.hpp"

/// A GPU's own kernels: this project's fused ones (device/device.hpp), LibTorch's flash attention
/// and grouped products, and what the CPU does element by element.
namespace ac_advisor::trainer::cuda {

AC_ADVISOR_OWN_KERNELS(AC_ADVISOR_DECLARE_KERNEL)

/// One kernel a kind.
[[nodiscard]] const KernelTable& kernels();

}  // namespace ac_advisor::trainer::cuda
