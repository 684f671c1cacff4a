#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "emulator/code/code_object.hpp"
#include "emulator/device.hpp"
#include "emulator/driver/api.hpp"
#include "emulator/kernel.hpp"
#include "emulator/memory.hpp"
#include "emulator/occupancy.hpp"

namespace emulator::driver {
namespace {

/// What a CUmodule or CUlibrary points to.
struct Module {
  const CodeObject* code = nullptr;
  std::mutex mutex;
  std::map<std::string, Kernel*> kernels;
  std::map<std::string, CUdeviceptr> variables;
};

Module* load(const void* image) {
  auto* m = new Module;
  m->code = add_image(image);
  return m;
}
Kernel* kernel_of(Module& m, const char* name) {
  const std::lock_guard lock(m.mutex);
  Kernel*& k = m.kernels[name];
  if (k == nullptr) k = add_kernel(name, m.code, nullptr, -1);
  return k;
}
Module* module_of(CUmodule h) { return reinterpret_cast<Module*>(h); }
Module* module_of(CUlibrary h) { return reinterpret_cast<Module*>(h); }

CUresult start(const void* function, Dim grid, Dim block, std::size_t shared, CUstream stream) {
  Kernel* kernel = find_kernel(function);
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (check_launch(*kernel, grid, block, shared) != LaunchError::none)
    return CUDA_ERROR_INVALID_VALUE;
  launch(*kernel, stream);
  return CUDA_SUCCESS;
}

}  // namespace

ANSWER CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  *module = reinterpret_cast<CUmodule>(load(image));
  return CUDA_SUCCESS;
}
ANSWER CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned, CUjit_option*,
                                   void**) {
  return cuModuleLoadData(module, image);
}
ANSWER CUresult cuModuleLoadFatBinary(CUmodule* module, const void* image) {
  return cuModuleLoadData(module, image);
}
ANSWER CUresult cuModuleLoad(CUmodule* module, const char*) {
  *module = reinterpret_cast<CUmodule>(load(nullptr));
  return CUDA_SUCCESS;
}
ANSWER CUresult cuModuleUnload(CUmodule) { return CUDA_SUCCESS; }
ANSWER CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  *function = reinterpret_cast<CUfunction>(kernel_of(*module_of(module), name));
  return CUDA_SUCCESS;
}
/// A variable of which only the name is known: one granule of addresses, nothing charged.
ANSWER CUresult cuModuleGetGlobal_v2(CUdeviceptr* p, std::size_t* bytes, CUmodule module,
                                     const char* name) {
  Module& m = *module_of(module);
  const std::lock_guard lock(m.mutex);
  CUdeviceptr& address = m.variables[name];
  if (address == 0)
    address = reinterpret_cast<CUdeviceptr>(memory::reserve(memory::granule, current_device()));
  if (p != nullptr) *p = address;
  if (bytes != nullptr) *bytes = memory::granule;
  return CUDA_SUCCESS;
}
ANSWER CUresult cuLibraryLoadData(CUlibrary* library, const void* image, CUjit_option*, void**,
                                  unsigned, CUlibraryOption*, void**, unsigned) {
  *library = reinterpret_cast<CUlibrary>(load(image));
  return CUDA_SUCCESS;
}
ANSWER CUresult cuLibraryUnload(CUlibrary) { return CUDA_SUCCESS; }
ANSWER CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
  *kernel = reinterpret_cast<CUkernel>(kernel_of(*module_of(library), name));
  return CUDA_SUCCESS;
}
ANSWER CUresult cuLibraryGetModule(CUmodule* module, CUlibrary library) {
  *module = reinterpret_cast<CUmodule>(library);
  return CUDA_SUCCESS;
}
ANSWER CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  *function = reinterpret_cast<CUfunction>(kernel);
  return CUDA_SUCCESS;
}
ANSWER CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  *mode = CU_MODULE_LAZY_LOADING;
  return CUDA_SUCCESS;
}

