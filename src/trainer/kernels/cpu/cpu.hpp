#pragma once

#include "trainer/kernels/own_kernels.hpp"

/// The CPU's own kernels. Each allocates nothing but the op's outputs and the workspace that its
/// row declares.
namespace ac_advisor::trainer::cpu {

AC_ADVISOR_OWN_KERNELS(AC_ADVISOR_DECLARE_KERNEL)
// Of the CPU alone: the trainer refuses quantized weights and compressed gradients on a GPU.
AC_ADVISOR_DECLARE_KERNEL(dequantize)
AC_ADVISOR_DECLARE_KERNEL(quantize_rows)
AC_ADVISOR_DECLARE_KERNEL(mm_int8)
AC_ADVISOR_DECLARE_KERNEL(mm_dequant)
AC_ADVISOR_DECLARE_KERNEL(orthogonalize)
AC_ADVISOR_DECLARE_KERNEL(index_fill)
AC_ADVISOR_DECLARE_KERNEL(index_add)
// Optimizers with states in 8 bits are the CPU's, too; all other stages are ATen's.
AC_ADVISOR_DECLARE_KERNEL(foreach)
// What has left a CPU is in memory that is counted apart.
AC_ADVISOR_DECLARE_KERNEL(copy_to_host)
AC_ADVISOR_DECLARE_KERNEL(copy_from_host)
// It runs compiled blocks on the CPU alone.
AC_ADVISOR_DECLARE_KERNEL(generated)

/// One kernel a kind.
[[nodiscard]] const KernelTable& kernels();

}  // namespace ac_advisor::trainer::cpu
