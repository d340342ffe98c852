# kill -9 of the wrapper ends the command with all it started, and the next
# one gets the lock, long before the lease is over, and not before that.
. "$(dirname "$0")/common"
next='for p in $(cat all); do
    kill -0 $p 2>/dev/null && [ "$(ps -o stat= -p $p | cut -c1)" != Z ] && echo $p >>alive
done; echo x >next'
for options in "" "-o"; do
    rm -f all next alive
    # shellcheck disable=SC2086
    start "$hf" run $options --lease 30 k -- bash -c \
        'sleep 300 & echo $! $$ >all.new; mv all.new all; trap "" TERM HUP; while :; do sleep 0.05; done'
    wrapper=$!
    appears all
    start "$hf" run k -- bash -c "$next"
    waiter=$!
    until_true 20 has_count k waits 1 || fail "no waiter is seen"
    kill -9 "$wrapper"
    before=$(date +%s%N)
    appears next
    took=$((($(date +%s%N) - before) / 1000000))
    [ "$took" -lt 5000 ] || fail "the next one had to wait for $took ms"
    [ ! -e alive ] || fail "had the lock while $(cat alive) of the command ran"
    wait "$waiter" || fail "the next one got status $?"
    wait "$wrapper" 2>/dev/null
    for pid in $(cat all); do
        is_gone "$pid" || fail "process $pid of the command still runs"
    done
done
