# --at-most: TERM first, KILL when it is over, status 76, a line that says so.
. "$(dirname "$0")/common"
exits 76 "$hf" run --at-most 1 k -- bash -c \
    'trap "echo term >termed; exit 0" TERM; while :; do sleep 0.02; done'
contains "stderr" "$err" "holdfast: lost 'k' (token "
contains "stderr" "$err" "--at-most is over; sent TERM to the command"
same "the handler's word" "$(cat termed)" term
before=$(date +%s%N)
exits 76 "$hf" run --at-most 1 --kill-after 0.5 k -- bash -c \
    'trap "" TERM; while :; do sleep 0.02; done'
took=$((($(date +%s%N) - before) / 1000000))
[ "$took" -ge 900 ] || fail "ended after $took ms of 1000"
contains "stderr" "$err" "sent KILL to the command"
exits 0 "$hf" run --at-most 60 k -- true
exits 76 "$hf" hold --at-most 0.5 k < <(sleep 30)
contains "stderr" "$err" "lost 'k'"
