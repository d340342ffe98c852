# The command's status is passed on.
. "$(dirname "$0")/common"
exits 0 "$hf" run k -- true
exits 1 "$hf" run k -- false
exits 7 "$hf" run k -- sh -c 'exit 7'
exits 255 "$hf" run k -- sh -c 'exit 255'
exits 3 "$hf" run k sh -c 'exit 3'
exits 0 "$hf" run -- k echo a b
same "output" "$out" "a b"
same "stderr" "$err" ""
