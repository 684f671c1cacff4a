# fuzz/<name>_fuzz.cpp defines LLVMFuzzerTestOneInput and becomes build/asan/<name>_fuzz.

file(GLOB fuzz_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/fuzz/*_fuzz.cpp")
add_custom_target(fuzzers)
foreach(source IN LISTS fuzz_sources)
  cmake_path(GET source STEM target)
  add_executable(${target} "${source}")
  ac_advisor_target(${target})
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/src")
  target_link_libraries(${target} PRIVATE
    ac_advisor_cli ac_advisor fmt::fmt nlohmann_json::nlohmann_json)
  target_link_options(${target} PRIVATE -fsanitize=fuzzer)
  add_dependencies(fuzzers ${target})
endforeach()
