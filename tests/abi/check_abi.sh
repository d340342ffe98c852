#!/bin/sh
# check_abi.sh LIBRARY - what the library exports, and that its headers compile
# alone: what a program compiled last year relies on.
#
# symbols.txt lists every exported name with its version.  A line that
# disappears breaks programs; a new one is added there on purpose, together
# with its man page.
set -u
library=$1
here=$(dirname "$0")
include=$here/../../include
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
passed=0 failed=0 skipped=0

try()
{
    name=$1
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

exports()
{
    nm -D --defined-only --with-symbol-versions "$library" |
        awk '$2 != "A" { print $3 }' | grep -Ev '^(__|_init$|_fini$)' |
        LC_ALL=C sort >"$tmp/have"
    # Comments and blank lines are for people.
    grep -v '^#' "$here/symbols.txt" | grep . | LC_ALL=C sort >"$tmp/want"
    echo "- is missing in the library, + is not in symbols.txt:"
    diff -u "$tmp/want" "$tmp/have"
}
soname() { readelf -d "$library" | grep 'SONAME.*\[libholdfast\.so\.0\]'; }
no_writable_code() { ! readelf -lW "$library" | grep -E 'LOAD.*RWE|GNU_STACK.*RWE'; }
full_relro()
{
    readelf -lW "$library" | grep GNU_RELRO && readelf -dW "$library" |
        grep -E 'BIND_NOW|FLAGS.*NOW'
}

c99()
{
    compiler=$1
    shift
    "$compiler" -std=c99 -pedantic -Wall -Wextra -Wshadow -Wstrict-prototypes \
        -Wmissing-prototypes -Werror -I"$include" -c "$here/headers_c99.c" \
        -o "$tmp/c99.o" "$@"
}
cxx()
{
    g++ "-std=$1" -pedantic -Wall -Wextra -Wshadow -Werror -I"$include" -c \
        "$here/headers_cxx.cc" -o "$tmp/cxx.o"
}
cxx_entry() { cxx c++11 && nm "$tmp/cxx.o" | grep -E ' T hf_driver_entry$'; }

try exported_symbols exports
try soname soname
try no_writable_code no_writable_code
try full_relro full_relro
for compiler in gcc clang-14; do
    if command -v "$compiler" >/dev/null 2>&1; then
        try "c99_$compiler" c99 "$compiler"
        try "c99_public_only_$compiler" c99 "$compiler" -DPUBLIC_ONLY
        try "c99_driver_first_$compiler" c99 "$compiler" -DDRIVER_FIRST
    else
        echo "skip c99_$compiler: no $compiler here"
        skipped=$((skipped + 1))
    fi
done
for standard in c++11 c++20; do
    try "$standard" cxx "$standard"
done
try cxx_driver_entry cxx_entry
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
