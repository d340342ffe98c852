# What the caller ignores stays ignored, here and in the command.
. "$(dirname "$0")/common"
start env --ignore-signal=HUP "$hf" run k -- sh -c 'echo x >ready; sleep 1; exit 6'
pid=$!
appears ready
kill -HUP "$pid"
wait "$pid"
same "status" $? 6
exits 5 env --ignore-signal=CHLD "$hf" run k -- sh -c 'exit 5'
held other
start env --ignore-signal=HUP "$hf" run -w 8 other -- true
pid=$!
until_true 20 has_count other waits 1 || fail "no waiter is seen"
kill -HUP "$pid"
wait "$pid"
same "status of a waiter that ignores HUP" $? 1
