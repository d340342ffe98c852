#!/bin/sh
# coverage.sh [GROUP...] - which lines of the library the tests reach.
#
# Builds with gcov's counters into build/coverage, runs the plain tests of the
# named groups (default: unit, conformance, behaviour) and prints a table, the
# least covered file first.  A look for people; ./check does not run it.
set -u
cd "$(dirname "$0")/.." || exit 1
[ $# -gt 0 ] || set -- unit conformance behaviour
scripts/install-deps.sh check </dev/null || exit 1
dir=$PWD/build/coverage

cmake -S . -B "$dir" -G Ninja -DCMAKE_BUILD_TYPE=Debug \
    -DCMAKE_C_FLAGS="--coverage -O1" >/dev/null && ninja -C "$dir" >/dev/null ||
    exit 1
find "$dir" -name '*.gcda' -delete
while IFS='|' read -r name group flags command; do
    case " $* " in
    *" $group "*) ;;
    *) continue ;;
    esac
    echo "$group.$name ${flags:+($flags)}"
    printf '%s' "$command" | tr '|' '\0' |
        HF_BUILD_DIR=$dir HF_SOURCE_DIR=$PWD HF_SANITIZE='' HF_QUICK=1 \
            HOLDFAST_DRIVER_PATH=$dir/drivers-lib xargs -0 env >/dev/null 2>&1
done <"$dir/tests.txt"

find "$dir/src" "$dir/drivers" -name '*.gcda' ! -name '*_test*' -print0 |
    xargs -0 gcov -n 2>/dev/null | python3 -c '
import re, sys
best = {}
for name, percent, lines in re.findall(
        r"File .([^\n]+).\nLines executed:([\d.]+)% of (\d+)", sys.stdin.read()):
    where = re.search(r"/((?:src|drivers)/\w+/\w+\.c)$", name)
    if where and float(percent) >= best.get(where.group(1), (-1, 0))[0]:
        best[where.group(1)] = (float(percent), int(lines))
total = sum(n for _, n in best.values()) or 1
for name, (percent, lines) in sorted(best.items(), key=lambda i: i[1]):
    print("%6.1f %%  %4d lines  %s" % (percent, lines, name))
print("%6.1f %%  %4d lines in all" % (
    sum(p * n for p, n in best.values()) / total, total))'
