include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/ac_advisor")
set(share_dir "${CMAKE_INSTALL_DATADIR}/ac-advisor")

# A libfmt that scripts/bootstrap.sh unpacked into the user's cache is found after installation too.
if(TARGET ac-advisor)
  set_target_properties(ac-advisor PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
endif()
install(TARGETS ac_advisor EXPORT ac_advisor_targets)
if(TARGET ac-advisor)
  install(TARGETS ac-advisor)
endif()
if(TARGET ac_advisor_injection)
  install(TARGETS ac_advisor_injection DESTINATION "${AC_ADVISOR_INJECTION_FOLDER}")
endif()
install(DIRECTORY include/ac_advisor "${PROJECT_BINARY_DIR}/generated/include/ac_advisor"
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.hpp")
foreach(folder data sample_models)
  if(EXISTS "${PROJECT_SOURCE_DIR}/${folder}")
    install(DIRECTORY ${folder} DESTINATION "${share_dir}")
  endif()
endforeach()
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}")

install(EXPORT ac_advisor_targets NAMESPACE ac_advisor:: DESTINATION "${package_dir}")
configure_package_config_file(cmake/ac_advisor-config.cmake.in
  "${PROJECT_BINARY_DIR}/ac_advisor-config.cmake" INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/ac_advisor-config-version.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES
  "${PROJECT_BINARY_DIR}/ac_advisor-config.cmake"
  "${PROJECT_BINARY_DIR}/ac_advisor-config-version.cmake"
  DESTINATION "${package_dir}")
