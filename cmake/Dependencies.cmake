# All from the distribution; scripts/bootstrap.sh installs them, or unpacks them into the user's
# cache where it may not install, and then names that place in the environment's CMAKE_PREFIX_PATH.

find_package(fmt 9 REQUIRED)
find_package(nlohmann_json 3.10 REQUIRED)
find_package(CLI11 2.1 REQUIRED)
# The archive where there is one: loading the shared library would be a fifth of the program's start.
find_library(SQLite3_LIBRARY NAMES libsqlite3.a sqlite3)
find_package(SQLite3 3.36 REQUIRED)  # sqlite3_deserialize
find_library(ZLIB_LIBRARY NAMES libz.a z)
find_package(ZLIB REQUIRED)
# Optional: without it a trace that zstd has packed is refused with the way out.
find_path(AC_ADVISOR_ZSTD_INCLUDE zstd.h)
find_library(AC_ADVISOR_ZSTD_LIBRARY NAMES libzstd.a zstd)
mark_as_advanced(AC_ADVISOR_ZSTD_INCLUDE AC_ADVISOR_ZSTD_LIBRARY)
# Optional: without it `serve` is refused with the way out. Archives: the server needs nothing else of it.
find_path(AC_ADVISOR_LIBEVENT_INCLUDE event2/http.h)
find_library(AC_ADVISOR_LIBEVENT_EXTRA NAMES libevent_extra.a)
find_library(AC_ADVISOR_LIBEVENT_CORE NAMES libevent_core.a)
mark_as_advanced(AC_ADVISOR_LIBEVENT_INCLUDE AC_ADVISOR_LIBEVENT_EXTRA AC_ADVISOR_LIBEVENT_CORE)
# Optional: without it training files of other tools are refused with the way out.
find_path(AC_ADVISOR_YAML_INCLUDE yaml-cpp/yaml.h)
find_library(AC_ADVISOR_YAML_LIBRARY NAMES libyaml-cpp.a yaml-cpp)
mark_as_advanced(AC_ADVISOR_YAML_INCLUDE AC_ADVISOR_YAML_LIBRARY)
# Optional: without it those in TOML are. Its headers are all that is needed.
find_path(AC_ADVISOR_TOML_INCLUDE toml++/toml.h)
mark_as_advanced(AC_ADVISOR_TOML_INCLUDE)
if(AC_ADVISOR_TESTS)
  find_package(doctest 2.4 REQUIRED)
  include(doctest)  # doctest_discover_tests
endif()
if(AC_ADVISOR_BENCH)
  find_package(benchmark QUIET)
  if(NOT benchmark_FOUND)
    message(STATUS "Google Benchmark is not installed: bench/ is left out")
  endif()
endif()
