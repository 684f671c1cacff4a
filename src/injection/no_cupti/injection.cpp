#include "ac_advisor/trace/injection.hpp"

namespace ac_advisor::trace {

Injection injection() {
  return {.reason =
              "this build has no CUPTI support: when it was built, the CUDA toolkit's cupti.h was "
              "not found. Install the toolkit's CUPTI (NVIDIA's package cuda-cupti-dev-13-0, or "
              "Debian's libcupti-dev) and build again, with -DCUDAToolkit_ROOT=… where it "
              "is not in /usr/local/cuda"};
}

}  // namespace ac_advisor::trace
