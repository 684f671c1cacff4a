# What every target of this project is compiled with.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
# -O3 makes this program larger and slower to build, not faster.
string(REPLACE "-O3" "-O2" CMAKE_CXX_FLAGS_RELEASE "${CMAKE_CXX_FLAGS_RELEASE}")

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Paths are hashed relative to the checkout, so that a fresh clone hits the cache of another one.
  set(CMAKE_CXX_COMPILER_LAUNCHER
    "${CMAKE_COMMAND}" -E env "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" CCACHE_NOHASHDIR=1
    CCACHE_SLOPPINESS=pch_defines,time_macros
    "${CCACHE_PROGRAM}")
endif()

add_library(ac_advisor_flags INTERFACE)
target_compile_options(ac_advisor_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wold-style-cast -Wcast-qual -Wcast-align
  -Wnon-virtual-dtor -Woverloaded-virtual -Wundef -Wformat=2 -Wimplicit-fallthrough
  -Wno-sign-conversion  # clang counts it into -Wconversion, GCC does not
  # Designated initializers leave members at their defaults; -Wextra would have all of them named.
  -Wno-missing-field-initializers)
if(AC_ADVISOR_WERROR)
  target_compile_options(ac_advisor_flags INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(ac_advisor_flags INTERFACE -Wduplicated-cond -Wlogical-op)
  if(CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # False positives of GCC 12 on std::string concatenation (its bugs 105651 and 105329).
    target_compile_options(ac_advisor_flags INTERFACE -Wno-restrict)
  endif()
endif()

if(CMAKE_BUILD_TYPE STREQUAL "Debug" OR AC_ADVISOR_SANITIZE)
  target_compile_definitions(ac_advisor_flags INTERFACE _GLIBCXX_ASSERTIONS)
endif()

if(AC_ADVISOR_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "AC_ADVISOR_FUZZ needs clang (libFuzzer): use the preset `asan`, "
      "or set CMAKE_CXX_COMPILER=clang++-14.")
  endif()
  list(APPEND AC_ADVISOR_SANITIZERS fuzzer-no-link)
endif()
if(AC_ADVISOR_SANITIZE)
  list(APPEND AC_ADVISOR_SANITIZERS "${AC_ADVISOR_SANITIZE}")
endif()
if(AC_ADVISOR_SANITIZERS)
  list(JOIN AC_ADVISOR_SANITIZERS "," sanitizers)
  target_compile_options(ac_advisor_flags INTERFACE
    -fsanitize=${sanitizers} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(ac_advisor_flags INTERFACE -fsanitize=${sanitizers})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC's flow analysis loses track in instrumented code and warns of what is not so.
    target_compile_options(ac_advisor_flags INTERFACE -Wno-maybe-uninitialized)
  endif()
endif()

function(ac_advisor_target target)
  target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:ac_advisor_flags>)
endfunction()

# Precompiles what most files of the target include. The preset `web` builds the core without, and
# -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON all of it, which shows a file that forgot an include.
function(ac_advisor_precompile target)
  target_precompile_headers(${target} PRIVATE ${ARGN})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # -fpch-preprocess: so that ccache may hit. The others: what the standard library's inline functions do is
    # no longer in a system header once it comes from a precompiled one, and GCC 12 warns of lists of strings.
    target_compile_options(${target} PRIVATE
      $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess;-Wno-array-bounds;-Wno-stringop-overflow>)
  endif()
endfunction()
