#!/bin/bash
# check_install.sh - install into a folder of its own, and use it from there.
#
# A release build with a prefix that nobody has, then what a user would do:
# find the files, build the example against them by CMake and by pkg-config as
# C and as C++, run it, run the command, load a driver from its folder, and
# install into a staging folder (DESTDIR) as packagers do.
set -u
cd "$(dirname "$0")/.." || exit 1
root=$PWD
build=$root/build/install
prefix=$build/prefix
log=$build/log
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
passed=0 failed=0

# try NAME COMMAND...: one test; its output is shown when it fails.
try()
{
    local name=$1
    shift
    if "$@" >"$tmp/out" 2>&1; then
        echo "ok $name"
        passed=$((passed + 1))
    else
        cat "$tmp/out"
        echo "FAIL $name: $*"
        failed=$((failed + 1))
    fi
}

finish()
{
    echo "$passed passed, $failed failed, 0 skipped"
    [ "$failed" -eq 0 ]
    exit
}

has_files()
{
    local name
    for name in "$@"; do
        [ -e "$prefix/$name" ] || { echo "no $name under the prefix"; return 1; }
    done
}

build_it()
{
    cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
        -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_INSTALL_LIBDIR=lib \
        -DHF_TESTS=OFF && cmake --build "$build"
}

# Only what the header marks, and a SONAME, so that programs survive updates.
soname() { readelf -d "$prefix/lib/libholdfast.so" | grep -q 'SONAME.*libholdfast\.so\.0'; }

runs_with_token()
{
    local out
    out=$(LD_LIBRARY_PATH=$prefix/lib "$@") || return 1
    echo "$out"
    [[ $out =~ ^holdfast\ [0-9.]+\ holds\ with\ token\ [1-9][0-9]*$ ]]
}

by_cmake()
{
    cmake -S examples/installed -B "$tmp/cmake" -G Ninja \
        -DCMAKE_PREFIX_PATH="$prefix" && cmake --build "$tmp/cmake"
}
by_make()
{
    PKG_CONFIG_PATH=$prefix/lib/pkgconfig \
        make -C examples/installed OUT="$tmp/user"
}
by_cxx()
{
    # shellcheck disable=SC2046
    g++ -x c++ -Wall -Wextra -Wpedantic -Werror examples/installed/main.c \
        -o "$tmp/user++" \
        $(PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config --cflags --libs holdfast)
}
pc_version()
{
    [ "$(PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config --modversion holdfast)" = \
        "$(sed -n 's/.*HF_VERSION_TEXT "\(.*\)".*/\1/p' include/holdfast/holdfast.h)" ]
}
command_runs()
{
    [ "$(HOLDFAST_URL=sqlite:$tmp/c.db "$prefix/bin/holdfast" run k -- echo held)" = held ]
}
staging()
{
    DESTDIR=$tmp/stage cmake --install "$build" &&
        [ -e "$tmp/stage$prefix/lib/libholdfast.so" ] &&
        [ -e "$tmp/stage$prefix/include/holdfast/holdfast.h" ]
}

mkdir -p "$build" && rm -rf "$prefix"
if ! build_it >"$log" 2>&1; then
    tail -n 60 "$log"
    echo "FAIL build: the release build did not finish"
    failed=1
    finish
fi
unset HOLDFAST_DRIVER_PATH HOLDFAST_URL
try install cmake --install "$build"
try files has_files include/holdfast/holdfast.h include/holdfast/driver.h \
    lib/libholdfast.so lib/pkgconfig/holdfast.pc bin/holdfast \
    lib/cmake/holdfast/holdfastConfig.cmake lib/holdfast/holdfast-trace.so \
    lib/holdfast/holdfast-fault.so share/man/man1/holdfast.1 \
    share/man/man3/hf_lock.3
try soname soname
try pkg_config_version pc_version
try build_by_cmake by_cmake
try build_by_pkg_config by_make
try build_as_cxx by_cxx
try run_mem runs_with_token "$tmp/user" mem:
try run_sqlite runs_with_token "$tmp/cmake/user" "sqlite:$tmp/a.db"
try run_cxx runs_with_token "$tmp/user++" "sqlite:$tmp/a.db"
try driver_from_its_folder runs_with_token "$tmp/user" trace+mem:
try command command_runs
try staging staging
finish
