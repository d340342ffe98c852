# -F and a loss: the keeper ends the command; so does its guardian if the
# keeper itself is killed.
. "$(dirname "$0")/common"
exits 137 "$hf" run -F --at-most 1 --kill-after 0.4 k -- bash -c \
    'trap "echo x >termed" TERM; while :; do sleep 0.02; done'
[ -e termed ] || fail "no TERM before the KILL"
contains "stderr" "$err" "lost 'k'"
start "$hf" run -F k -- bash -c 'echo x >ready; while :; do sleep 0.02; done'
pid=$!
appears ready
keeper=$(python3 -c '
import json, subprocess, sys
print(json.loads(subprocess.check_output([sys.argv[1], "ls", "--json", "k"]))[0]["pid"])' "$hf")
[ "$keeper" != "$pid" ] || fail "the command itself holds the session"
kill -9 "$keeper"
wait "$pid"
same "status when the keeper is killed" $? 137
exits 0 "$hf" run -w 20 k -- true
