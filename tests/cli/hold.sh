# hold: says when it has it, ends with stdin or TERM, tells of a loss.
. "$(dirname "$0")/common"
exits 0 "$hf" hold k
[[ $out =~ ^held\ k\ token\ [0-9]+$ ]] || fail "it said '$out'"
exits 0 "$hf" run -n k -- true
held k
exits 1 "$hf" hold -n k
exits 9 "$hf" hold -n -E 9 k
kill -TERM "$holder"
wait "$holder"
same "status after TERM" $? 0
exits 0 "$hf" run -n k -- true
held k
kill -INT "$holder"
kill -TERM "$holder"
wait "$holder"
same "status after INT" $? 0
exits 0 "$hf" hold --json 'a b'
python3 -c 'import json,sys; d=json.load(sys.stdin); assert d["event"] == "held" and d["key"] == "a b" and d["token"] > 0' <<<"$out" ||
    fail "wrong JSON: $out"
held k --lease 2
exits 0 "$hf" break k
wait "$holder"
same "status after a break" $? 76
exits 64 "$hf" hold k -- true
exits 64 "$hf" hold
