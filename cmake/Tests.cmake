# Each TEST_CASE is a CTest test of its own; the folder decides its binary and its label:
#   tests/oracle/  oracle_tests   oracle
#   tests/gpu/     gpu_tests      gpu      (not in the default test presets)
#   tests/browser/ browser_tests  browser  (not in the default test presets)
#   tests/web/     web_tests      web      (not in the default test presets; needs the preset `web`)
#   tests/...      unit_tests     unit
# cmake/WheelTest.cmake has the label package: it needs a network, and is not in the default presets.

set(sanitized false)
if(AC_ADVISOR_SANITIZE)
  set(sanitized true)
endif()
# test_paths.hpp: where the tests find the sources and the program.
file(GENERATE OUTPUT "${PROJECT_BINARY_DIR}/generated/test/test_paths.hpp" CONTENT
"#pragma once

#include <string_view>

namespace ac_advisor::test {

inline constexpr std::string_view source_dir = \"${PROJECT_SOURCE_DIR}\";
inline constexpr std::string_view binary_dir = \"${PROJECT_BINARY_DIR}\";
inline constexpr std::string_view trainer = \"$<IF:$<TARGET_EXISTS:ac-trainer>,${PROJECT_BINARY_DIR}/ac-trainer,>\";
inline constexpr std::string_view trainer_cuda = \"$<IF:$<TARGET_EXISTS:ac-trainer-cuda>,${PROJECT_BINARY_DIR}/ac-trainer-cuda,>\";
inline constexpr bool has_zstd = $<BOOL:${AC_ADVISOR_HAS_ZSTD}>;
inline constexpr bool has_yaml = $<BOOL:${AC_ADVISOR_HAS_YAML}>;
inline constexpr bool has_toml = $<BOOL:${AC_ADVISOR_HAS_TOML}>;
/// Under AddressSanitizer, ten times as slow: what repeats the same code with other numbers may do so
/// less often.
inline constexpr bool sanitized = ${sanitized};
inline constexpr std::string_view program = \"$<IF:$<TARGET_EXISTS:ac-advisor>,${PROJECT_BINARY_DIR}/ac-advisor,>\";

}  // namespace ac_advisor::test
")

add_library(doctest_main OBJECT "${PROJECT_SOURCE_DIR}/cmake/doctest_main.cpp")
target_link_libraries(doctest_main PUBLIC doctest::doctest)
ac_advisor_target(doctest_main)

function(ac_advisor_test_binary label)
  if(NOT ARGN)
    return()
  endif()
  set(target ${label}_tests)
  add_executable(${target} ${ARGN} $<TARGET_OBJECTS:doctest_main>)
  ac_advisor_target(${target})
  # What is tested is optimised; the tests themselves compile in half the time without. Those of the
  # trainer share its precompiled header, and so its options.
  if(NOT label MATCHES "trainer|gpu")
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O0>)
  endif()
  target_compile_definitions(${target} PRIVATE DOCTEST_CONFIG_SUPER_FAST_ASSERTS)
  target_include_directories(${target} PRIVATE
    "${PROJECT_SOURCE_DIR}/src"
    "${PROJECT_SOURCE_DIR}/tests"
    "${PROJECT_SOURCE_DIR}"
    "${PROJECT_BINARY_DIR}/generated/test")
  target_link_libraries(${target} PRIVATE
    ac_advisor_cli ac_advisor fmt::fmt nlohmann_json::nlohmann_json doctest::doctest)
  if(NOT label MATCHES "trainer|gpu")
    ac_advisor_precompile(${target} <algorithm> <filesystem> <map> <optional> <sstream> <string> <variant> <vector>
      <doctest/doctest.h> <fmt/format.h> <nlohmann/json.hpp>)
  endif()
  if(TARGET ac-advisor)
    add_dependencies(${target} ac-advisor)
  endif()
  doctest_discover_tests(${target}
    TEST_PREFIX "${label}:"
    WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}"
    # A name that doctest's own filter does not match would otherwise pass having run nothing.
    PROPERTIES LABELS ${label} FAIL_REGULAR_EXPRESSION "test cases: +0 "
      SKIP_REGULAR_EXPRESSION "not run: (no CUDA device|the page is not built)")
endfunction()

