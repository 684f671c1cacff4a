# LibTorch as PyPI's wheel has it, as hand-made imported targets: find_package(Torch) would run nvcc
# and link libtorch_cuda always. Sets AC_ADVISOR_HAS_LIBTORCH. Where it is not there, the trainer is
# left out and everything else builds.

set(AC_ADVISOR_LIBTORCH "$ENV{AC_ADVISOR_LIBTORCH}" CACHE PATH
  "The torch folder of PyPI's wheel torch==2.11.0 (scripts/bootstrap.sh fetches it)")
set(torch_dir "${AC_ADVISOR_LIBTORCH}")
if(NOT torch_dir)
  set(cache "$ENV{XDG_CACHE_HOME}")
  if(NOT cache)
    set(cache "$ENV{HOME}/.cache")
  endif()
  set(torch_dir "${cache}/ac-advisor/libtorch-2.11.0/torch")
endif()
set(AC_ADVISOR_HAS_LIBTORCH OFF)
if(NOT AC_ADVISOR_TRAINER)
  return()
endif()
if(NOT EXISTS "${torch_dir}/lib/libtorch_cpu.so" OR NOT EXISTS "${torch_dir}/include/ATen/ATen.h")
  message(STATUS "LibTorch is not at ${torch_dir}: ac-trainer is left out")
  return()
endif()
set(AC_ADVISOR_HAS_LIBTORCH ON)

# libtorch_cpu of that wheel needs CUPTI and the CUDA runtime to load: a toolkit's, or PyPI's.
find_library(cupti_library NAMES libcupti.so.13 PATHS
  "${torch_dir}/../nvidia/cu13/lib" /usr/local/cuda/lib64 /usr/local/cuda/lib
  /usr/local/cuda/extras/CUPTI/lib64 NO_CACHE)
find_library(cudart_library NAMES libcudart.so.13 PATHS
  "${torch_dir}/../nvidia/cu13/lib" /usr/local/cuda/lib64 /usr/local/cuda/lib NO_CACHE)
set(torch_rpath "${torch_dir}/lib")
foreach(library IN ITEMS "${cupti_library}" "${cudart_library}")
  if(library)
    cmake_path(GET library PARENT_PATH folder)
    list(APPEND torch_rpath "${folder}")
  endif()
endforeach()
list(REMOVE_DUPLICATES torch_rpath)

add_library(libtorch INTERFACE)
# The wheel's include folder has an fmt of another version: links to all but that.
set(torch_include "${PROJECT_BINARY_DIR}/libtorch_include")
file(MAKE_DIRECTORY "${torch_include}")
file(GLOB torch_headers "${torch_dir}/include/*")
list(FILTER torch_headers EXCLUDE REGEX "/fmt$")
foreach(header IN LISTS torch_headers)
  cmake_path(GET header FILENAME name)
  file(CREATE_LINK "${header}" "${torch_include}/${name}" SYMBOLIC)
endforeach()
target_include_directories(libtorch SYSTEM INTERFACE
  "${torch_include}" "${torch_include}/torch/csrc/api/include")
target_compile_options(libtorch INTERFACE -fopenmp)
target_compile_definitions(libtorch INTERFACE _GLIBCXX_USE_CXX11_ABI=1)
target_link_directories(libtorch INTERFACE "${torch_dir}/lib")
target_link_libraries(libtorch INTERFACE
  "${torch_dir}/lib/libtorch_cpu.so" "${torch_dir}/lib/libc10.so" "${torch_dir}/lib/libgomp.so.1")
foreach(folder IN LISTS torch_rpath)
  target_link_options(libtorch INTERFACE "LINKER:-rpath,${folder}" "LINKER:-rpath-link,${folder}")
endforeach()

# libtorch_cuda: what a program with CUDA links besides. All that libtorch_cuda.so loads must be there,
# the CUDA toolkit's or PyPI's; AC_ADVISOR_HAS_LIBTORCH_CUDA says whether it is.
set(AC_ADVISOR_HAS_LIBTORCH_CUDA OFF)
set(torch_cuda_rpath "")
set(torch_cuda_missing "")
foreach(library IN ITEMS libtorch_cuda.so libc10_cuda.so)
  if(NOT EXISTS "${torch_dir}/lib/${library}")
    list(APPEND torch_cuda_missing "${library}")
  endif()
endforeach()
foreach(library IN ITEMS libcudart.so.13 libcublas.so.13 libcublasLt.so.13 libcufft.so.12 libcurand.so.10
    libcusparse.so.12 libcudnn.so.9 libnccl.so.2 libcusparseLt.so.0 libnvshmem_host.so.3 libcufile.so.0)
  find_library(torch_cuda_library NAMES "${library}" PATHS
    "${torch_dir}/../nvidia/cu13/lib" "${torch_dir}/../nvidia/cudnn/lib"
    "${torch_dir}/../nvidia/nccl/lib" "${torch_dir}/../nvidia/cusparselt/lib"
    "${torch_dir}/../nvidia/nvshmem/lib" /usr/local/cuda/lib64 /usr/local/cuda/lib NO_CACHE)
  if(torch_cuda_library)
    cmake_path(GET torch_cuda_library PARENT_PATH folder)
    list(APPEND torch_cuda_rpath "${folder}")
  else()
    list(APPEND torch_cuda_missing "${library}")
  endif()
  unset(torch_cuda_library)
endforeach()
list(REMOVE_DUPLICATES torch_cuda_rpath)
if(torch_cuda_missing)
  list(JOIN torch_cuda_missing ", " torch_cuda_missing)
  message(STATUS "CUDA of LibTorch lacks ${torch_cuda_missing}: programs with CUDA are left out")
else()
  set(AC_ADVISOR_HAS_LIBTORCH_CUDA ON)
  add_library(libtorch_cuda INTERFACE)
  # Kernels register themselves as the library is loaded; a linker that drops what no symbol is used
  # of would lose them.
  target_link_libraries(libtorch_cuda INTERFACE libtorch -Wl,--push-state,--no-as-needed
    "${torch_dir}/lib/libtorch_cuda.so" "${torch_dir}/lib/libc10_cuda.so" -Wl,--pop-state
    "${cudart_library}")
  foreach(folder IN LISTS torch_cuda_rpath)
    target_link_options(libtorch_cuda INTERFACE
      "LINKER:-rpath,${folder}" "LINKER:-rpath-link,${folder}")
  endforeach()
endif()
