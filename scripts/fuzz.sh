#!/bin/sh
# fuzz.sh [SECONDS] [TARGET...] - let clang's fuzzer search, a while each.
#
# Starts from the seeds of tests/fuzz/seeds; what it finds new is kept in
# build/fuzz/corpus for the next time.  An input that breaks a promise is named
# and left in build/fuzz; make it a seed when the bug is fixed.
set -u
cd "$(dirname "$0")/.." || exit 1
seconds=${1:-60}
[ $# -eq 0 ] || shift
case $seconds in
'' | *[!0-9]*) echo "fuzz.sh: '$seconds' is not a number of seconds" >&2 && exit 2 ;;
esac
[ $# -gt 0 ] || set -- url admit lease options resp rediswords redisreply \
    redlockreply sqlbody sqlrows zkrecord zkwords etcdreply pb grpcframe history cliwords

scripts/install-deps.sh fuzz </dev/null || exit 1
dir=build/fuzz
mkdir -p "$dir" || exit 1
generator=
[ -e "$dir/CMakeCache.txt" ] || ! command -v ninja >/dev/null 2>&1 ||
    generator="-G Ninja"
# shellcheck disable=SC2086
cmake -S . -B "$dir" $generator -DCMAKE_C_COMPILER=clang-14 \
    -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG="-O1 -g" \
    -DCMAKE_C_FLAGS=-fsanitize=fuzzer-no-link -DHF_SANITIZE=address \
    -DHF_FUZZ=ON >"$dir/configure.log" || exit 1

passed=0 failed=0
for target in "$@"; do
    mkdir -p "$dir/corpus/$target"
    if cmake --build "$dir" --target "fuzz_$target" >"$dir/build.log" &&
        "$dir/tests/fuzz/fuzz_$target" -max_total_time="$seconds" \
            -max_len=8192 -timeout=10 -print_final_stats=1 \
            -artifact_prefix="$dir/$target-" \
            "$dir/corpus/$target" "tests/fuzz/seeds/$target" \
            >"$dir/$target.log" 2>&1; then
        echo "ok $target: $(sed -n 's/^stat::number_of_executed_units: *//p' \
            "$dir/$target.log") runs"
        passed=$((passed + 1))
    else
        tail -n 40 "$dir/build.log" "$dir/$target.log" 2>/dev/null
        echo "FAIL $target: see above; the input is $dir/$target-*"
        failed=$((failed + 1))
    fi
done
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
