# One translation unit per public header that includes it twice and nothing before it: a header
# that leans on another include, or has no guard, fails the build of this target and its test.

file(GLOB_RECURSE public_headers CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}/include"
  "${PROJECT_SOURCE_DIR}/include/*.hpp")
if(NOT public_headers)
  return()
endif()

set(header_sources)
foreach(header IN LISTS public_headers)
  set(source "${PROJECT_BINARY_DIR}/generated/headers/${header}.cpp")
  file(CONFIGURE OUTPUT "${source}"
    CONTENT "#include \"${header}\"\n#include \"${header}\"\n" @ONLY)
  list(APPEND header_sources "${source}")
endforeach()

add_library(headers_alone OBJECT ${header_sources})
ac_advisor_target(headers_alone)
target_link_libraries(headers_alone PRIVATE ac_advisor)

add_test(NAME "unit:every public header compiles alone"
  COMMAND "${CMAKE_COMMAND}" --build "${PROJECT_BINARY_DIR}" --target headers_alone)
set_tests_properties("unit:every public header compiles alone" PROPERTIES
  LABELS unit RUN_SERIAL ON)
