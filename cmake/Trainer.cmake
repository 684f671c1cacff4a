# src/trainer/: a library of all that needs no GPU, and the program ac-trainer. Needs LibTorch. Where
# CUDA's is there as well, ac-trainer-cuda: the same with backend/cuda and kernels/cuda.

file(GLOB_RECURSE trainer_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/trainer/*.cpp")
# no_nccl/ stays: a program that links Nccl.cmake's objects does not take it out of the archive.
list(FILTER trainer_sources EXCLUDE REGEX "/(no_)?(nvtx|cuda|counters)/|/collectives/nccl/|/main\\.cpp$")
find_path(nvtx_include nvtx3/nvToolsExt.h PATHS /usr/local/cuda/include NO_CACHE)
if(nvtx_include)
  list(APPEND trainer_sources "${PROJECT_SOURCE_DIR}/src/trainer/nvtx/nvtx.cpp")
else()
  list(APPEND trainer_sources "${PROJECT_SOURCE_DIR}/src/trainer/no_nvtx/nvtx.cpp")
endif()

add_library(ac_advisor_trainer STATIC ${trainer_sources})
ac_advisor_target(ac_advisor_trainer)
target_include_directories(ac_advisor_trainer PUBLIC "${PROJECT_SOURCE_DIR}/src")
if(nvtx_include)
  target_include_directories(ac_advisor_trainer SYSTEM PRIVATE "${nvtx_include}")
endif()
target_link_libraries(ac_advisor_trainer
  PUBLIC ac_advisor ac_advisor_counters libtorch
  PRIVATE fmt::fmt nlohmann_json::nlohmann_json)
target_compile_options(ac_advisor_trainer PRIVATE -fpch-preprocess)  # so that ccache may hit
target_precompile_headers(ac_advisor_trainer PRIVATE <ATen/ATen.h>)
# Loops over rows: sums may be taken in the order that vectors take them in.
set_source_files_properties("${PROJECT_SOURCE_DIR}/src/trainer/kernels/cpu/rows.cpp" PROPERTIES
  SKIP_PRECOMPILE_HEADERS ON
  COMPILE_OPTIONS "-O3;-fno-math-errno;-fno-trapping-math;-fno-signed-zeros;-fassociative-math;-ffp-contract=fast")
file(GLOB_RECURSE alone CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/trainer/collectives/gloo/*.cpp")
list(APPEND alone "${PROJECT_SOURCE_DIR}/src/trainer/nvtx/nvtx.cpp"
  "${PROJECT_SOURCE_DIR}/src/trainer/no_nvtx/nvtx.cpp")
set_source_files_properties(${alone} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
set_source_files_properties("${PROJECT_SOURCE_DIR}/src/trainer/collectives/gloo/gloo.cpp" PROPERTIES
  # c10d's own headers shadow and convert; declarations stand for Gloo's.
  COMPILE_OPTIONS "-isystem;${PROJECT_SOURCE_DIR}/src/trainer/collectives/gloo/declarations")

# Kernels of a GPU as calls on tensors: compiled everywhere, so that tests run them on the host.
file(GLOB cuda_kernel_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/trainer/kernels/cuda/*.cpp")
add_library(ac_advisor_cuda_kernels STATIC ${cuda_kernel_sources})
ac_advisor_target(ac_advisor_cuda_kernels)
target_link_libraries(ac_advisor_cuda_kernels
  PUBLIC ac_advisor_trainer
  PRIVATE fmt::fmt)  # the precompiled header's definitions
target_compile_options(ac_advisor_cuda_kernels PRIVATE -fpch-preprocess)
target_precompile_headers(ac_advisor_cuda_kernels REUSE_FROM ac_advisor_trainer)

add_library(ac_advisor_no_cuda STATIC "${PROJECT_SOURCE_DIR}/src/trainer/backend/no_cuda/backend.cpp")
ac_advisor_target(ac_advisor_no_cuda)
target_link_libraries(ac_advisor_no_cuda PUBLIC ac_advisor_trainer)

add_executable(ac-trainer "${PROJECT_SOURCE_DIR}/src/trainer/main.cpp")
ac_advisor_target(ac-trainer)
target_link_libraries(ac-trainer PRIVATE ac_advisor_trainer ac_advisor_no_cuda fmt::fmt)
