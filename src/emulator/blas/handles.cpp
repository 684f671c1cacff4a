#include <cstddef>
#include <cstring>

#include "emulator/answer.hpp"
#include "emulator/blas/handle.hpp"
#include "emulator/kernel.hpp"
#include "emulator/loaded.hpp"
#include "emulator/record.hpp"

/// cuBLAS by its binary interface: statuses and enumerations are ints, 0 is success. Its own
/// library is never entered, for the CUDA runtime inside it needs a real driver.
namespace emulator::blas {

constexpr int success = 0, not_initialized = 1;

namespace {

int own_version(const char* name, int otherwise) {
  using Get = std::size_t (*)();
  auto* get = reinterpret_cast<Get>(own_function("libcublasLt.so.13", name));
  return get == nullptr ? otherwise : static_cast<int>(get());
}

}  // namespace

int cublas_version() {
  static const int version = own_version("cublasLtGetVersion", 130100);
  return version;
}
int cudart_version_of_cublas() {
  static const int version = own_version("cublasLtGetCudartVersion", 13000);
  return version;
}

ANSWER int cublasCreate_v2(Handle** handle) {
  record::touch();
  *handle = new Handle;
  return success;
}
ANSWER int cublasDestroy_v2(Handle* handle) {
  delete handle;
  return success;
}
ANSWER int cublasSetStream_v2(Handle* handle, void* stream) {
  handle->stream = stream;
  return success;
}
ANSWER int cublasGetStream_v2(Handle* handle, void** stream) {
  *stream = handle->stream;
  return success;
}
ANSWER int cublasSetWorkspace_v2(Handle*, void*, std::size_t) { return success; }
ANSWER int cublasSetMathMode(Handle* handle, int mode) {
  handle->math_mode = mode;
  return success;
}
ANSWER int cublasGetMathMode(Handle* handle, int* mode) {
  *mode = handle->math_mode;
  return success;
}
ANSWER int cublasSetPointerMode_v2(Handle* handle, int mode) {
  handle->pointer_mode = mode;
  return success;
}
ANSWER int cublasGetPointerMode_v2(Handle* handle, int* mode) {
  *mode = handle->pointer_mode;
  return success;
}
ANSWER int cublasSetAtomicsMode(Handle* handle, int mode) {
  handle->atomics_mode = mode;
  return success;
}
ANSWER int cublasGetAtomicsMode(Handle* handle, int* mode) {
  *mode = handle->atomics_mode;
  return success;
}
ANSWER int cublasSetSmCountTarget(Handle* handle, int count) {
  handle->multiprocessors = count;
  return success;
}
ANSWER int cublasGetSmCountTarget(Handle* handle, int* count) {
  *count = handle->multiprocessors;
  return success;
}
ANSWER int cublasGetVersion_v2(Handle*, int* version) {
  *version = cublas_version();
  return success;
}
ANSWER int cublasGetProperty(int property, int* value) {
  const int whole = cublas_version();
  const int parts[] = {whole / 10000, whole / 100 % 100, whole % 100};
  *value = property >= 0 && property < 3 ? parts[property] : 0;
  return success;
}
ANSWER std::size_t cublasGetCudartVersion() {
  return static_cast<std::size_t>(cudart_version_of_cublas());
}
ANSWER const char* cublasGetStatusName(int status) {
  return status == success ? "CUBLAS_STATUS_SUCCESS" : "CUBLAS_STATUS_NOT_SUPPORTED";
}
ANSWER const char* cublasGetStatusString(int status) {
  return status == success ? "the operation completed successfully"
                           : "the functionality is not supported";
}

namespace {

/// One product is one kernel. cuBLAS takes more than one for some shapes (split K): its choice is
/// not modelled.
int product(Handle* handle, const char* name) {
  if (handle == nullptr) return not_initialized;
  launch(*library_kernel(name), handle->stream);
  return success;
}

}  // namespace

// Only the handle is read, so the other arguments need not be named: the caller passes them, and
// takes them back.
#define PRODUCT(name) \
  ANSWER int name(Handle* handle) { return product(handle, #name); }
#include "emulator/blas/products.inc"
#undef PRODUCT

}  // namespace emulator::blas
