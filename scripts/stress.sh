#!/bin/sh
# stress.sh [SECTIONS [TARGET...]] - the stress test in its long form.
#
# Ten processes per store take three keys, are killed now and then, and a judge
# looks for two holders at once and for tokens that do not rise
# (tests/stress).  SECTIONS (default 35000) is for each of postgres, mariadb and
# mariadb-noreturning; the stores over ODBC, whose waiters look from time to
# time, take a tenth.  Uses the plain build of ./check.
set -u
cd "$(dirname "$0")/.." || exit 1
sections=${1:-35000}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- postgres mariadb mariadb-noreturning odbc-postgres \
    odbc-mariadb odbc-sqlite
build=$PWD/build/plain
[ -x "$build/tests/stress/stress" ] || {
    echo "stress.sh: no $build/tests/stress/stress; run './check unit' first" >&2
    exit 1
}
export HOLDFAST_DRIVER_PATH="$build/drivers-lib"
failed=0
for target in "$@"; do
    here=$sections
    with=
    case $target in
    odbc-*) here=$((sections / 10)) ;;
    esac
    case $target in
    *postgres*) with="tests/harness/with-sql postgres" ;;
    *mariadb*) with="tests/harness/with-sql mariadb" ;;
    redis*) with=tests/harness/with-redis ;;
    esac
    # shellcheck disable=SC2086
    HF_STRESS_SECTIONS=$here $with "$build/tests/stress/stress" "$target" ||
        failed=1
done
exit $failed
