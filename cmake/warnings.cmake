# warnings.cmake - how every C file of the tree is compiled.
#
# Three things, for gcc and clang alike: warnings (errors unless HF_WERROR is
# off, which is what someone with a newer compiler wants), hardening that costs
# nothing worth measuring, and the sanitizers (HF_SANITIZE=address|thread).
# Assertions stay on in every build type: some of them guard exclusion.

option(HF_WERROR "treat warnings as errors" ON)
set(HF_SANITIZE "" CACHE STRING "address (with undefined), thread, or empty")
set_property(CACHE HF_SANITIZE PROPERTY STRINGS "" address thread)

add_compile_options(
    -Wall -Wextra -Wshadow -Wpointer-arith -Wundef -Wvla -Wwrite-strings
    -Wformat=2 -Wno-format-nonliteral -Wimplicit-fallthrough
    "$<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes;-Wold-style-definition>")
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-Wduplicated-cond)
endif()
# Conversions that change a value are bugs in waiting; those between signed
# and unsigned of one size are everywhere in calls of libc and only noise.
add_compile_options(-Wconversion -Wno-sign-conversion)
if(CMAKE_C_COMPILER_ID MATCHES "Clang")
    # It takes EXPECT(!"reached") for a slip; it is how tests say so.
    add_compile_options(-Wno-string-conversion)
endif()
if(HF_WERROR)
    add_compile_options(-Werror)
endif()

foreach(type RELEASE RELWITHDEBINFO MINSIZEREL)
    string(REPLACE "-DNDEBUG" "" CMAKE_C_FLAGS_${type}
           "${CMAKE_C_FLAGS_${type}}")
endforeach()
string(REPLACE "-O3" "-O2" CMAKE_C_FLAGS_RELEASE "${CMAKE_C_FLAGS_RELEASE}")

# Hidden unless marked HF_API: what is not promised is not exported.
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
include(CheckPIESupported)
check_pie_supported(LANGUAGES C)

add_compile_options(-fstack-protector-strong -fno-omit-frame-pointer)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64|i.86)$")
    add_compile_options(-fcf-protection)
endif()
add_link_options(-Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)

if(HF_SANITIZE STREQUAL "address")
    add_compile_options(-fsanitize=address,undefined
                        -fno-sanitize-recover=undefined)
    add_link_options(-fsanitize=address,undefined)
elseif(HF_SANITIZE STREQUAL "thread")
    add_compile_options(-fsanitize=thread)
    add_link_options(-fsanitize=thread)
elseif(NOT HF_SANITIZE STREQUAL "")
    message(FATAL_ERROR
            "HF_SANITIZE is '${HF_SANITIZE}': say address, thread or nothing")
endif()
# What gcc guesses about sizes and paths, it guesses wrong among the calls that
# the sanitizers add; the plain build has these warnings.
if(HF_SANITIZE AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
    add_compile_options(
        -Wno-stringop-overflow -Wno-stringop-truncation -Wno-stringop-overread
        -Wno-format-truncation -Wno-maybe-uninitialized -Wno-array-bounds)
endif()
# Fortified calls hide the plain ones that the sanitizers watch, and need an
# optimising build.
if(HF_SANITIZE STREQUAL "" AND CMAKE_BUILD_TYPE MATCHES "^(Rel|MinSize)")
    add_compile_options(-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
endif()
