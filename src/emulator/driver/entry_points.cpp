#include <dlfcn.h>

#include <cstring>
#include <string>

#include "emulator/driver/api.hpp"
#include "emulator/record.hpp"
#include "emulator/runtime/api.hpp"

/// How libraries that do not link the driver find its functions. What has no answer is found all
/// the same, as the function that names itself and ends the run.
namespace emulator::driver {
namespace {

/// The newest version of a function that this library has: "cuMemAlloc" is cuMemAlloc_v2.
void* find(const char* symbol) {
  static void* self = [] {
    Dl_info here{};
    ::dladdr(reinterpret_cast<void*>(&find), &here);
    return ::dlopen(here.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  }();
  for (const char* version : {"_v4", "_v3", "_v2", ""})
    if (void* found = ::dlsym(self, (std::string(symbol) + version).c_str())) return found;
  return nullptr;
}

}  // namespace

ANSWER CUresult cuGetProcAddress_v2(const char* symbol, void** function, int, cuuint64_t,
                                    CUdriverProcAddressQueryResult* status) {
  *function = find(symbol);
  if (status != nullptr)
    *status =
        *function == nullptr ? CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND : CU_GET_PROC_ADDRESS_SUCCESS;
  return *function == nullptr ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}

/// A static CUDA runtime begins with this: its inner tables are documented nowhere.
ANSWER CUresult cuGetExportTable(const void**, const CUuuid*) {
  Dl_info caller{};
  std::string way_out = "a CUDA runtime that is linked statically asks for it";
  if (::dladdr(__builtin_return_address(0), &caller) != 0 && caller.dli_fname != nullptr) {
    // NVRTC asks for a debugger's table, and compiles without.
    if (std::strstr(caller.dli_fname, "libnvrtc") != nullptr) return CUDA_ERROR_NOT_FOUND;
    // cuDNN plans for a device that its own runtime cannot find.
    if (std::strstr(caller.dli_fname, "libcudnn") != nullptr) return CUDA_ERROR_NOT_FOUND;
    // Some of its engines for convolutions ask cuBLASLt's library itself, which then has no device
    // either: cuDNN passes over them and takes its next engine.
    if (std::strstr(caller.dli_fname, "libcublasLt") != nullptr) return CUDA_ERROR_NOT_FOUND;
    way_out += std::string(" (in ") + caller.dli_fname + ")";
  }
  way_out += "; what is built with nvcc -cudart shared runs";
  unanswered("cuGetExportTable", way_out.c_str());
}

}  // namespace emulator::driver

namespace emulator::runtime {

ANSWER cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned,
                                                    unsigned long long,
                                                    cudaDriverEntryPointQueryResult* status) {
  *function = driver::find(symbol);
  if (status != nullptr)
    *status =
        *function == nullptr ? cudaDriverEntryPointSymbolNotFound : cudaDriverEntryPointSuccess;
  return *function == nullptr && status == nullptr ? fail(cudaErrorSymbolNotFound) : cudaSuccess;
}
ANSWER cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function,
                                           unsigned long long flags,
                                           cudaDriverEntryPointQueryResult* status) {
  return cudaGetDriverEntryPointByVersion(symbol, function, 0, flags, status);
}

}  // namespace emulator::runtime
