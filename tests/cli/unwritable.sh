# A folder in which nothing may be written: 77 and a line that names it.
. "$(dirname "$0")/common"
mkdir closed
chmod 555 closed
try=("$hf" run --url "sqlite:$PWD/closed/x.db" k -- touch ran)
if [ "$(id -u)" = 0 ]; then
    command -v setpriv >/dev/null || skip "needs setpriv to give up root"
    chmod 755 "$HF_CLI_DIR" "$HF_CLI_DIR/.."
    setpriv --reuid 65534 --regid 65534 --clear-groups test -x "$hf" ||
        skip "needs a build folder that others may read"
    try=(setpriv --reuid 65534 --regid 65534 --clear-groups "${try[@]}")
fi
exits 77 "${try[@]}"
same "lines on stderr" "$(wc -l <err.txt)" 1
contains "stderr" "$err" "closed"
[ ! -e ran ] || fail "the command ran without the lock"
