# A command that a signal ends gives 128 plus its number.
. "$(dirname "$0")/common"
exits 143 "$hf" run k -- sh -c 'kill -TERM $$'
exits 137 "$hf" run k -- sh -c 'kill -KILL $$'
exits 134 "$hf" run k -- sh -c 'ulimit -c 0; kill -ABRT $$'
