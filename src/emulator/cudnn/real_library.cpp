#include "emulator/cudnn/real_library.hpp"

#include <dlfcn.h>

namespace emulator::cudnn {
namespace {

constexpr std::size_t first_deviceless = 90800;

template <typename F>
void find(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(library, name));
  if (function == nullptr) unanswered(name, "libcudnn.so.9 has no such function");
}

RealLibrary load() {
  // The program has it already, or could not have called us: no search path is needed.
  void* library = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) library = dlopen("libcudnn.so.9", RTLD_NOW);
  if (library == nullptr) unanswered("cudnnCreate", "libcudnn.so.9 was not found");
  RealLibrary r{};
  find(library, "cudnnBackendCreateDescriptor", r.create_descriptor);
  find(library, "cudnnBackendDestroyDescriptor", r.destroy_descriptor);
  find(library, "cudnnBackendFinalize", r.finalize);
  find(library, "cudnnBackendSetAttribute", r.set_attribute);
  find(library, "cudnnBackendGetAttribute", r.get_attribute);
  find(library, "cudnnGetLastErrorString", r.last_error);
  find(library, "cudnnGetErrorString", r.error_string);
  find(library, "cudnnGetVersion", r.version);
  if (r.version() < first_deviceless)
    unanswered("cudnnCreate", "cuDNN before 9.8 plans only for a device that is there");
  return r;
}

}  // namespace

const RealLibrary& real() {
  static const RealLibrary library = load();
  return library;
}

}  // namespace emulator::cudnn
