# The trainer's own kernels (src/trainer/kernels/cuda/device/), whose bodies are compiled twice:
# ac_advisor_device_kernels by nvcc, where CUDA 13 is found (AC_ADVISOR_HAS_CUDA): LibTorch 2.11's wheel is
# of CUDA 13, and a handle of one major version of cuBLAS means nothing to another; and
# ac_advisor_host_kernels by the C++ compiler, for the tests. Nothing here links libcuda.

set(AC_ADVISOR_HAS_CUDA OFF)
set(kernels_dir "${PROJECT_SOURCE_DIR}/src/trainer/kernels/cuda/device")

if(AC_ADVISOR_TESTS AND (AC_ADVISOR_CUDA OR AC_ADVISOR_HAS_LIBTORCH))
  file(GLOB host_kernels CONFIGURE_DEPENDS "${kernels_dir}/host/*.cpp")
  add_library(ac_advisor_host_kernels STATIC EXCLUDE_FROM_ALL ${host_kernels})
  ac_advisor_target(ac_advisor_host_kernels)
  target_include_directories(ac_advisor_host_kernels PUBLIC "${PROJECT_SOURCE_DIR}/src")
  set_target_properties(ac_advisor_host_kernels PROPERTIES POSITION_INDEPENDENT_CODE ON)
endif()

if(NOT AC_ADVISOR_CUDA)
  return()
endif()
find_program(AC_ADVISOR_NVCC nvcc PATHS /usr/local/cuda/bin)
mark_as_advanced(AC_ADVISOR_NVCC)
set(nvcc_version 0)
if(AC_ADVISOR_NVCC)
  execute_process(COMMAND "${AC_ADVISOR_NVCC}" --version OUTPUT_VARIABLE text ERROR_QUIET)
  if(text MATCHES "release ([0-9]+\\.[0-9]+)")
    set(nvcc_version "${CMAKE_MATCH_1}")
  endif()
endif()
if(NOT nvcc_version MATCHES "^13\\.")
  message(STATUS "CUDA 13, which LibTorch 2.11 has, is not found (nvcc: ${nvcc_version}): the trainer's CUDA kernels are left out")
  return()
endif()

# Code for this machine's GPU, or, where there is none, for the H100 and H200: each architecture more is
# compiled once more. -DCMAKE_CUDA_ARCHITECTURES="80-real;90-real;100" is what a package for others wants.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
    OUTPUT_VARIABLE capabilities ERROR_QUIET RESULT_VARIABLE no_gpu)
  set(architectures "90-real")
  if(no_gpu EQUAL 0 AND capabilities MATCHES "[0-9]+\\.[0-9]+")
    set(architectures "native")
  endif()
  set(CMAKE_CUDA_ARCHITECTURES "${architectures}" CACHE STRING "")
endif()
if(NOT DEFINED CMAKE_CUDA_COMPILER)
  set(CMAKE_CUDA_COMPILER "${AC_ADVISOR_NVCC}")
endif()
if(NOT DEFINED CMAKE_CUDA_HOST_COMPILER)
  set(CMAKE_CUDA_HOST_COMPILER "${CMAKE_CXX_COMPILER}")
endif()
# nvcc may not take this machine's C++ compiler: found out apart, where it ends nothing.
include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  message(STATUS "${AC_ADVISOR_NVCC} does not work: the trainer's CUDA kernels are left out")
  return()
endif()
set(CMAKE_CUDA_STANDARD 17)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)  # as LibTorch does
if(CMAKE_CXX_COMPILER_LAUNCHER AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
  set(CMAKE_CUDA_COMPILER_LAUNCHER "${CMAKE_CXX_COMPILER_LAUNCHER}")
endif()
enable_language(CUDA)
find_package(CUDAToolkit 13 QUIET)
if(NOT TARGET CUDA::cudart OR NOT TARGET CUDA::cublas)
  message(STATUS "the toolkit of ${AC_ADVISOR_NVCC} lacks the CUDA runtime or cuBLAS: the trainer's CUDA kernels are left out")
  return()
endif()
set(AC_ADVISOR_HAS_CUDA ON)

file(GLOB device_kernels CONFIGURE_DEPENDS "${kernels_dir}/cuda/*.cu")
add_library(ac_advisor_device_kernels STATIC ${device_kernels})
target_include_directories(ac_advisor_device_kernels PUBLIC "${PROJECT_SOURCE_DIR}/src")
target_link_libraries(ac_advisor_device_kernels PUBLIC CUDA::cudart)
set_target_properties(ac_advisor_device_kernels PROPERTIES POSITION_INDEPENDENT_CODE ON)

# The same functions under the same names: a program has both where one is a library that shows a
# table of them, and nothing else.
if(AC_ADVISOR_TESTS)
  add_library(ac_advisor_host_kernels_shared SHARED EXCLUDE_FROM_ALL
    "${PROJECT_SOURCE_DIR}/tests/gpu/host_kernels.cpp")
  ac_advisor_target(ac_advisor_host_kernels_shared)
  target_include_directories(ac_advisor_host_kernels_shared PUBLIC "${PROJECT_SOURCE_DIR}/tests")
  target_link_libraries(ac_advisor_host_kernels_shared PRIVATE ac_advisor_host_kernels)
  target_link_options(ac_advisor_host_kernels_shared PRIVATE "LINKER:--exclude-libs,ALL")
endif()

add_executable(device_kernels_bench
  "${PROJECT_SOURCE_DIR}/bench/gpu/device_kernels.cpp")
ac_advisor_target(device_kernels_bench)
target_link_libraries(device_kernels_bench PRIVATE
  ac_advisor_device_kernels CUDA::cudart fmt::fmt)
