# break: the holder's command gets TERM, its wrapper 76, the next the lock.
. "$(dirname "$0")/common"
exits 1 "$hf" break k
contains "stdout" "$out" "nobody holds 'k'"
start "$hf" run --lease 3 k -- bash -c \
    'trap "echo x >termed; exit 0" TERM; echo $HOLDFAST_TOKEN >token; while :; do sleep 0.02; done' 2>said
wrapper=$!
appears token
exits 1 "$hf" break --token 1$(cat token) k
exits 1 "$hf" run -n k -- true
exits 0 "$hf" break --token "$(cat token)" k
contains "stdout" "$out" "broke 1 hold of 'k'"
wait "$wrapper"
same "status of the broken run" $? 76
contains "stderr" "$(cat said)" "lost 'k' (token $(cat token)): broken by an operator; sent TERM"
[ -e termed ] || fail "the command got no TERM"
exits 0 "$hf" run -w 20 k -- sh -c 'echo $HOLDFAST_TOKEN'
[ "$out" -gt "$(cat token)" ] || fail "token $out is not above $(cat token)"
exits 64 "$hf" break
exits 64 "$hf" break --token x k
exits 64 "$hf" break --token 0 k
