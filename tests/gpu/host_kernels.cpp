#include "gpu/kernels_table.hpp"

namespace ac_advisor::test {

const KernelTable& host_kernels() { return linked_kernels; }

}  // namespace ac_advisor::test
