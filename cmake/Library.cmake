# The core library, the command line's library and the program. A new .cpp in one of these folders
# is picked up by the next build.

configure_file("${PROJECT_SOURCE_DIR}/cmake/version.hpp.in"
  "${PROJECT_BINARY_DIR}/generated/include/ac_advisor/version.hpp" @ONLY)

# src/trainer/ needs LibTorch and is a program of its own: the core never links it.
file(GLOB_RECURSE core_sources CONFIGURE_DEPENDS
  "${PROJECT_SOURCE_DIR}/src/files/*.cpp"
  "${PROJECT_SOURCE_DIR}/src/process/*.cpp"
  "${PROJECT_SOURCE_DIR}/src/graph/*.cpp"
  "${PROJECT_SOURCE_DIR}/src/intake/*.cpp"
  "${PROJECT_SOURCE_DIR}/src/model/*.cpp"
  "${PROJECT_SOURCE_DIR}/src/ir/*.cpp"
  "${PROJECT_SOURCE_DIR}/src/evidence/*.cpp"
  "${PROJECT_SOURCE_DIR}/src/passes/*.cpp"
  "${PROJECT_SOURCE_DIR}/src/simulate/*.cpp"
  "${PROJECT_SOURCE_DIR}/src/profile/*.cpp"
  "${PROJECT_SOURCE_DIR}/src/trace/*.cpp"
  "${PROJECT_SOURCE_DIR}/src/advise/*.cpp"
  "${PROJECT_SOURCE_DIR}/src/snapshot/*.cpp"
  "${PROJECT_SOURCE_DIR}/src/oom/*.cpp"
  "${PROJECT_SOURCE_DIR}/src/dryrun/*.cpp"
  "${PROJECT_SOURCE_DIR}/src/capture/*.cpp"
  "${PROJECT_SOURCE_DIR}/src/gate/*.cpp"
  "${PROJECT_SOURCE_DIR}/src/json/*.cpp"
  "${PROJECT_SOURCE_DIR}/src/serve/*.cpp"
  "${PROJECT_SOURCE_DIR}/reports/*.cpp")
list(FILTER core_sources EXCLUDE REGEX "/src/(files|intake|serve)/(with|no)_[a-z]+/")
if(AC_ADVISOR_ZSTD_INCLUDE AND AC_ADVISOR_ZSTD_LIBRARY)
  set(AC_ADVISOR_HAS_ZSTD TRUE)
  list(APPEND core_sources "${PROJECT_SOURCE_DIR}/src/files/with_zstd/zstd.cpp")
else()
  message(STATUS "libzstd is not found: traces that zstd has packed will be refused")
  list(APPEND core_sources "${PROJECT_SOURCE_DIR}/src/files/no_zstd/zstd.cpp")
endif()
if(AC_ADVISOR_LIBEVENT_INCLUDE AND AC_ADVISOR_LIBEVENT_EXTRA AND AC_ADVISOR_LIBEVENT_CORE)
  set(AC_ADVISOR_HAS_LIBEVENT TRUE)
  list(APPEND core_sources "${PROJECT_SOURCE_DIR}/src/serve/with_libevent/http.cpp")
else()
  message(STATUS "libevent is not found: `ac-advisor serve` will be refused")
  list(APPEND core_sources "${PROJECT_SOURCE_DIR}/src/serve/no_libevent/http.cpp")
endif()
if(AC_ADVISOR_YAML_INCLUDE AND AC_ADVISOR_YAML_LIBRARY)
  set(AC_ADVISOR_HAS_YAML TRUE)
  list(APPEND core_sources "${PROJECT_SOURCE_DIR}/src/intake/with_yaml/yaml.cpp")
else()
  message(STATUS "yaml-cpp is not found: training files of other tools will be refused")
  list(APPEND core_sources "${PROJECT_SOURCE_DIR}/src/intake/no_yaml/yaml.cpp")
endif()
if(AC_ADVISOR_TOML_INCLUDE)
  set(AC_ADVISOR_HAS_TOML TRUE)
  list(APPEND core_sources "${PROJECT_SOURCE_DIR}/src/intake/with_toml/toml.cpp")
else()
  message(STATUS "toml++ is not found: training files in TOML will be refused")
  list(APPEND core_sources "${PROJECT_SOURCE_DIR}/src/intake/no_toml/toml.cpp")
endif()

# Where an installed program has the emulated device: relative to it, so that all of it can be moved.
set(AC_ADVISOR_EMULATOR_FOLDER "${CMAKE_INSTALL_LIBDIR}/ac-advisor/emulator")
file(RELATIVE_PATH AC_ADVISOR_EMULATOR_RELATIVE
  "/${CMAKE_INSTALL_BINDIR}" "/${AC_ADVISOR_EMULATOR_FOLDER}")
configure_file("${PROJECT_SOURCE_DIR}/src/dryrun/paths.hpp.in"
  "${PROJECT_BINARY_DIR}/generated/dryrun/paths.hpp" @ONLY)

