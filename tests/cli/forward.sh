# Signals to the wrapper reach the command, and its handling decides.
. "$(dirname "$0")/common"
script='trap "echo got $0 >got; exit 21" $0; echo x >ready; while :; do sleep 0.05; done'
for sig in INT TERM HUP QUIT USR1 USR2; do
    rm -f got ready
    start env --default-signal="$sig" "$hf" run k -- sh -c "$script" "$sig"
    pid=$!
    appears ready
    kill -"$sig" "$pid"
    wait "$pid"
    same "status after $sig" $? 21
    same "the handler's word" "$(cat got)" "got $sig"
done
# One that does not handle it is ended by it.
rm -f ready
start "$hf" run k -- sh -c 'echo x >ready; exec sleep 30'
pid=$!
appears ready
kill -TERM "$pid"
wait "$pid"
same "status" $? 143
