# install.cmake - what `cmake --install` puts where.
#
# The library with its headers, the drivers that are shared objects (in
# <libdir>/holdfast, where the library looks for them), holdfast.pc for
# pkg-config, a CMake package with the target holdfast::holdfast, and the man
# pages.  The command is installed by its own folder.

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

# docs/man makes them at build time, where python3 is.
function(hf_install_pages)
    foreach(section 1 3 7)
        install(DIRECTORY ${CMAKE_BINARY_DIR}/man/
                DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section} OPTIONAL
                FILES_MATCHING PATTERN "*.${section}")
    endforeach()
endfunction()

hf_install_libraries()
hf_install_packages()
hf_install_pages()
