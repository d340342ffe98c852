# break --now passes the lock on at once; the old holder is told all the same,
# and one that ignores TERM is killed.
. "$(dirname "$0")/common"
start "$hf" run --lease 3 k -- bash -c \
    'trap "" TERM; echo $$ >pid; while :; do sleep 0.02; done' 2>said
wrapper=$!
appears pid
exits 0 "$hf" break --now --json k
python3 -c 'import json,sys; d=json.load(sys.stdin); assert d == {"key": "k", "broken": 1, "now": True}, d' <<<"$out" ||
    fail "wrong JSON: $out"
exits 0 "$hf" run -n k -- true
wait "$wrapper"
same "status of the broken run" $? 76
contains "stderr" "$(cat said)" "sent KILL to the command"
ends "$(cat pid)" "the command"
