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
