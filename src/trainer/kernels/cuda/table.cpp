#include "trainer/kernels/aten/aten.hpp"
#include "trainer/kernels/cuda/cuda.hpp"

namespace ac_advisor::trainer::cuda {
namespace {

constexpr KernelRow own[] = {AC_ADVISOR_OWN_KERNELS(AC_ADVISOR_KERNEL_ROW)
                                 AC_ADVISOR_SHARD_COPIES(AC_ADVISOR_KERNEL_ROW)};

}  // namespace

const KernelTable& kernels() {
  static const KernelTable table = aten::kernels_with(own);
  return table;
}

}  // namespace ac_advisor::trainer::cuda
