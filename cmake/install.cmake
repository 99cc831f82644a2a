# What `cmake --install` puts where, and the Debian packages (`cpack -G DEB` in the build directory):
# tandem, and tandem-worker, which needs libtorch and Open MPI. Machines and rules are in the program.
include(GNUInstallDirs)

install(TARGETS tandem DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tandem)
if(TARGET tandem_worker)  # beside tandem, which looks for it there; left out where it is not built
  if(TANDEM_CUDA)  # libtorch stays where it was found
    set_target_properties(tandem_worker PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
  else()
    # MPI's own flags say where its libraries are; there is nothing to change when it is installed.
    set_target_properties(tandem_worker PROPERTIES BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "")
  endif()
  install(TARGETS tandem_worker DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT worker OPTIONAL)
endif()

# Made when they are installed, by the program itself.
set(made ${PROJECT_BINARY_DIR}/made)
install(CODE "
  file(MAKE_DIRECTORY ${made})
  foreach(shell bash zsh fish)
    execute_process(COMMAND $<TARGET_FILE:tandem> completion \${shell} OUTPUT_FILE ${made}/tandem.\${shell}
                    COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
  execute_process(COMMAND ${PROJECT_SOURCE_DIR}/tools/make_docs --tandem $<TARGET_FILE:tandem>
                          --man ${made}/tandem.1
                  COMMAND_ERROR_IS_FATAL ANY)"
  COMPONENT tandem)
install(FILES ${made}/tandem.bash RENAME tandem COMPONENT tandem
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${made}/tandem.zsh RENAME _tandem COMPONENT tandem
        DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)
install(FILES ${made}/tandem.fish COMPONENT tandem
        DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
install(FILES ${made}/tandem.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT tandem)

install(FILES LICENSE RENAME copyright DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/tandem COMPONENT tandem)
install(FILES README.md CHANGELOG.md CONTRIBUTING.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT tandem)
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs COMPONENT tandem)
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT tandem USE_SOURCE_PERMISSIONS)

set(CPACK_PACKAGE_NAME tandem)
# Who makes a package says where questions go; the default is an address that nobody can have (RFC 2606).
set(TANDEM_CONTACT "Tandem's authors <tandem@example.invalid>" CACHE STRING "Maintainer of the Debian packages")
set(CPACK_PACKAGE_CONTACT "${TANDEM_CONTACT}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "plans and runs distributed training of neural networks")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL tandem)
if(TARGET tandem_worker)
  list(APPEND CPACK_COMPONENTS_ALL worker)
endif()
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_TANDEM_PACKAGE_NAME tandem)
set(CPACK_DEBIAN_TANDEM_PACKAGE_SUGGESTS tandem-worker)
set(CPACK_COMPONENT_TANDEM_DESCRIPTION "Finds how to spread a network over many devices, and predicts the time and memory of a step.")
set(CPACK_DEBIAN_WORKER_PACKAGE_NAME tandem-worker)
set(CPACK_DEBIAN_WORKER_PACKAGE_DEPENDS "tandem (= ${PROJECT_VERSION}), openmpi-bin")
set(CPACK_COMPONENT_WORKER_DESCRIPTION "What runs a plan on this computer: tandem train, profile and demo need it.")
include(CPack)
