#include <vector>

#include "emulator/device.hpp"
#include "emulator/driver/api.hpp"
#include "emulator/record.hpp"

/// Each device has its primary context and no other; a context's handle is its index + 1.
namespace emulator::driver {
namespace {

CUcontext context_of(int index) {
  return reinterpret_cast<CUcontext>(static_cast<std::uintptr_t>(index) + 1);
}
int index_of(CUcontext c) { return static_cast<int>(reinterpret_cast<std::uintptr_t>(c)) - 1; }
thread_local std::vector<int> stack;

}  // namespace

ANSWER CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice d) {
  record::touch();
  *context = context_of(d);
  return CUDA_SUCCESS;
}
ANSWER CUresult cuDevicePrimaryCtxRelease_v2(CUdevice) { return CUDA_SUCCESS; }
ANSWER CUresult cuDevicePrimaryCtxReset_v2(CUdevice) { return CUDA_SUCCESS; }
ANSWER CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice, unsigned) { return CUDA_SUCCESS; }
ANSWER CUresult cuDevicePrimaryCtxGetState(CUdevice, unsigned* flags, int* active) {
  *flags = 0;
  *active = 1;
  return CUDA_SUCCESS;
}
ANSWER CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = context_of(current_device());
  return CUDA_SUCCESS;
}
ANSWER CUresult cuCtxSetCurrent(CUcontext context) {
  if (context != nullptr) current_device() = index_of(context);
  return CUDA_SUCCESS;
}
ANSWER CUresult cuCtxPushCurrent_v2(CUcontext context) {
  stack.push_back(current_device());
  return cuCtxSetCurrent(context);
}
ANSWER CUresult cuCtxPopCurrent_v2(CUcontext* context) {
  if (context != nullptr) *context = context_of(current_device());
  if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  current_device() = stack.back();
  stack.pop_back();
  return CUDA_SUCCESS;
}
ANSWER CUresult cuCtxGetDevice(CUdevice* d) {
  *d = current_device();
  return CUDA_SUCCESS;
}
ANSWER CUresult cuCtxGetFlags(unsigned* flags) {
  *flags = 0;
  return CUDA_SUCCESS;
}
ANSWER CUresult cuCtxSynchronize() { return CUDA_SUCCESS; }
ANSWER CUresult cuCtxGetApiVersion(CUcontext, unsigned* version) {
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}
ANSWER CUresult cuCtxGetLimit(std::size_t* value, CUlimit) {
  *value = 1u << 20;
  return CUDA_SUCCESS;
}
ANSWER CUresult cuCtxSetLimit(CUlimit, std::size_t) { return CUDA_SUCCESS; }
ANSWER CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return CUDA_SUCCESS;
}

}  // namespace emulator::driver
