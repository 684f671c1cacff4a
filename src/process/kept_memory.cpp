#include "kept_memory.hpp"

#include <cstdlib>  // defines __GLIBC__ where it is

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace ac_advisor::process {

void keep_freed_memory() {
#ifdef __GLIBC__
  constexpr int never = 1 << 30, largest = 32 << 20, at_once = 16 << 20;  // glibc takes no larger
  mallopt(M_MMAP_THRESHOLD, largest);
  mallopt(M_TRIM_THRESHOLD, never);
  mallopt(M_TOP_PAD, at_once);
#endif
}

}  // namespace ac_advisor::process
