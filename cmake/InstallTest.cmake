# The installed package, as another project meets it. Included by Tests.cmake, it adds the test;
# run with `cmake -P`, it is the test.

if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(name "unit:an installed package is found, linked and run")
  add_test(NAME "${name}" COMMAND "${CMAKE_COMMAND}"
    "-DBUILD=${PROJECT_BINARY_DIR}" "-DCOMPILER=${CMAKE_CXX_COMPILER}"
    -P "${CMAKE_CURRENT_LIST_FILE}")
  set_tests_properties("${name}" PROPERTIES LABELS unit)
  return()
endif()

set(prefix "${BUILD}/install_test/prefix")
set(consumer "${BUILD}/install_test/consumer")
file(REMOVE_RECURSE "${BUILD}/install_test")

function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

run("${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${prefix}")
run("${CMAKE_COMMAND}" -G Ninja -S "${CMAKE_CURRENT_LIST_DIR}/consumer" -B "${consumer}"
  "-DCMAKE_CXX_COMPILER=${COMPILER}" "-Dac_advisor_ROOT=${prefix}")
run("${CMAKE_COMMAND}" --build "${consumer}")
run("${consumer}/consumer")
run("${prefix}/bin/ac-advisor" --version)
