# The injected library's tests, where it is built: a program and a libcupti that play CUDA's part
# (build/<preset>/fake_cuda/), and the tests of unit_tests that need CUPTI's headers.

file(GLOB injection_tests CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/trace/cupti/*.cpp")
list(REMOVE_ITEM unit_sources ${injection_tests})
if(NOT TARGET ac_advisor_injection)
  return()
endif()
list(FILTER injection_tests INCLUDE REGEX "_test\\.cpp$")
list(APPEND unit_sources ${injection_tests}
  "${PROJECT_SOURCE_DIR}/src/injection/library/activity.cpp")

set(cuda_includes
  "${AC_ADVISOR_CUPTI_INCLUDE}" "${AC_ADVISOR_CUDA_INCLUDE}" "${AC_ADVISOR_NVTX_INCLUDE}")
add_library(fake_cupti SHARED "${PROJECT_SOURCE_DIR}/tests/trace/cupti/fake_cupti.cpp")
set_target_properties(fake_cupti PROPERTIES OUTPUT_NAME cupti)
add_executable(fake_cuda_program "${PROJECT_SOURCE_DIR}/tests/trace/cupti/fake_cuda_program.cpp")
target_link_libraries(fake_cuda_program PRIVATE ${CMAKE_DL_LIBS})
foreach(target fake_cupti fake_cuda_program)
  ac_advisor_target(${target})
  target_include_directories(${target} SYSTEM PRIVATE ${cuda_includes})
  set_target_properties(${target} PROPERTIES
    LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/fake_cuda"
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/fake_cuda")
endforeach()

# The counters' tests: a libcupti, a libcuda and a libnvperf_host that are fakes.
if(AC_ADVISOR_HAS_COUNTERS)
  set(fake_nvperf "${PROJECT_BINARY_DIR}/generated/fake_nvperf.cpp")
  file(CONFIGURE OUTPUT "${fake_nvperf}" CONTENT "// Only ever opened.\n")
  add_library(fake_range_profiler SHARED
    "${PROJECT_SOURCE_DIR}/tests/trace/cupti/fake_range_profiler.cpp")
  add_library(fake_driver SHARED "${PROJECT_SOURCE_DIR}/tests/trace/cupti/fake_driver.cpp")
  add_library(fake_nvperf SHARED "${fake_nvperf}")
  set_target_properties(fake_range_profiler PROPERTIES OUTPUT_NAME cupti)
  set_target_properties(fake_driver PROPERTIES OUTPUT_NAME cuda SOVERSION 1)
  set_target_properties(fake_nvperf PROPERTIES OUTPUT_NAME nvperf_host)
  foreach(target fake_range_profiler fake_driver fake_nvperf)
    ac_advisor_target(${target})
    target_include_directories(${target} SYSTEM PRIVATE ${cuda_includes})
    set_target_properties(${target} PROPERTIES
      LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/fake_counters")
  endforeach()
else()
  list(FILTER unit_sources EXCLUDE REGEX "/counters_test\\.cpp$")
endif()
