#pragma once

namespace emulator::blas {

inline constexpr int cublas_version = 130100;

/// What a cublasHandle_t points to. cublasLt's handle may be the same object.
struct Handle {
  void* stream = nullptr;
  int math_mode = 0, pointer_mode = 0, atomics_mode = 0, multiprocessors = 0;
};

}  // namespace emulator::blas
