# -n does not wait: status 1, silent; nothing stays behind.
. "$(dirname "$0")/common"
held k
exits 1 "$hf" run -n k -- touch ran
same "stderr" "$err" ""
exits 1 "$hf" run --nonblock k -- touch ran
exits 1 "$hf" run --nb k -- touch ran
exits 1 "$hf" run -n -w 50 k -- touch ran
exits 1 "$hf" run -w 0 k -- touch ran
[ ! -e ran ] || fail "the command ran without the lock"
has_count k waits 0 || fail "a try left a waiter"
exits 0 "$hf" run -n other -- true
