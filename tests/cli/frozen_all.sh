# The whole job stands still (a suspended machine, a debugger): when it runs
# again, the command does not.
. "$(dirname "$0")/common"
start "$hf" run --lease 2 k -- bash -c \
    'echo $$ >pid; while :; do sleep 0.01; [ -e thawed ] && echo x >>late; done' 2>said
wrapper=$!
appears pid
child=$(cat pid)
kill -STOP "$wrapper"
kill -STOP "-$child"
exits 0 "$hf" run -w 20 k -- true
touch thawed
kill -CONT "$wrapper"
wait "$wrapper"
same "status" $? 76
contains "stderr" "$(cat said)" "lost 'k'"
ends "$child" "the command"
[ ! -e late ] || fail "the command went on after the loss"
