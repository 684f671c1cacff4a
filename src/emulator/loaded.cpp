#include "emulator/loaded.hpp"

#include <dlfcn.h>

namespace emulator {

void* own_function(const char* library, const char* name) noexcept {
  void* found = ::dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
  if (found == nullptr) return nullptr;
  void* function = ::dlsym(found, name);
  ::dlclose(found);
  return function;
}

}  // namespace emulator
