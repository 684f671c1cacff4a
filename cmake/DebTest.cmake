# The .deb that cpack makes: unpacked into an empty folder, its command runs from there. Included by
# Tests.cmake, it adds the test; run with `cmake -P`, it is the test.

if(NOT CMAKE_SCRIPT_MODE_FILE)
  find_program(dpkg_shlibdeps dpkg-shlibdeps)
  if(NOT dpkg_shlibdeps)
    message(STATUS "dpkg-dev is not installed: the .deb is not tested")
    return()
  endif()
  set(name "unit:the .deb depends on what it links, and its command runs")
  add_test(NAME "${name}" COMMAND "${CMAKE_COMMAND}" "-DBUILD=${PROJECT_BINARY_DIR}"
    -P "${CMAKE_CURRENT_LIST_FILE}")
  set_tests_properties("${name}" PROPERTIES LABELS unit)
  return()
endif()

set(folder "${BUILD}/deb_test")
file(REMOVE_RECURSE "${folder}")

function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

run("${CMAKE_COMMAND}" -E make_directory "${folder}")
cmake_path(GET CMAKE_COMMAND PARENT_PATH programs)
run("${programs}/cpack" --config "${BUILD}/CPackConfig.cmake" -B "${folder}")
file(GLOB packages "${folder}/*.deb")
list(LENGTH packages count)
if(NOT count EQUAL 1)
  message(FATAL_ERROR "cpack has made ${count} packages: ${packages}")
endif()
function(check_field name pattern)
  execute_process(COMMAND dpkg-deb --field "${packages}" "${name}"
    OUTPUT_VARIABLE value COMMAND_ERROR_IS_FATAL ANY)
  if(NOT value MATCHES "${pattern}")
    message(FATAL_ERROR "${name}: ${value}does not match ${pattern}")
  endif()
endfunction()
check_field(Package "^ac-advisor\n")
check_field(Depends "libc6 \\(>= [0-9.]+\\).*libfmt[0-9]+.*libstdc\\+\\+6")
run(dpkg-deb --extract "${packages}" "${folder}/root")
run(env -i "${folder}/root/usr/bin/ac-advisor"
  plan llama-3.2-1b --batch 8 --seq 2048 --ac full)
# The command alone: what needs LibTorch or a compiler is not in it.
foreach(absent usr/bin/ac-trainer usr/include usr/lib/libac_advisor.a usr/lib/cmake)
  if(EXISTS "${folder}/root/${absent}")
    message(FATAL_ERROR "${absent} is in the package")
  endif()
endforeach()
