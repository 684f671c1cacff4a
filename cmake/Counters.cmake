# Hardware counters of the trainer's step, a library without LibTorch. Built on CUPTI where the range
# profiler's headers of CUDA 13 are found; elsewhere `Counters::open` says that it lacks them.
# libcupti and libcuda are opened at run time, never linked. Needs what Injection.cmake has found.

if(AC_ADVISOR_CUPTI_VERSION GREATER_EQUAL 130000 AND AC_ADVISOR_CUDA_INCLUDE
    AND TARGET ac_advisor_injection
    AND EXISTS "${AC_ADVISOR_CUPTI_INCLUDE}/cupti_range_profiler.h")
  add_library(ac_advisor_counters STATIC
    "${PROJECT_SOURCE_DIR}/src/trainer/counters/cupti/api.cpp"
    "${PROJECT_SOURCE_DIR}/src/trainer/counters/cupti/counters.cpp"
    "${PROJECT_SOURCE_DIR}/src/trainer/counters/cupti/metrics.cpp")
  target_include_directories(ac_advisor_counters SYSTEM PRIVATE
    "${AC_ADVISOR_CUPTI_INCLUDE}" "${AC_ADVISOR_CUDA_INCLUDE}")
  target_include_directories(ac_advisor_counters PRIVATE "${PROJECT_BINARY_DIR}/generated")
  target_link_libraries(ac_advisor_counters PRIVATE ${CMAKE_DL_LIBS})
  set(AC_ADVISOR_HAS_COUNTERS ON)
else()
  add_library(ac_advisor_counters STATIC "${PROJECT_SOURCE_DIR}/src/trainer/no_counters/counters.cpp")
  set(AC_ADVISOR_HAS_COUNTERS OFF)
endif()
target_sources(ac_advisor_counters PRIVATE "${PROJECT_SOURCE_DIR}/src/trainer/counters/add_counters.cpp")
ac_advisor_target(ac_advisor_counters)
target_include_directories(ac_advisor_counters PUBLIC "${PROJECT_SOURCE_DIR}/src")
target_link_libraries(ac_advisor_counters PUBLIC ac_advisor)
