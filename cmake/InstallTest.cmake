# The installed package, as another project meets it. Included by Tests.cmake, it adds the test;
# run with `cmake -P`, it is the test.

if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(name "unit:an installed package is found, linked and run")
  add_test(NAME "${name}" COMMAND "${CMAKE_COMMAND}"
    "-DBUILD=${PROJECT_BINARY_DIR}" "-DCOMPILER=${CMAKE_CXX_COMPILER}"
    "-DTRAINER=$<TARGET_EXISTS:ac-trainer>"
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
# LibTorch is found from there, too, and a man page that the build has made is where man looks.
if(TRAINER)
  run("${CMAKE_COMMAND}" -E env --unset=AC_TRAINER --unset=LD_LIBRARY_PATH
    "${prefix}/bin/ac-advisor" measure tiny-llama --batch 1 --seq 32 --steps 1)
endif()
foreach(page share/man/man1/ac-advisor.1 share/bash-completion/completions/ac-advisor
    share/zsh/vendor-completions/_ac-advisor share/fish/vendor_completions.d/ac-advisor.fish)
  cmake_path(GET page FILENAME made)
  if(page MATCHES "completions")
    set(made "completions/${made}")
  endif()
  if(page MATCHES "bash")
    string(APPEND made ".bash")
  endif()
  if(EXISTS "${BUILD}/${made}" AND NOT EXISTS "${prefix}/${page}")
    message(FATAL_ERROR "${made} is not installed as ${page}")
  endif()
endforeach()
