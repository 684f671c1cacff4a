# ac_advisor_nccl: the objects by which a program of this project has NCCL. They need libtorch_cuda, so
# they are no part of ac_advisor_trainer; there no_nccl/ stands for them.

# The wheel that LibTorch was built with first: a system may have NCCL of another version.
find_path(nccl_include nccl.h HINTS "${torch_dir}/../nvidia/nccl/include" PATHS /usr/local/cuda/include NO_CACHE)
find_path(cuda_runtime_include cuda_runtime_api.h
  HINTS "${torch_dir}/../nvidia/cu13/include" PATHS /usr/local/cuda/include NO_CACHE)
set(nccl_version "")
if(nccl_include)
  file(STRINGS "${nccl_include}/nccl.h" lines REGEX "^#define NCCL_(MAJOR|MINOR) +[0-9]+")
  string(REGEX REPLACE "[^0-9;]" "" nccl_version "${lines}")
  string(REPLACE ";" "." nccl_version "${nccl_version}")
endif()
if(NOT TARGET libtorch_cuda OR NOT nccl_include OR NOT cuda_runtime_include)
  message(STATUS "libtorch_cuda, nccl.h or cuda_runtime_api.h is not found: NCCL is left out")
  return()
endif()
# c10d's options embed NCCL's ncclConfig_t, which grows with NCCL's minor versions: torch 2.11's has
# this size.
if(NOT nccl_version STREQUAL "2.28")
  message(STATUS "nccl.h in ${nccl_include} is of ${nccl_version}, torch 2.11 has 2.28: NCCL is left out")
  return()
endif()

add_library(ac_advisor_nccl OBJECT "${PROJECT_SOURCE_DIR}/src/trainer/collectives/nccl/nccl.cpp")
ac_advisor_target(ac_advisor_nccl)
target_include_directories(ac_advisor_nccl SYSTEM PRIVATE "${nccl_include}" "${cuda_runtime_include}")
target_link_libraries(ac_advisor_nccl PUBLIC ac_advisor_trainer libtorch_cuda)
