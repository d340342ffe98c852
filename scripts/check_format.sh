#!/bin/sh
# check_format.sh [FILE...] - does the C look as .clang-format says?
#
# Prints one line per file that does not, with the cure.  Without a file: all.
set -u
cd "$(dirname "$0")/.." || exit 1

if [ $# -eq 0 ]; then
    list=$(git ls-files -co --exclude-standard '*.c' '*.h' '*.cc' 2>/dev/null)
    [ -n "$list" ] || list=$(find . -path ./build -prune -o \
        \( -name '*.c' -o -name '*.h' -o -name '*.cc' \) -print)
    # Names in this tree have no blanks.
    # shellcheck disable=SC2086
    set -- $list
fi

# All at once, and one by one only to tell which: to start the program takes
# longer than to read a file.
if clang-format-14 --dry-run -Werror "$@" >/dev/null 2>&1; then
    echo "$# passed, 0 failed, 0 skipped"
    exit
fi
passed=0 failed=0
for file in "$@"; do
    [ -f "$file" ] || continue
    if clang-format-14 --dry-run -Werror "$file" >/dev/null 2>&1; then
        passed=$((passed + 1))
    else
        echo "FAIL $file: run clang-format-14 -i $file"
        clang-format-14 "$file" | diff "$file" - | head -n 20
        failed=$((failed + 1))
    fi
done
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
