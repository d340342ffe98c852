# -c runs one string by the shell, before or after the key.
. "$(dirname "$0")/common"
export SHELL=/bin/sh
exits 4 "$hf" run k -c 'echo a | cat; exit 4'
same "stdout" "$out" a
exits 0 "$hf" run -c 'echo "$HOLDFAST_KEY"' k
same "stdout" "$out" k
exits 0 "$hf" run k --command 'echo b'
same "stdout" "$out" b
exits 64 "$hf" run k -c 'echo a' b
contains "stderr" "$err" "-c"
exits 64 "$hf" run k -c
exits 64 "$hf" run -c 'echo a' k echo b
SHELL='' exits 0 "$hf" run k -c 'echo c'
same "stdout" "$out" c
