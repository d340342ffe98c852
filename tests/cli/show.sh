# show: the holder, then the waiters in their order.
. "$(dirname "$0")/common"
exits 0 "$hf" show k
contains "stdout" "$out" "'k' is free"
held k --owner chief
start "$hf" run --owner w1 k -- true
until_true 20 has_count k waits 1 || fail "no waiter is seen"
start "$hf" run --owner w2 k -- true
until_true 20 has_count k waits 2 || fail "no second waiter is seen"
exits 0 "$hf" show k
contains "stdout" "$(sed -n 2p <<<"$out")" "holder"
contains "stdout" "$(sed -n 2p <<<"$out")" "(chief), exclusive, token"
contains "stdout" "$(sed -n 3p <<<"$out")" "waiter 1"
contains "stdout" "$(sed -n 3p <<<"$out")" "(w1)"
contains "stdout" "$(sed -n 4p <<<"$out")" "waiter 2"
contains "stdout" "$(sed -n 4p <<<"$out")" "(w2)"
exits 0 "$hf" show --json k
python3 -c '
import json, sys
d = json.load(sys.stdin)
assert d["key"] == "k"
assert [e["name"] for e in d["holders"]] == ["chief"]
assert [e["name"] for e in d["waiters"]] == ["w1", "w2"]' <<<"$out" || fail "wrong JSON: $out"
# A key that only begins alike is another.
exits 0 "$hf" run kk -- "$hf" show kk
lacks "show kk" "$out" chief
exits 64 "$hf" show
exits 64 "$hf" show ''
