# ac-trainer-cuda: ac-trainer with a GPU's backend, kernels and collectives. Where nvcc and CUDA's
# LibTorch are found; it starts without a driver and says that there is none. Without NCCL it runs on one
# GPU, and says so of more.

if(NOT TARGET ac_advisor_device_kernels OR NOT TARGET libtorch_cuda)
  message(STATUS "nvcc or CUDA's LibTorch is not found: ac-trainer-cuda is left out")
  return()
endif()

add_library(ac_advisor_cuda OBJECT
  "${PROJECT_SOURCE_DIR}/src/trainer/backend/cuda/backend.cpp"
  "${PROJECT_SOURCE_DIR}/src/trainer/kernels/cuda/torch/torch.cpp")
ac_advisor_target(ac_advisor_cuda)
target_include_directories(ac_advisor_cuda SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
target_link_libraries(ac_advisor_cuda
  PUBLIC ac_advisor_cuda_kernels ac_advisor_device_kernels libtorch_cuda CUDA::cublas)

add_executable(ac-trainer-cuda "${PROJECT_SOURCE_DIR}/src/trainer/main.cpp")
ac_advisor_target(ac-trainer-cuda)
target_link_libraries(ac-trainer-cuda PRIVATE
  $<TARGET_NAME_IF_EXISTS:ac_advisor_nccl> ac_advisor_trainer ac_advisor_cuda fmt::fmt)