file(GLOB_RECURSE unit_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/*.cpp")
# A list of CMake's ends at a semicolon, and with it a test's name: CTest would run none of that name.
foreach(source ${unit_sources})
  file(STRINGS "${source}" cut REGEX "TEST_CASE\\(\"[^\"]*;")
  if(cut)
    message(FATAL_ERROR "${source}: a TEST_CASE has a semicolon in its name; leave it out")
  endif()
endforeach()
# Compiled against PyTorch's headers by the script beside it, never here.
set(not_a_test "${PROJECT_SOURCE_DIR}/tests/oracle/counting_allocator.cpp")
list(REMOVE_ITEM unit_sources "${not_a_test}")
list(FILTER unit_sources EXCLUDE REGEX "/tests/replay/")  # programs of their own: Replay.cmake
# What needs LibTorch: trainer_tests, label trainer.
file(GLOB_RECURSE trainer_tests CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/trainer/*.cpp")
if(trainer_tests)
  list(REMOVE_ITEM unit_sources ${trainer_tests})
endif()
# What needs the emulated device's own code: emulator_tests, label emulated.
file(GLOB emulator_tests CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/emulator/*.cpp")
if(emulator_tests)
  list(REMOVE_ITEM unit_sources ${emulator_tests})
endif()
if(TARGET ac_advisor_emulator_objects)
  include(EmulatorTests)
endif()
foreach(label oracle gpu browser web)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/${label}/*.cpp")
  list(REMOVE_ITEM unit_sources ${sources})
  list(REMOVE_ITEM sources "${not_a_test}")
  if(label STREQUAL web)
    list(APPEND sources "${PROJECT_SOURCE_DIR}/tests/browser/chromium.cpp")
  endif()
  if(label STREQUAL gpu)
    list(REMOVE_ITEM sources "${PROJECT_SOURCE_DIR}/tests/gpu/host_kernels.cpp")
    if(TARGET ac_advisor_cuda)  # whole steps: they share the trainer's tests' way to run one
      list(APPEND sources "${PROJECT_SOURCE_DIR}/tests/trainer/run_step.cpp")
    else()
      list(REMOVE_ITEM sources "${PROJECT_SOURCE_DIR}/tests/gpu/step_test.cpp")
    endif()
    if(NOT AC_ADVISOR_HAS_CUDA)
      set(sources)
    endif()
  endif()
  if(AC_ADVISOR_SANITIZE AND label MATCHES "browser|web")  # it drives the same code in any build
    set(sources)
  endif()
  ac_advisor_test_binary(${label} ${sources})
endforeach()
include(InjectionTest)  # may take tests out, or add targets that they need
ac_advisor_test_binary(unit ${unit_sources})
if(TARGET ac_advisor_trainer)
  ac_advisor_test_binary(trainer ${trainer_tests})
  target_link_libraries(trainer_tests PRIVATE
    ac_advisor_trainer ac_advisor_no_cuda ac_advisor_cuda_kernels ac_advisor_host_kernels)
  target_precompile_headers(trainer_tests REUSE_FROM ac_advisor_trainer)
  # array-bounds, stringop-overflow: false positives of GCC 12 on lists of strings
  target_compile_options(trainer_tests PRIVATE -fpch-preprocess -Wno-array-bounds -Wno-stringop-overflow)
  foreach(program ac-trainer ac-trainer-cuda)
    if(TARGET ${program})
      add_dependencies(trainer_tests ${program})
    endif()
  endforeach()
endif()
if(TARGET gpu_tests)
  target_link_libraries(gpu_tests PRIVATE
    ac_advisor_device_kernels ac_advisor_host_kernels_shared CUDA::cudart)
  if(TARGET ac_advisor_cuda)
    target_link_libraries(gpu_tests PRIVATE ac_advisor_trainer ac_advisor_cuda)
    target_compile_options(gpu_tests PRIVATE -Wno-array-bounds -Wno-stringop-overflow)
  endif()
endif()
if(TARGET fake_cupti)
  target_include_directories(unit_tests SYSTEM PRIVATE ${cuda_includes})
  add_dependencies(unit_tests fake_cupti fake_cuda_program)
endif()
target_link_libraries(unit_tests PRIVATE ac_advisor_counters)
if(TARGET fake_range_profiler)
  target_include_directories(unit_tests PRIVATE "${PROJECT_BINARY_DIR}/generated")
  add_dependencies(unit_tests fake_range_profiler fake_driver fake_nvperf)
endif()

if(TARGET ac-advisor AND NOT AC_ADVISOR_SANITIZE)
  add_test(NAME "unit:the Python package from its sources, with the program's schemas"
    COMMAND "${CMAKE_COMMAND}" -E env "AC_ADVISOR=$<TARGET_FILE:ac-advisor>"
      "AC_ADVISOR_SOURCE=${PROJECT_SOURCE_DIR}" "PYTHONPATH=${PROJECT_SOURCE_DIR}/python"
      python3 "${PROJECT_SOURCE_DIR}/tests/python/package_test.py")
  set_tests_properties("unit:the Python package from its sources, with the program's schemas"
    PROPERTIES LABELS unit)
endif()

# Unlinked: whether what fuzz/ calls is still there, without clang's build of it.
if(NOT AC_ADVISOR_FUZZ)
  file(GLOB fuzz_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/fuzz/*_fuzz.cpp")
  add_library(fuzz_sources OBJECT ${fuzz_sources})
  ac_advisor_target(fuzz_sources)
  target_compile_options(fuzz_sources PRIVATE $<$<CONFIG:Release>:-O0>)
  target_include_directories(fuzz_sources PRIVATE "${PROJECT_SOURCE_DIR}/src")
  target_link_libraries(fuzz_sources PRIVATE
    ac_advisor_cli ac_advisor fmt::fmt nlohmann_json::nlohmann_json)
endif()

if(AC_ADVISOR_PACKAGE_TESTS)
  include(HeaderTest)
  if(TARGET ac-advisor)
    include(InstallTest)
    include(DebTest)
    include(WheelTest)
  endif()
endif()
