# -w waits so long and no longer; then status 1 and an empty queue.
. "$(dirname "$0")/common"
held k
before=$(date +%s%N)
exits 1 "$hf" run -w 0.3 k -- touch ran
took=$((($(date +%s%N) - before) / 1000000))
[ "$took" -ge 290 ] || fail "gave up after $took ms instead of 300"
exits 1 "$hf" run --wait 50ms k -- touch ran
exits 1 "$hf" run --timeout=0.05 k -- touch ran
[ ! -e ran ] || fail "the command ran without the lock"
has_count k waits 0 || fail "a waiter is left"
start "$hf" run -w 60 k -- touch ran
waiter=$!
until_true 20 has_count k waits 1 || fail "no waiter is seen"
echo x >&"$release_fd"
kill "$holder"
wait "$waiter" || fail "the waiter got status $?"
[ -e ran ] || fail "the waiter did not run"
