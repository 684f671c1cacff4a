# -DAC_ADVISOR_ZIG=<zig>: ac-advisor and the emulated device are linked for glibc 2.28, whatever this machine has.
# They are compiled as ever, object for object (and from the same ccache); zig, which knows each glibc's symbols,
# links them with this compiler's archive of libstdc++ and an unwinder of its own. scripts/wheel does it.

set(AC_ADVISOR_ZIG "" CACHE FILEPATH "A zig that links for glibc 2.28 in the place of the compiler")
mark_as_advanced(AC_ADVISOR_ZIG)
if(NOT AC_ADVISOR_ZIG)
  return()
endif()
execute_process(COMMAND "${CMAKE_CXX_COMPILER}" -print-file-name=libstdc++.a
  OUTPUT_VARIABLE libstdcxx OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
set(zig_link "\"${AC_ADVISOR_ZIG}\" cc -target ${CMAKE_SYSTEM_PROCESSOR}-linux-gnu.2.28 -s -Wno-unused-command-line-argument")
set(zig_libraries "<LINK_LIBRARIES> \"${libstdcxx}\" -lunwind -lm -lpthread -ldl")
set(CMAKE_CXX_LINK_EXECUTABLE
  "${zig_link} <LINK_FLAGS> <OBJECTS> -o <TARGET> ${zig_libraries}")
set(CMAKE_CXX_CREATE_SHARED_LIBRARY
  "${zig_link} <CMAKE_SHARED_LIBRARY_CXX_FLAGS> <LINK_FLAGS> <CMAKE_SHARED_LIBRARY_CREATE_CXX_FLAGS> <SONAME_FLAG><TARGET_SONAME> -o <TARGET> <OBJECTS> ${zig_libraries}")

# What archives and headers of this machine's glibc ask for and 2.28 has not.
add_library(ac_advisor_old_glibc OBJECT "${PROJECT_SOURCE_DIR}/cmake/old_glibc.cpp")
set_target_properties(ac_advisor_old_glibc PROPERTIES POSITION_INDEPENDENT_CODE ON)
ac_advisor_target(ac_advisor_old_glibc)
foreach(target ac-advisor ac_advisor_emulator ac_advisor_injection)
  if(TARGET ${target})
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:ac_advisor_old_glibc>)
  endif()
endforeach()
# `environ` has two names more in glibc, and zig copies the one that is asked for into the program, where glibc never
# writes: who reads it does so by its address (scripts/check_wheel finds such copies).
set_source_files_properties("${PROJECT_SOURCE_DIR}/src/process/child.cpp" "${PROJECT_SOURCE_DIR}/cli/serve.cpp"
  PROPERTIES COMPILE_OPTIONS "-fPIC" SKIP_PRECOMPILE_HEADERS ON)
