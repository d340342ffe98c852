# Without its guardian too, the command itself ends with the wrapper.
. "$(dirname "$0")/common"
start "$hf" run k -- bash -c 'echo $$ >pid; while :; do sleep 0.05; done'
wrapper=$!
appears pid
for child in $(ps -o pid= --ppid "$wrapper"); do
    [ "$child" = "$(cat pid)" ] || kill -9 "$child"
done
kill -9 "$wrapper"
wait "$wrapper" 2>/dev/null
ends "$(cat pid)" "the command"
