# tests.cmake - how a test joins ./check.
#
#     hf_test(NAME lock_mem GROUP behaviour COMMAND lock mem:
#             [ENV NAME=value ...] [FLAGS nosan serial ...] [LIMIT seconds])
#
# The program of COMMAND may be a target.  Each call becomes one line of
# <build>/tests.txt, `name|group|flags|word|word...`, which ./check reads, and
# one test of ctest.  The command ends with a line
# `N passed, N failed, N skipped`; without it, it has failed.  No word of it
# contains `;` or `|`.
#
# Flags: nosan (neither sanitizer), noasan, notsan, slow (left out by --quick),
# and once (of the plain build only; the same as nosan, said for tests in which
# the build does not matter).  Three say what runs beside it: heavy (it computes
# without a pause, minds no delay, and gives way to all others), calm (short
# leases or many processes: few of these at a time), and serial (nothing).
# The command finds in its environment HF_SOURCE_DIR, HF_BUILD_DIR,
# HF_SANITIZE (empty, address or thread), HF_QUICK (1 with --quick),
# HOLDFAST_DRIVER_PATH, and an empty TMPDIR of its own.

set_property(GLOBAL PROPERTY HF_TEST_LINES "")

# What stands before the program of a test that needs servers; behind
# all but those of Redis stands which of them, then the program.
foreach(kind redis sentinel cluster redlock sql zookeeper etcd)
    string(TOUPPER HF_WITH_${kind} variable)
    set(${variable} ${PROJECT_SOURCE_DIR}/tests/harness/with-${kind})
endforeach()

# The command with its program, if that is a target, as a file.  The program
# may stand behind `env NAME=value ...`.
function(hf_test_words ret)
    set(words)
    set(found OFF)
    foreach(word IN LISTS ARGN)
        if(NOT found AND NOT word STREQUAL "env" AND NOT word MATCHES "=")
            set(found ON)
            if(TARGET ${word})
                set(word "$<TARGET_FILE:${word}>")
            endif()
        endif()
        list(APPEND words "${word}")
    endforeach()
    set(${ret} "${words}" PARENT_SCOPE)
endfunction()

function(hf_test)
    cmake_parse_arguments(PARSE_ARGV 0 T "" "NAME;GROUP;LIMIT"
                          "COMMAND;ENV;FLAGS")
    if(NOT T_NAME OR NOT T_GROUP OR NOT T_COMMAND)
        message(FATAL_ERROR "hf_test needs NAME, GROUP and COMMAND")
    endif()
    foreach(flag IN LISTS T_FLAGS)
        if(NOT flag MATCHES
           "^(nosan|noasan|notsan|heavy|calm|serial|slow|once)$")
            message(FATAL_ERROR "hf_test ${T_NAME}: no flag '${flag}'")
        endif()
    endforeach()
    if(T_LIMIT)
        list(APPEND T_FLAGS "limit=${T_LIMIT}")
    endif()

    hf_test_words(words ${T_COMMAND})
    if(T_ENV)
        list(PREPEND words env ${T_ENV})
    endif()
    list(JOIN T_FLAGS "," flags)
    list(JOIN words "|" command)
    set_property(GLOBAL APPEND_STRING PROPERTY HF_TEST_LINES
                 "${T_NAME}|${T_GROUP}|${flags}|${command}\n")

    add_test(NAME ${T_GROUP}.${T_NAME} COMMAND ${words})
    set_tests_properties(${T_GROUP}.${T_NAME} PROPERTIES ENVIRONMENT
        "HF_SOURCE_DIR=${CMAKE_SOURCE_DIR};HF_BUILD_DIR=${CMAKE_BINARY_DIR};HF_SANITIZE=${HF_SANITIZE};HOLDFAST_DRIVER_PATH=${CMAKE_BINARY_DIR}/drivers-lib")
    if("serial" IN_LIST T_FLAGS)
        set_tests_properties(${T_GROUP}.${T_NAME} PROPERTIES RUN_SERIAL ON)
    endif()
    if(T_LIMIT)
        set_tests_properties(${T_GROUP}.${T_NAME} PROPERTIES
                             TIMEOUT ${T_LIMIT})
    endif()
endfunction()

# hf_not_under(address|thread TARGET...): that sanitizer runs no test of these,
# so its build does without them.
function(hf_not_under sanitizer)
    if(HF_SANITIZE STREQUAL sanitizer)
        set_target_properties(${ARGN} PROPERTIES EXCLUDE_FROM_ALL ON)
    endif()
endfunction()

# HF_TEST_FLAGS go to the sources of the test programs alone: ./check compiles
# those four times and runs each for a moment, so that optimising them costs more
# than it gives.  Not to programs that compute for long.
set(HF_TEST_FLAGS "" CACHE STRING "more flags for the test programs")
set(HF_COMPUTING "^(sim|fuzz_|model_test|stress|holdfast_)")
function(hf_flag_tests folder)
    get_property(folders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
    foreach(below IN LISTS folders)
        hf_flag_tests(${below})
    endforeach()
    get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
    foreach(target IN LISTS targets)
        get_target_property(type ${target} TYPE)
        if((type STREQUAL "EXECUTABLE" AND NOT target MATCHES ${HF_COMPUTING})
           OR target MATCHES "^hf_(harness|behave)$")
            target_compile_options(${target} PRIVATE ${HF_TEST_FLAGS})
        endif()
    endforeach()
endfunction()

# Runs when the whole tree has been read, whoever registered last.
function(hf_write_tests)
    if(HF_TEST_FLAGS)
        hf_flag_tests(${CMAKE_SOURCE_DIR})
    endif()
    get_property(lines GLOBAL PROPERTY HF_TEST_LINES)
    file(GENERATE OUTPUT "${CMAKE_BINARY_DIR}/tests.txt" CONTENT "${lines}")
endfunction()
cmake_language(DEFER DIRECTORY ${CMAKE_SOURCE_DIR} CALL hf_write_tests)
enable_testing()
