#!/bin/sh
# oom.sh [TARGET...] - fail every allocation of every public call, on each store.
#
# The long form of `./check sweep`, which takes every n-th: n = 1, 2, 3 ... until
# a run meets no failure, for each scene of tests/faults/scenes.c, with real
# servers.  Builds with the address sanitizer in build/oom.  Minutes for each
# store; what is said of a failure is in build/oom/TARGET.log.
set -u
cd "$(dirname "$0")/.." || exit 1
[ $# -gt 0 ] || set -- sqlite redis sentinel cluster redlock postgres mariadb \
    odbc-sqlite odbc-postgres zookeeper etcd

scripts/install-deps.sh check </dev/null || exit 1
dir=$PWD/build/oom
mkdir -p "$dir" || exit 1
generator=
[ -e "$dir/CMakeCache.txt" ] || ! command -v ninja >/dev/null 2>&1 ||
    generator="-G Ninja"
# shellcheck disable=SC2086
cmake -S . -B "$dir" $generator -DCMAKE_BUILD_TYPE=Debug \
    -DHF_SANITIZE=address >"$dir/configure.log" &&
    cmake --build "$dir" >"$dir/build.log" || {
    tail -n 40 "$dir/build.log"
    exit 1
}
HOLDFAST_DRIVER_PATH=$dir/drivers-lib
HOLDFAST_TEST_SWEEP=1
# libpq, the ODBC manager and their like keep memory for as long as they live.
ASAN_OPTIONS=detect_leaks=0
export HOLDFAST_DRIVER_PATH HOLDFAST_TEST_SWEEP ASAN_OPTIONS

# What has to stand beside a target.
servers() {
    case $1 in
    sqlite | odbc-sqlite | mem) echo env ;;
    cluster) echo tests/harness/with-cluster six ;;
    zookeeper | etcd) echo "tests/harness/with-$1 one" ;;
    odbc-*) echo "tests/harness/with-sql ${1#odbc-}" ;;
    postgres | mariadb) echo "tests/harness/with-sql $1" ;;
    *) echo "tests/harness/with-$1" ;;
    esac
}

passed=0 failed=0
for target in "$@"; do
    # shellcheck disable=SC2046
    if $(servers "$target") "$dir/tests/faults/sweep" "$target" \
        >"$dir/$target.log" 2>&1; then
        echo "ok $target: $(tail -n 1 "$dir/$target.log")"
        passed=$((passed + 1))
    else
        grep -E '^(FAIL|.*ERROR: )' "$dir/$target.log" | head -n 20
        echo "FAIL $target: see $dir/$target.log"
        failed=$((failed + 1))
    fi
done
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
