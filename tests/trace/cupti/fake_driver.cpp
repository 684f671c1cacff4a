// A libcuda.so.1 of a process that has one device and one context.
#include <cuda.h>

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

namespace {
int context = 0;
bool current = true;
}  // namespace

FAKE_EXPORT void fake_set_current(bool is_current) { current = is_current; }
FAKE_EXPORT CUresult CUDAAPI cuCtxGetCurrent(CUcontext* out) {
  *out = current ? reinterpret_cast<CUcontext>(&context) : nullptr;
  return CUDA_SUCCESS;
}
FAKE_EXPORT CUresult CUDAAPI cuCtxGetDevice(CUdevice* out) {
  *out = 0;
  return current ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}
