#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <vector>

#include "emulator/answer.hpp"
#include "emulator/blas/handle.hpp"
#include "emulator/kernel.hpp"
#include "emulator/record.hpp"

/// cuBLASLt by its binary interface (cublasLt.h of CUDA 13).
namespace emulator::blas {
namespace {

constexpr int success = 0, invalid_value = 7;

/// What a descriptor, layout or preference points to: its attributes as they were set.
struct Attributes {
  std::map<int, std::vector<char>> values;
};

int create(Attributes** a) {
  *a = new Attributes;
  return success;
}

int set(Attributes* a, int attribute, const void* value, std::size_t bytes) {
  if (a == nullptr || value == nullptr) return invalid_value;
  const auto* begin = static_cast<const char*>(value);
  a->values[attribute].assign(begin, begin + bytes);
  return success;
}

int get(Attributes* a, int attribute, void* value, std::size_t bytes, std::size_t* written) {
  if (a == nullptr) return invalid_value;
  const auto found = a->values.find(attribute);
  if (value != nullptr) std::memset(value, 0, bytes);
  if (value != nullptr && found != a->values.end())
    std::memcpy(value, found->second.data(), std::min(bytes, found->second.size()));
  if (written != nullptr) *written = bytes;
  return success;
}

/// cublasLtMatmulHeuristicResult_t.
struct HeuristicResult {
  std::uint64_t algorithm[8];
  std::size_t workspace_bytes;
  int state;
  float waves;
  int reserved[4];
};

}  // namespace

ANSWER int cublasLtCreate(Handle** handle) {
  record::touch();
  *handle = new Handle;
  return success;
}
ANSWER int cublasLtDestroy(Handle* handle) {
  delete handle;
  return success;
}
ANSWER std::size_t cublasLtGetVersion() { return static_cast<std::size_t>(cublas_version()); }
ANSWER std::size_t cublasLtGetCudartVersion() {
  return static_cast<std::size_t>(cudart_version_of_cublas());
}
ANSWER const char* cublasLtGetStatusName(int) { return "CUBLAS_STATUS"; }
ANSWER const char* cublasLtGetStatusString(int) { return "status of cuBLASLt"; }

// Descriptors, layouts and preferences are all alike here.
#define DESTROYED_AND_SET(type)                                                  \
  ANSWER int type##Destroy(Attributes* a) {                                      \
    delete a;                                                                    \
    return success;                                                              \
  }                                                                              \
  ANSWER int type##SetAttribute(Attributes* a, int attribute, const void* value, \
                                std::size_t bytes) {                             \
    return set(a, attribute, value, bytes);                                      \
  }
#define READ(type)                                                                            \
  ANSWER int type##GetAttribute(Attributes* a, int attribute, void* value, std::size_t bytes, \
                                std::size_t* written) {                                       \
    return get(a, attribute, value, bytes, written);                                          \
  }

ANSWER int cublasLtMatmulDescCreate(Attributes** a, int, int) { return create(a); }
DESTROYED_AND_SET(cublasLtMatmulDesc)
READ(cublasLtMatmulDesc)
ANSWER int cublasLtMatrixLayoutCreate(Attributes** a, int, std::uint64_t, std::uint64_t,
                                      std::int64_t) {
  return create(a);
}
DESTROYED_AND_SET(cublasLtMatrixLayout)
READ(cublasLtMatrixLayout)
ANSWER int cublasLtMatmulPreferenceCreate(Attributes** a) { return create(a); }
DESTROYED_AND_SET(cublasLtMatmulPreference)

#undef DESTROYED_AND_SET
#undef READ

/// One algorithm that needs no workspace: PyTorch allocates what it allows, not what is asked for
/// (2.11, aten/src/ATen/cuda/CUDABlas.cpp).
ANSWER int cublasLtMatmulAlgoGetHeuristic(Handle*, Attributes*, Attributes*, Attributes*,
                                          Attributes*, Attributes*, Attributes*, int requested,
                                          HeuristicResult* results, int* count) {
  *count = requested > 0 ? 1 : 0;
  if (requested > 0) {
    std::memset(results, 0, sizeof *results);
    results->waves = 1.0F;
  }
  return success;
}
ANSWER int cublasLtMatmulAlgoCheck(Handle*, Attributes*, Attributes*, Attributes*, Attributes*,
                                   Attributes*, const void*, HeuristicResult* result) {
  std::memset(result, 0, sizeof *result);
  return success;
}
ANSWER int cublasLtMatmul(Handle*, Attributes*, const void*, const void*, Attributes*, const void*,
                          Attributes*, const void*, const void*, Attributes*, void*, Attributes*,
                          const void*, void*, std::size_t, void* stream) {
  static Kernel* kernel = library_kernel("cublasLtMatmul");
  launch(*kernel, stream);
  return success;
}
ANSWER int cublasLtMatrixTransformDescCreate(Attributes** a, int) {
  *a = new Attributes;
  return success;
}
ANSWER int cublasLtMatrixTransformDescDestroy(Attributes* a) {
  delete a;
  return success;
}
ANSWER int cublasLtMatrixTransformDescSetAttribute(Attributes* a, int attribute, const void* value,
                                                   std::size_t bytes) {
  return set(a, attribute, value, bytes);
}
ANSWER int cublasLtMatrixTransform(Handle*, Attributes*, const void*, const void*, Attributes*,
                                   const void*, const void*, Attributes*, void*, Attributes*,
                                   void* stream) {
  static Kernel* kernel = library_kernel("cublasLtMatrixTransform");
  launch(*kernel, stream);
  return success;
}

}  // namespace emulator::blas
