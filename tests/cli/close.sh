# Without -o the command inherits the life descriptor, as with flock; with -o
# it does not.  The lock works the same.
. "$(dirname "$0")/common"
exits 0 "$hf" run k -- sh -c 'ls -l /proc/$$/fd'
contains "descriptors" "$out" "locks.db"
exits 0 "$hf" run -o k -- sh -c 'ls -l /proc/$$/fd'
lacks "descriptors" "$out" "locks.db"
exits 0 "$hf" run --close k -- sh -c 'ls -l /proc/$$/fd'
lacks "descriptors" "$out" "locks.db"
exits 64 "$hf" run -o -F k -- true
contains "stderr" "$err" "exclude"
