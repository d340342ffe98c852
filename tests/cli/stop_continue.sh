# TSTP stops the command and not the lock; CONT lets it go on.
. "$(dirname "$0")/common"
start "$hf" run --lease 2 k -- bash -c 'echo $$ >pid; while [ ! -e go ]; do sleep 0.05; done; exit 8'
wrapper=$!
appears pid
child=$(cat pid)
state_is() { [ "$(ps -o stat= -p "$child" | cut -c1)" = "$1" ]; }
kill -TSTP "$wrapper"
until_true 20 state_is T || fail "the command is not stopped"
touch go
sleep 3
state_is T || fail "the command went on by itself"
exits 1 "$hf" run -n k -- true
kill -CONT "$wrapper"
wait "$wrapper"
same "status" $? 8
# TERM reaches one that is stopped.
rm -f go pid
start "$hf" run k -- bash -c 'echo $$ >pid; while :; do sleep 0.05; done'
wrapper=$!
appears pid
child=$(cat pid)
kill -TSTP "$wrapper"
until_true 20 state_is T || fail "the command is not stopped"
kill -TERM "$wrapper"
wait "$wrapper"
same "status" $? 143
