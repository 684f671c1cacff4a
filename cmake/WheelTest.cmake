# `pip install .` as a user does it: in a virtual environment that holds nothing else, with the build
# requirements from PyPI. Then a release's wheel, linked anew from the same objects, and what scripts/check_wheel
# says of it. Included by Tests.cmake, it adds the test (label package: it needs a
# network); run with `cmake -P`, it is the test.

if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(name "package:pip install and a release's wheel give the command and the module")
  add_test(NAME "${name}" COMMAND "${CMAKE_COMMAND}"
    "-DBUILD=${PROJECT_BINARY_DIR}" "-DSOURCE=${PROJECT_SOURCE_DIR}"
    "-DCOMPILER=${CMAKE_CXX_COMPILER}" "-DWERROR=${AC_ADVISOR_WERROR}"
    -P "${CMAKE_CURRENT_LIST_FILE}")
  set_tests_properties("${name}" PROPERTIES LABELS package TIMEOUT 1800)
  return()
endif()

set(venv "${BUILD}/wheel_test")
file(REMOVE_RECURSE "${venv}")

function(run)
  execute_process(COMMAND ${ARGV} WORKING_DIRECTORY "${BUILD}" COMMAND_ECHO STDOUT
    COMMAND_ERROR_IS_FATAL ANY)
endfunction()

run(python3 -m venv "${venv}")
# Compiled by the words that ${BUILD} was compiled by, so that ccache has it all.
run("${CMAKE_COMMAND}" -E env "CXX=${COMPILER}" "${venv}/bin/pip" install --quiet
  --disable-pip-version-check "--config-settings=cmake.define.AC_ADVISOR_WERROR=${WERROR}" "${SOURCE}")
# Nothing of the user's: neither another ac-advisor on PATH, nor packages beside the environment's.
set(alone "${CMAKE_COMMAND}" -E env --unset=PYTHONPATH --unset=AC_ADVISOR
  "PATH=/usr/bin:/bin" "AC_ADVISOR_SOURCE=${SOURCE}")
run(${alone} "${venv}/bin/ac-advisor" plan llama-3.2-1b --batch 8 --seq 2048 --ac full)
run(${alone} "${venv}/bin/python" -m ac_advisor advise tiny-llama --rows 1)
run(${alone} "${venv}/bin/python" "${SOURCE}/tests/python/package_test.py")

file(REMOVE_RECURSE "${BUILD}/release_wheel")
run("${CMAKE_COMMAND}" -E env "CXX=${COMPILER}" AC_ADVISOR_WITHOUT_PAGE=1
  "${SOURCE}/scripts/wheel" "${BUILD}/release_wheel")
file(GLOB wheels "${BUILD}/release_wheel/*.whl")
run("${SOURCE}/scripts/check_wheel" "${wheels}")
