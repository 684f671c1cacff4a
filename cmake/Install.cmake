# `cmake --install` installs all of it. By components: `planner` is the command alone, which is what
# cpack's .deb and the wheel (pyproject.toml) hold; `trainer` needs the LibTorch it was built with;
# `development` is the library.
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/ac_advisor")
set(share_dir "${CMAKE_INSTALL_DATADIR}/ac-advisor")
set(bin_dir "${CMAKE_INSTALL_BINDIR}")
set(root "")
if(SKBUILD)  # the wheel's folders for programs and for what is below the environment's prefix
  set(bin_dir "${SKBUILD_SCRIPTS_DIR}")
  set(root "${SKBUILD_DATA_DIR}/")
endif()

if(TARGET ac-advisor)
  # A libfmt that scripts/bootstrap.sh unpacked into the user's cache is found afterwards too.
  set_target_properties(ac-advisor PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
  install(TARGETS ac-advisor DESTINATION "${bin_dir}" COMPONENT planner)
endif()
if(TARGET ac_advisor_injection)
  install(TARGETS ac_advisor_injection
    DESTINATION "${root}${AC_ADVISOR_INJECTION_FOLDER}" COMPONENT planner)
endif()
if(TARGET ac_advisor_emulator)
  set(emulator_dir "${root}${AC_ADVISOR_EMULATOR_FOLDER}")
  install(TARGETS ac_advisor_emulator DESTINATION "${emulator_dir}" COMPONENT planner)
  install(FILES "${PROJECT_BINARY_DIR}/emulator/libcuda.so.1"
    "${PROJECT_BINARY_DIR}/emulator/libnvidia-ml.so.1"
    DESTINATION "${emulator_dir}" COMPONENT planner)
  foreach(file IN LISTS python_files)
    if(IS_DIRECTORY "${file}" AND NOT file MATCHES "__pycache__")
      install(DIRECTORY "${file}" DESTINATION "${emulator_dir}/python" COMPONENT planner
        FILES_MATCHING PATTERN "*.py" PATTERN "__pycache__" EXCLUDE)
    endif()
  endforeach()
  install(DIRECTORY python/ac_advisor DESTINATION "${emulator_dir}/capture" COMPONENT planner
    FILES_MATCHING PATTERN "*.py" PATTERN "__pycache__" EXCLUDE)
  install(FILES src/emulator/python/sitecustomize.py
    DESTINATION "${emulator_dir}/python" COMPONENT planner)
endif()
# The page of `serve`, where `cmake --build --preset web` has made it.
install(FILES "${PROJECT_SOURCE_DIR}/build/web/ac-advisor.html"
  DESTINATION "${root}${share_dir}" COMPONENT planner OPTIONAL)
# What the build has made of the options' table.
install(FILES "${PROJECT_BINARY_DIR}/ac-advisor.1"
  DESTINATION "${root}${CMAKE_INSTALL_MANDIR}/man1" COMPONENT planner OPTIONAL)
install(FILES "${PROJECT_BINARY_DIR}/completions/ac-advisor.bash" RENAME ac-advisor
  DESTINATION "${root}${CMAKE_INSTALL_DATADIR}/bash-completion/completions"
  COMPONENT planner OPTIONAL)
install(FILES "${PROJECT_BINARY_DIR}/completions/_ac-advisor"
  DESTINATION "${root}${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions" COMPONENT planner OPTIONAL)
install(FILES "${PROJECT_BINARY_DIR}/completions/ac-advisor.fish"
  DESTINATION "${root}${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d"
  COMPONENT planner OPTIONAL)
if(SKBUILD)
  return()
endif()
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT planner)
foreach(folder data sample_models)
  if(EXISTS "${PROJECT_SOURCE_DIR}/${folder}")
    install(DIRECTORY ${folder} DESTINATION "${share_dir}" COMPONENT planner)
  endif()
endforeach()

foreach(trainer ac-trainer ac-trainer-cuda)  # beside ac-advisor, where it looks for them
  if(TARGET ${trainer})
    set_target_properties(${trainer} PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
    install(TARGETS ${trainer} DESTINATION "${bin_dir}" COMPONENT trainer)
  endif()
endforeach()

install(TARGETS ac_advisor EXPORT ac_advisor_targets COMPONENT development)
install(DIRECTORY include/ac_advisor "${PROJECT_BINARY_DIR}/generated/include/ac_advisor"
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT development
  FILES_MATCHING PATTERN "*.hpp")
install(EXPORT ac_advisor_targets NAMESPACE ac_advisor:: DESTINATION "${package_dir}"
  COMPONENT development)
configure_package_config_file(cmake/ac_advisor-config.cmake.in
  "${PROJECT_BINARY_DIR}/ac_advisor-config.cmake" INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/ac_advisor-config-version.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES
  "${PROJECT_BINARY_DIR}/ac_advisor-config.cmake"
  "${PROJECT_BINARY_DIR}/ac_advisor-config-version.cmake"
  DESTINATION "${package_dir}" COMPONENT development)

include(Package)
