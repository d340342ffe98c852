# ls: a table, by prefix, with bytes that cannot harm a terminal.
. "$(dirname "$0")/common"
exits 0 "$hf" ls
same "stdout of an empty store" "$out" ""
exits 0 "$hf" ls --json
same "JSON of an empty store" "$(tr -d ' \n' <<<"$out")" "[]"
held a/1 --owner "my job" --lease 20
start "$hf" run a/1 -- true
until_true 20 has_count a/1 waits 1 || fail "no waiter is seen"
exits 0 "$hf" ls
contains "head" "$(head -n1 <<<"$out")" KEY
same "rows" "$(wc -l <<<"$out")" 3
contains "first row" "$(sed -n 2p <<<"$out")" "exclusive  held"
contains "first row" "$(sed -n 2p <<<"$out")" "'my job'"
contains "first row" "$(sed -n 2p <<<"$out")" "$holder"
contains "second row" "$(sed -n 3p <<<"$out")" "waits"
exits 0 "$hf" ls b
same "rows of another prefix" "$out" ""
exits 0 "$hf" ls a/
same "rows of its prefix" "$(wc -l <<<"$out")" 3
kill "$holder"
wait "$holder"
exits 0 "$hf" run -w 20 $'evil\e[31m\x01\xff' -- "$hf" ls
contains "escaped key" "$out" "\$'evil\\x1b[31m\\x01\\xff'"
exits 64 "$hf" ls a b
exits 74 bash -c '"$0" run k -- "$0" ls >/dev/full' "$hf"
