# -E chooses the status of a conflict, and of nothing else.
. "$(dirname "$0")/common"
held k
exits 99 "$hf" run -n -E 99 k -- true
exits 0 "$hf" run -n -E 0 k -- touch ran
exits 42 "$hf" run -w 0.05 --conflict-exit-code 42 k -- true
exits 43 "$hf" run -nE43 k -- true
[ ! -e ran ] || fail "the command ran without the lock"
exits 5 "$hf" run -E 99 other -- sh -c 'exit 5'
exits 64 "$hf" run -E 256 other -- true
exits 64 "$hf" run -E x other -- true
