# -F: the command has the wrapper's own process number; all else as usual.
. "$(dirname "$0")/common"
start "$hf" run -F k -- bash -c 'echo $$ >pid; read -r _ <go; exit 12'
mkfifo go
pid=$!
appears pid
same "process number" "$(cat pid)" "$pid"
exits 1 "$hf" run -n k -- true
same "children of the command" "$(ps -o pid= --ppid "$pid")" ""
echo x >go
wait "$pid"
same "status" $? 12
exits 0 "$hf" run -w 20 k -- true
held k
exits 1 "$hf" run -F -n k -- true
exits 1 "$hf" run -F -w 0.1 k -- true
start env --default-signal=INT "$hf" run -F k -- touch ran
pid=$!
until_true 20 has_count k waits 1 || fail "no waiter is seen"
kill -INT "$pid"
wait "$pid"
same "status after INT" $? 130
until_true 20 has_count k waits 0 || fail "the waiter is still in the queue"
exits 78 "$hf" run -F --url nosuch: k -- true
exits 0 "$hf" run -F other -- sh -c 'echo $HOLDFAST_KEY'
same "HOLDFAST_KEY" "$out" other
[ ! -e ran ] || fail "the command ran without the lock"
