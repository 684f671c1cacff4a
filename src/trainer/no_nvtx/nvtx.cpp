// NVTX's header was not there when this was built.
#include "trainer/nvtx/nvtx.hpp"

namespace ac_advisor::trainer::nvtx {

bool enabled() { return false; }
void push(const char*) {}
void pop() {}

}  // namespace ac_advisor::trainer::nvtx
