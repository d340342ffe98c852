# What the command leaves running does not keep the wrapper, nor the lock.
. "$(dirname "$0")/common"
exits 0 "$hf" run k -- bash -c 'sleep 30 >/dev/null 2>&1 & echo $! >pid'
until_true 20 test -s pid
exits 0 "$hf" run -n k -- true
is_gone "$(cat pid)" && fail "it was killed although nothing was lost"
kill "$(cat pid)"
# The guardian holds no pipe: a reader sees the end at once.
same "through a pipe" "$("$hf" run k -- echo x | cat)" x
