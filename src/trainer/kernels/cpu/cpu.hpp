#pragma once

#include "trainer/kernels/own_kernels.hpp"

/// The CPU's own kernels. Each allocates nothing but the op's outputs and the workspace that its
/// row declares.
namespace ac_advisor::trainer::cpu {

AC_ADVISOR_OWN_KERNELS(AC_ADVISOR_DECLARE_KERNEL)
// Of the CPU alone: the trainer refuses 4-bit weights and compressed gradients on a GPU.
AC_ADVISOR_DECLARE_KERNEL(dequantize)
AC_ADVISOR_DECLARE_KERNEL(orthogonalize)
AC_ADVISOR_DECLARE_KERNEL(index_fill)
AC_ADVISOR_DECLARE_KERNEL(index_add)
// It runs compiled blocks on the CPU alone.
AC_ADVISOR_DECLARE_KERNEL(generated)

/// One kernel a kind.
[[nodiscard]] const KernelTable& kernels();

}  // namespace ac_advisor::trainer::cpu
