# module.cmake - shared objects that the library loads: the drivers, and TLS.
#
#     hf_module(holdfast-foo SOURCES foo.c LINK PkgConfig::FOO)
#
# The object goes where the library looks in the build (drivers-lib), and
# cmake/install.cmake installs what is there.  It names the library as its
# dependency, found beside it when installed and in the build, so that a program
# which is linked without it can load a driver all the same.  LINK is what it
# needs besides.

function(hf_module name)
    cmake_parse_arguments(PARSE_ARGV 1 M "" "" "SOURCES;LINK")
    if(NOT M_SOURCES)
        message(FATAL_ERROR "hf_module needs SOURCES")
    endif()
    add_library(${name} MODULE ${M_SOURCES})
    set_target_properties(${name} PROPERTIES
        PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/drivers-lib
        LINKER_LANGUAGE C
        BUILD_WITH_INSTALL_RPATH ON
        INSTALL_RPATH "$ORIGIN/..:$ORIGIN/../src")
    target_link_libraries(${name} PRIVATE
        ${M_LINK} holdfast Threads::Threads)
    target_link_options(${name} PRIVATE -Wl,--no-undefined)
endfunction()
