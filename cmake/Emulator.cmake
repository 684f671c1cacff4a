# The library that `ac-advisor dryrun` preloads into a program: a CUDA device that is not there.
# It links nothing of CUDA and needs only its headers, of a toolkit or of PyPI's nvidia-cuda-runtime;
# where CUDA 13's are not found, dryrun says so.

find_package(CUDAToolkit QUIET)
# What scripts/bootstrap.sh fetched.
if(DEFINED ENV{XDG_CACHE_HOME})
  set(cache_dir "$ENV{XDG_CACHE_HOME}/ac-advisor")
else()
  set(cache_dir "$ENV{HOME}/.cache/ac-advisor")
endif()
file(GLOB wheel_includes
  "${cache_dir}/libtorch-2.11.0/nvidia/cu13/include"
  "${cache_dir}/cuda-headers-13.0/nvidia/cu13/include"
  "${cache_dir}/python-2.11/lib/python3*/site-packages/nvidia/cu13/include")
find_path(AC_ADVISOR_EMULATOR_INCLUDE cuda_runtime_api.h
  HINTS ${CUDAToolkit_INCLUDE_DIRS} ${wheel_includes}
  PATHS /usr/local/cuda/include)
mark_as_advanced(AC_ADVISOR_EMULATOR_INCLUDE)
set(AC_ADVISOR_EMULATOR_CUDART 0)
if(AC_ADVISOR_EMULATOR_INCLUDE)
  file(STRINGS "${AC_ADVISOR_EMULATOR_INCLUDE}/cuda_runtime_api.h" line
    REGEX "#define CUDART_VERSION +[0-9]+")
  string(REGEX MATCH "[0-9]+" AC_ADVISOR_EMULATOR_CUDART "${line}")
endif()
if(AC_ADVISOR_EMULATOR_CUDART LESS 13000 OR NOT AC_ADVISOR_EMULATOR_CUDART LESS 14000)
  message(STATUS "Headers of CUDA 13 are not found: the emulated device of `ac-advisor dryrun` is left out")
  return()
endif()

# A function that nothing answers for ends the run with its name: a weak definition for each name in
# names/, which a real one replaces.
set(names_dir "${PROJECT_SOURCE_DIR}/src/emulator/names")
file(GLOB name_files CONFIGURE_DEPENDS "${names_dir}/*.txt")
set(unanswered_source "${PROJECT_BINARY_DIR}/generated/emulator/unanswered.cpp")
add_custom_command(OUTPUT "${unanswered_source}"
  COMMAND "${CMAKE_COMMAND}" "-DNAMES=${name_files}" "-DOUTPUT=${unanswered_source}"
    -P "${PROJECT_SOURCE_DIR}/cmake/generate_unanswered.cmake"
  DEPENDS ${name_files} "${PROJECT_SOURCE_DIR}/cmake/generate_unanswered.cmake"
  VERBATIM)

file(GLOB_RECURSE emulator_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/emulator/*.cpp")
# Its objects are linked into its tests too.
add_library(ac_advisor_emulator_objects OBJECT ${emulator_sources} "${unanswered_source}")
add_library(ac_advisor_emulator SHARED $<TARGET_OBJECTS:ac_advisor_emulator_objects>)
# Into programs that are not instrumented: the warnings of every target, but no sanitizer.
get_target_property(options ac_advisor_flags INTERFACE_COMPILE_OPTIONS)
list(FILTER options EXCLUDE REGEX "sanitize|old-style-cast|cast-qual|pedantic")
target_compile_options(ac_advisor_emulator_objects PRIVATE ${options} -Wno-pedantic)
target_include_directories(ac_advisor_emulator_objects PRIVATE "${PROJECT_SOURCE_DIR}/src")
target_include_directories(ac_advisor_emulator_objects SYSTEM PRIVATE
  "${AC_ADVISOR_EMULATOR_INCLUDE}")
set_target_properties(ac_advisor_emulator_objects PROPERTIES
  CXX_STANDARD 17
  POSITION_INDEPENDENT_CODE ON)
target_link_libraries(ac_advisor_emulator PRIVATE ${CMAKE_DL_LIBS})
target_link_options(ac_advisor_emulator PRIVATE
  -static-libstdc++ -static-libgcc "LINKER:-z,nodelete"
  "LINKER:--version-script=${PROJECT_SOURCE_DIR}/src/emulator/exports.map"
  "LINKER:--no-undefined")
set_target_properties(ac_advisor_emulator PROPERTIES
  LINKER_LANGUAGE CXX
  LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/emulator")
# Under the names that programs open it by.
add_custom_command(TARGET ac_advisor_emulator POST_BUILD
  COMMAND "${CMAKE_COMMAND}" -E create_symlink libac_advisor_emulator.so libcuda.so.1
  COMMAND "${CMAKE_COMMAND}" -E create_symlink libac_advisor_emulator.so libnvidia-ml.so.1
  WORKING_DIRECTORY "${PROJECT_BINARY_DIR}/emulator" VERBATIM)
# What it loads into a program's Python: a package for each subject, and the sitecustomize that
# installs them. Links, so that an edit needs no build.
set(python_dir "${PROJECT_BINARY_DIR}/emulator/python")
file(MAKE_DIRECTORY "${python_dir}")
file(GLOB python_files CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/emulator/python/*"
  "${PROJECT_SOURCE_DIR}/src/emulator/values/python/ac_advisor_*")
foreach(file IN LISTS python_files)
  get_filename_component(name "${file}" NAME)
  if(NOT name STREQUAL "__pycache__")
    file(CREATE_LINK "${file}" "${python_dir}/${name}" SYMBOLIC)
  endif()
endforeach()
# Where `ac-advisor import` finds ac_advisor.capture, if nothing is installed.
file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/emulator/capture")
file(CREATE_LINK "${PROJECT_SOURCE_DIR}/python/ac_advisor"
  "${PROJECT_BINARY_DIR}/emulator/capture/ac_advisor" SYMBOLIC)
if(TARGET ac-advisor)
  add_dependencies(ac-advisor ac_advisor_emulator)
endif()
