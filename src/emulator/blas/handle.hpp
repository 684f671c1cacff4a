#pragma once

namespace emulator::blas {

/// Of the cuBLAS that the program brings; without one, CUDA 13.0's.
int cublas_version();
int cudart_version_of_cublas();

/// What a cublasHandle_t points to. cublasLt's handle may be the same object.
struct Handle {
  void* stream = nullptr;
  int math_mode = 0, pointer_mode = 0, atomics_mode = 0, multiprocessors = 0;
};

}  // namespace emulator::blas
