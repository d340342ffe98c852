# install.cmake - what `cmake --install` puts where.
#
# The library with its headers, the drivers that are shared objects (in
# <libdir>/holdfast, where the library looks for them), holdfast.pc for
# pkg-config and a CMake package with the target holdfast::holdfast.  The
# command and the man pages are installed by their own folders.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(HF_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/holdfast)

function(hf_install_libraries)
    install(TARGETS holdfast EXPORT holdfast
            LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
            INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
    install(TARGETS holdfast_static
            ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
    install(FILES include/holdfast/holdfast.h include/holdfast/driver.h
            DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/holdfast)
    # The modules are told by their folder, not by name: a new driver needs no
    # line here.
    install(DIRECTORY ${CMAKE_BINARY_DIR}/drivers-lib/
            DESTINATION ${CMAKE_INSTALL_LIBDIR}/holdfast OPTIONAL
            FILES_MATCHING PATTERN "holdfast-*.so")
endfunction()

function(hf_install_packages)
    configure_file(cmake/holdfast.pc.in holdfast.pc @ONLY)
    install(FILES ${CMAKE_BINARY_DIR}/holdfast.pc
            DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
    install(EXPORT holdfast NAMESPACE holdfast:: FILE holdfastTargets.cmake
            DESTINATION ${HF_CMAKE_DIR})
    configure_package_config_file(
        cmake/holdfastConfig.cmake.in holdfastConfig.cmake
        INSTALL_DESTINATION ${HF_CMAKE_DIR})
    write_basic_package_version_file(holdfastConfigVersion.cmake
                                     COMPATIBILITY SameMinorVersion)
    install(FILES ${CMAKE_BINARY_DIR}/holdfastConfig.cmake
                  ${CMAKE_BINARY_DIR}/holdfastConfigVersion.cmake
            DESTINATION ${HF_CMAKE_DIR})
endfunction()

hf_install_libraries()
hf_install_packages()
