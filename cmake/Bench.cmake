# One program of all bench/*.cpp: build/<preset>/ac_advisor_bench.

file(GLOB bench_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/bench/*.cpp")
if(NOT bench_sources)
  return()
endif()
add_executable(ac_advisor_bench ${bench_sources})
ac_advisor_target(ac_advisor_bench)
target_include_directories(ac_advisor_bench PRIVATE "${PROJECT_SOURCE_DIR}/src")
target_link_libraries(ac_advisor_bench PRIVATE
  ac_advisor_cli ac_advisor fmt::fmt benchmark::benchmark benchmark::benchmark_main)
if(TARGET ac-advisor)
  add_dependencies(ac_advisor_bench ac-advisor)
endif()