ANSWER CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                               unsigned by, unsigned bz, unsigned shared, CUstream stream, void**,
                               void**) {
  return start(f, {gx, gy, gz}, {bx, by, bz}, shared, stream);
}
ANSWER CUresult cuLaunchKernelEx(const CUlaunchConfig* c, CUfunction f, void**, void**) {
  return start(f, {c->gridDimX, c->gridDimY, c->gridDimZ},
               {c->blockDimX, c->blockDimY, c->blockDimZ}, c->sharedMemBytes, c->hStream);
}
ANSWER CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz,
                                          unsigned bx, unsigned by, unsigned bz, unsigned shared,
                                          CUstream stream, void**) {
  return start(f, {gx, gy, gz}, {bx, by, bz}, shared, stream);
}
ANSWER CUresult cuLaunchHostFunc(CUstream, CUhostFn function, void* data) {
  function(data);
  return CUDA_SUCCESS;
}

ANSWER CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction f) {
  Kernel* kernel = find_kernel(f);
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const Resources& r = resources(*kernel);
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = max_threads(r);
      break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      *value = r.static_shared_bytes;
      break;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
      *value = r.local_bytes;
      break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *value = r.registers;
      break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      *value = r.binary_version;
      break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = kernel->max_dynamic_shared_bytes;
      break;
    default:
      *value = 0;
  }
  return CUDA_SUCCESS;
}
ANSWER CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute attribute, int value) {
  Kernel* kernel = find_kernel(f);
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) return CUDA_SUCCESS;
  if (value < 0 || value > capability().shared_per_block_optin) return CUDA_ERROR_INVALID_VALUE;
  kernel->max_dynamic_shared_bytes = value;
  return CUDA_SUCCESS;
}
ANSWER CUresult cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel kernel,
                                     CUdevice) {
  return cuFuncGetAttribute(value, attribute, reinterpret_cast<CUfunction>(kernel));
}
ANSWER CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel,
                                     CUdevice) {
  return cuFuncSetAttribute(reinterpret_cast<CUfunction>(kernel), attribute, value);
}
ANSWER CUresult cuFuncSetCacheConfig(CUfunction, CUfunc_cache) { return CUDA_SUCCESS; }
ANSWER CUresult cuFuncLoad(CUfunction) { return CUDA_SUCCESS; }
ANSWER CUresult cuFuncGetName(const char** name, CUfunction f) {
  const Kernel* kernel = find_kernel(f);
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *name = kernel->name.c_str();
  return CUDA_SUCCESS;
}
ANSWER CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction f, int threads,
                                                            std::size_t shared) {
  Kernel* kernel = find_kernel(f);
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *blocks = blocks_per_multiprocessor(resources(*kernel), threads, shared);
  return CUDA_SUCCESS;
}
ANSWER CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, CUfunction f,
                                                                     int threads,
                                                                     std::size_t shared, unsigned) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, f, threads, shared);
}
ANSWER CUresult cuOccupancyMaxActiveClusters(int* clusters, CUfunction f, const CUlaunchConfig* c) {
  Kernel* kernel = find_kernel(f);
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  int blocks = 1;
  for (unsigned i = 0; i < c->numAttrs; ++i)
    if (c->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
      const auto& d = c->attrs[i].value.clusterDim;
      blocks = static_cast<int>(d.x * d.y * d.z);
    }
  const int threads = static_cast<int>(c->blockDimX * c->blockDimY * c->blockDimZ);
  *clusters = active_clusters(resources(*kernel), threads, c->sharedMemBytes, blocks);
  return CUDA_SUCCESS;
}

/// Only kernels read it.
ANSWER CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType, cuuint32_t, void*,
                                       const cuuint64_t*, const cuuint64_t*, const cuuint32_t*,
                                       const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                                       CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  std::memset(map, 0, sizeof *map);
  return CUDA_SUCCESS;
}

}  // namespace emulator::driver
