# INT, TERM, HUP and QUIT while waiting leave the queue: 128+n, nothing run.
. "$(dirname "$0")/common"
held k
for pair in INT:130 TERM:143 HUP:129 QUIT:131; do
    sig=${pair%:*}
    start env --default-signal="$sig" "$hf" run k -- touch ran
    pid=$!
    until_true 20 has_count k waits 1 || fail "no waiter is seen"
    kill -"$sig" "$pid"
    wait "$pid"
    same "status after $sig" $? "${pair#*:}"
    has_count k waits 0 || fail "the waiter is still in the queue after $sig"
done
start env --default-signal=INT "$hf" hold k
pid=$!
until_true 20 has_count k waits 1 || fail "no waiter is seen"
kill -INT "$pid"
wait "$pid"
same "status of hold" $? 130
[ ! -e ran ] || fail "the command ran without the lock"
