# The library that `ac-advisor trace` has the CUDA driver load into a program. Built where cupti.h of
# CUDA 12 or 13 and NVTX's headers are found; elsewhere the tool says that it lacks it, and why.
# Nothing here links CUDA: libcupti is opened at run time, libcuda is what opens this library.

find_package(CUDAToolkit QUIET)
find_path(AC_ADVISOR_CUPTI_INCLUDE cupti.h
  HINTS ${CUDAToolkit_INCLUDE_DIRS} ${CUDAToolkit_LIBRARY_ROOT}/extras/CUPTI/include
  PATHS /usr/local/cuda/include /usr/local/cuda/extras/CUPTI/include)
find_path(AC_ADVISOR_CUDA_INCLUDE cuda.h
  HINTS ${CUDAToolkit_INCLUDE_DIRS} PATHS /usr/local/cuda/include)
find_path(AC_ADVISOR_NVTX_INCLUDE nvtx3/nvToolsExt.h
  HINTS ${CUDAToolkit_INCLUDE_DIRS} PATHS /usr/local/cuda/include)
find_library(AC_ADVISOR_CUPTI_LIBRARY NAMES cupti libcupti.so.13 libcupti.so.12
  HINTS ${CUDAToolkit_LIBRARY_DIR} ${CUDAToolkit_LIBRARY_ROOT}/extras/CUPTI/lib64
  PATHS /usr/local/cuda/lib64 /usr/local/cuda/extras/CUPTI/lib64)
mark_as_advanced(AC_ADVISOR_CUPTI_INCLUDE AC_ADVISOR_CUDA_INCLUDE AC_ADVISOR_NVTX_INCLUDE
  AC_ADVISOR_CUPTI_LIBRARY)

set(AC_ADVISOR_CUPTI_VERSION 0)
if(AC_ADVISOR_CUPTI_INCLUDE AND EXISTS "${AC_ADVISOR_CUPTI_INCLUDE}/cupti_version.h")
  file(STRINGS "${AC_ADVISOR_CUPTI_INCLUDE}/cupti_version.h" line
    REGEX "#define CUPTI_API_VERSION +[0-9]+")
  string(REGEX MATCH "[0-9]+" AC_ADVISOR_CUPTI_VERSION "${line}")
endif()

if(AC_ADVISOR_CUPTI_VERSION LESS 18 OR NOT AC_ADVISOR_CUDA_INCLUDE OR NOT AC_ADVISOR_NVTX_INCLUDE)
  message(STATUS "CUPTI of CUDA 12 or later is not found: `ac-advisor trace` is left out")
  target_sources(ac_advisor PRIVATE "${PROJECT_SOURCE_DIR}/src/injection/no_cupti/injection.cpp")
  return()
endif()

set(AC_ADVISOR_INJECTION_FILE "libac_advisor_injection.so")
# Relative to the program, so that an installation can be moved.
set(AC_ADVISOR_INJECTION_FOLDER "${CMAKE_INSTALL_LIBDIR}/ac-advisor")
file(RELATIVE_PATH AC_ADVISOR_INJECTION_RELATIVE
  "/${CMAKE_INSTALL_BINDIR}" "/${AC_ADVISOR_INJECTION_FOLDER}")
if(NOT AC_ADVISOR_CUPTI_LIBRARY)
  set(AC_ADVISOR_CUPTI_LIBRARY "libcupti.so")
endif()
configure_file("${PROJECT_SOURCE_DIR}/src/injection/cupti/paths.hpp.in"
  "${PROJECT_BINARY_DIR}/generated/injection/cupti/paths.hpp" @ONLY)

target_sources(ac_advisor PRIVATE "${PROJECT_SOURCE_DIR}/src/injection/cupti/injection.cpp")
target_include_directories(ac_advisor PRIVATE "${PROJECT_BINARY_DIR}/generated")

add_library(ac_advisor_injection SHARED
  "${PROJECT_SOURCE_DIR}/src/injection/library/activity.cpp"
  "${PROJECT_SOURCE_DIR}/src/injection/library/cupti_api.cpp"
  "${PROJECT_SOURCE_DIR}/src/injection/library/cupti_session.cpp"
  "${PROJECT_SOURCE_DIR}/src/injection/library/entry.cpp"
  "${PROJECT_SOURCE_DIR}/src/injection/library/nvtx.cpp"
  "${PROJECT_SOURCE_DIR}/src/injection/library/process.cpp"
  "${PROJECT_SOURCE_DIR}/src/trace/collector.cpp"
  "${PROJECT_SOURCE_DIR}/src/trace/write_json.cpp"
  "${PROJECT_SOURCE_DIR}/src/trace/kernel_kinds.cpp"
  "${PROJECT_SOURCE_DIR}/src/trace/open_ranges.cpp"
  "${PROJECT_SOURCE_DIR}/src/trace/range_tree.cpp"
  "${PROJECT_SOURCE_DIR}/src/trace/recorder.cpp"
  "${PROJECT_SOURCE_DIR}/src/trace/timeline.cpp"
  "${PROJECT_SOURCE_DIR}/src/trace/trace.cpp")
# Into programs that are not instrumented: the warnings of every target, but no sanitizer.
get_target_property(options ac_advisor_flags INTERFACE_COMPILE_OPTIONS)
list(FILTER options EXCLUDE REGEX "sanitize")
target_compile_options(ac_advisor_injection PRIVATE ${options})
target_include_directories(ac_advisor_injection PRIVATE
  "${PROJECT_SOURCE_DIR}/include"
  "${PROJECT_SOURCE_DIR}/src"
  "${PROJECT_BINARY_DIR}/generated")
target_include_directories(ac_advisor_injection SYSTEM PRIVATE
  "${AC_ADVISOR_CUPTI_INCLUDE}" "${AC_ADVISOR_CUDA_INCLUDE}" "${AC_ADVISOR_NVTX_INCLUDE}")
# The program may bring an older libstdc++, or another nlohmann_json: nothing of this library's is
# seen by it, nor the other way round.
target_link_libraries(ac_advisor_injection PRIVATE nlohmann_json::nlohmann_json ${CMAKE_DL_LIBS})
target_link_options(ac_advisor_injection PRIVATE
  -static-libstdc++ -static-libgcc "LINKER:-z,nodelete"
  "LINKER:--version-script=${PROJECT_SOURCE_DIR}/src/injection/library/exports.map"
  "LINKER:--no-undefined")
set_target_properties(ac_advisor_injection PROPERTIES
  CXX_VISIBILITY_PRESET hidden
  VISIBILITY_INLINES_HIDDEN ON)
if(TARGET ac-advisor)
  add_dependencies(ac-advisor ac_advisor_injection)
endif()
