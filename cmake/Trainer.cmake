# src/trainer/: a library of all but main.cpp, and the program ac-trainer. Needs LibTorch.

file(GLOB_RECURSE trainer_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/trainer/*.cpp")
list(FILTER trainer_sources EXCLUDE REGEX "/(no_)?(nvtx|counters)/|/main\\.cpp$")
find_path(nvtx_include nvtx3/nvToolsExt.h PATHS /usr/local/cuda/include NO_CACHE)
if(nvtx_include)
  list(APPEND trainer_sources "${PROJECT_SOURCE_DIR}/src/trainer/nvtx/nvtx.cpp")
else()
  list(APPEND trainer_sources "${PROJECT_SOURCE_DIR}/src/trainer/no_nvtx/nvtx.cpp")
endif()

add_library(ac_advisor_trainer STATIC ${trainer_sources})
ac_advisor_target(ac_advisor_trainer)
target_include_directories(ac_advisor_trainer PUBLIC "${PROJECT_SOURCE_DIR}/src")
if(nvtx_include)
  target_include_directories(ac_advisor_trainer SYSTEM PRIVATE "${nvtx_include}")
endif()
target_link_libraries(ac_advisor_trainer
  PUBLIC ac_advisor ac_advisor_counters libtorch
  PRIVATE fmt::fmt nlohmann_json::nlohmann_json)
target_compile_options(ac_advisor_trainer PRIVATE -fpch-preprocess)  # so that ccache may hit
target_precompile_headers(ac_advisor_trainer PRIVATE <ATen/ATen.h>)
# Loops over rows: sums may be taken in the order that vectors take them in.
set_source_files_properties("${PROJECT_SOURCE_DIR}/src/trainer/kernels/cpu/rows.cpp" PROPERTIES
  SKIP_PRECOMPILE_HEADERS ON
  COMPILE_OPTIONS "-O3;-fno-math-errno;-fno-trapping-math;-fno-signed-zeros;-fassociative-math;-ffp-contract=fast")
file(GLOB_RECURSE alone CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/trainer/collectives/gloo/*.cpp")
list(APPEND alone "${PROJECT_SOURCE_DIR}/src/trainer/nvtx/nvtx.cpp"
  "${PROJECT_SOURCE_DIR}/src/trainer/no_nvtx/nvtx.cpp")
set_source_files_properties(${alone} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
set_source_files_properties("${PROJECT_SOURCE_DIR}/src/trainer/collectives/gloo/gloo.cpp" PROPERTIES
  # c10d's own headers shadow and convert; declarations stand for Gloo's.
  COMPILE_OPTIONS "-isystem;${PROJECT_SOURCE_DIR}/src/trainer/collectives/gloo/declarations")

if(EXISTS "${PROJECT_SOURCE_DIR}/src/trainer/main.cpp")
  add_executable(ac-trainer "${PROJECT_SOURCE_DIR}/src/trainer/main.cpp")
  ac_advisor_target(ac-trainer)
  target_link_libraries(ac-trainer PRIVATE ac_advisor_trainer fmt::fmt)
endif()