add_library(ac_advisor STATIC ${core_sources})
add_library(ac_advisor::ac_advisor ALIAS ac_advisor)
ac_advisor_target(ac_advisor)
ac_advisor_embed(ac_advisor)
ac_advisor_precompile(ac_advisor <algorithm> <array> <cmath> <cstdint> <functional> <map> <optional> <set>
  <span> <string> <string_view> <unordered_map> <utility> <variant> <vector> <fmt/format.h>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # a false positive on a vector<string>::insert
  set_source_files_properties("${PROJECT_SOURCE_DIR}/src/trace/summary.cpp" PROPERTIES
    COMPILE_OPTIONS "-Wno-stringop-overread")
endif()
target_compile_features(ac_advisor PUBLIC cxx_std_20)
target_include_directories(ac_advisor
  PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/generated/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
  PRIVATE
    "${PROJECT_SOURCE_DIR}/src"
    "${PROJECT_SOURCE_DIR}"
    "${PROJECT_BINARY_DIR}/generated")
target_link_libraries(ac_advisor PRIVATE
  fmt::fmt SQLite::SQLite3 ZLIB::ZLIB $<BUILD_INTERFACE:nlohmann_json::nlohmann_json>)
if(AC_ADVISOR_HAS_ZSTD)
  target_include_directories(ac_advisor SYSTEM PRIVATE "${AC_ADVISOR_ZSTD_INCLUDE}")
  target_link_libraries(ac_advisor PRIVATE "${AC_ADVISOR_ZSTD_LIBRARY}")
endif()
if(AC_ADVISOR_HAS_YAML)
  target_include_directories(ac_advisor SYSTEM PRIVATE "${AC_ADVISOR_YAML_INCLUDE}")
  target_link_libraries(ac_advisor PRIVATE "${AC_ADVISOR_YAML_LIBRARY}")
endif()
if(AC_ADVISOR_HAS_TOML)
  target_include_directories(ac_advisor SYSTEM PRIVATE "${AC_ADVISOR_TOML_INCLUDE}")
endif()
if(AC_ADVISOR_HAS_LIBEVENT)
  target_include_directories(ac_advisor SYSTEM PRIVATE "${AC_ADVISOR_LIBEVENT_INCLUDE}")
  target_link_libraries(ac_advisor PRIVATE
    "${AC_ADVISOR_LIBEVENT_EXTRA}" "${AC_ADVISOR_LIBEVENT_CORE}")
endif()

# All of cli/ but main.cpp, so that tests and fuzz targets can link it.
file(GLOB_RECURSE cli_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/cli/*.cpp")
list(REMOVE_ITEM cli_sources "${PROJECT_SOURCE_DIR}/cli/main.cpp")
if(NOT cli_sources)
  set(cli_sources "${PROJECT_BINARY_DIR}/generated/embedded.cpp")  # none written yet
endif()
add_library(ac_advisor_cli STATIC ${cli_sources})
set_target_properties(ac_advisor_cli PROPERTIES LINKER_LANGUAGE CXX)
ac_advisor_target(ac_advisor_cli)
target_include_directories(ac_advisor_cli
  PUBLIC "${PROJECT_SOURCE_DIR}"
  PRIVATE "${PROJECT_SOURCE_DIR}/src")
target_link_libraries(ac_advisor_cli
  PUBLIC ac_advisor
  PRIVATE fmt::fmt nlohmann_json::nlohmann_json CLI11::CLI11)

if(EXISTS "${PROJECT_SOURCE_DIR}/cli/main.cpp")
  add_executable(ac-advisor "${PROJECT_SOURCE_DIR}/cli/main.cpp")
  ac_advisor_target(ac-advisor)
  target_include_directories(ac-advisor PRIVATE "${PROJECT_SOURCE_DIR}/src")
  target_link_libraries(ac-advisor PRIVATE ac_advisor_cli fmt::fmt)
  if(AC_ADVISOR_STATIC)
    # Debian has no archive of fmt: its functions once more, from its headers, in a file of their own
    # (all others are compiled as they always are, and come from the same ccache). Then nothing of
    # the shared library is needed, and the linker leaves it out.
    target_sources(ac-advisor PRIVATE "${PROJECT_SOURCE_DIR}/cmake/fmt_functions.cpp")
    set_source_files_properties("${PROJECT_SOURCE_DIR}/cmake/fmt_functions.cpp" PROPERTIES
      COMPILE_OPTIONS "-fkeep-inline-functions;-ffunction-sections")
    target_link_options(ac-advisor PRIVATE
      -static-libstdc++ -static-libgcc LINKER:--as-needed,--gc-sections)
  endif()
  # What cmake/Install.cmake puts where shells and man look for it.
  foreach(kind bash zsh fish man)
    set(bash_file completions/ac-advisor.bash)
    set(zsh_file completions/_ac-advisor)
    set(fish_file completions/ac-advisor.fish)
    set(man_file ac-advisor.1)
    add_custom_command(OUTPUT "${PROJECT_BINARY_DIR}/${${kind}_file}"
      COMMAND "${CMAKE_COMMAND}" -E make_directory "${PROJECT_BINARY_DIR}/completions"
      COMMAND ac-advisor generate ${kind} --output "${PROJECT_BINARY_DIR}/${${kind}_file}"
      DEPENDS ac-advisor VERBATIM)
    list(APPEND ac_advisor_generated "${PROJECT_BINARY_DIR}/${${kind}_file}")
  endforeach()
  add_custom_target(ac_advisor_generated_files ALL DEPENDS ${ac_advisor_generated})
endif()
