# `cpack --config build/release/CPackConfig.cmake` makes ac-advisor_<version>_<arch>.deb: the component
# `planner`, with the libraries that dpkg-shlibdeps finds as its dependencies.

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME ac-advisor)
set(CPACK_PACKAGE_VENDOR "ac-advisor maintainers")
set(CPACK_PACKAGE_CONTACT "ac-advisor maintainers <maintainers@ac-advisor.invalid>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)

set(CPACK_COMPONENTS_ALL planner)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# Below the project's own line.
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
"From a transformer's config.json: what a training step holds in memory, launches and costs under
every checkpointing mode, loss, kernel fusion and sharding, and which to use. Needs no GPU.
The trainer that measures the same steps is not in this package: it is built from source, with
LibTorch.")

include(CPack)
