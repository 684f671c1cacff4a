#include "trainer/kernels/aten/aten.hpp"
#include "trainer/kernels/cpu/cpu.hpp"

namespace ac_advisor::trainer::cpu {
namespace {

constexpr KernelRow own[] = {
    AC_ADVISOR_OWN_KERNELS(AC_ADVISOR_KERNEL_ROW) AC_ADVISOR_KERNEL_ROW(dequantize)
        AC_ADVISOR_KERNEL_ROW(quantize_rows) AC_ADVISOR_KERNEL_ROW(mm_int8)
            AC_ADVISOR_KERNEL_ROW(mm_dequant) AC_ADVISOR_KERNEL_ROW(orthogonalize)
                AC_ADVISOR_KERNEL_ROW(index_fill) AC_ADVISOR_KERNEL_ROW(index_add)
                    AC_ADVISOR_KERNEL_ROW(generated) AC_ADVISOR_KERNEL_ROW(foreach)
                        AC_ADVISOR_KERNEL_ROW(copy_to_host) AC_ADVISOR_KERNEL_ROW(copy_from_host)};

}  // namespace

const KernelTable& kernels() {
  static const KernelTable table = aten::kernels_with(own);
  return table;
}

}  // namespace ac_advisor::trainer::cpu
