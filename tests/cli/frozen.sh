# SIGSTOP of the wrapper past its lease: the command is stopped before another
# has the lock, the wrapper says so when it runs again, with a status of its
# own, and a write with the old token is refused.
. "$(dirname "$0")/common"
start "$hf" run --lease 2 k -- bash -c \
    'echo $HOLDFAST_TOKEN >first; echo $$ >pid; while :; do echo x >>acts; sleep 0.01; done' 2>said
wrapper=$!
appears pid
appears first
kill -STOP "$wrapper"
exits 0 "$hf" run -w 20 k -- sh -c \
    'wc -l <acts; sleep 0.5; wc -l <acts; echo $HOLDFAST_TOKEN >second'
same "acts of the first while the second held it" \
    "$(sed -n 2p <<<"$out")" "$(sed -n 1p <<<"$out")"
[ "$(cat second)" -gt "$(cat first)" ] || fail "the second token is not larger"
kill -CONT "$wrapper"
wait "$wrapper"
same "status" $? 76
contains "stderr" "$(cat said)" "holdfast: lost 'k' (token $(cat first)): "
ends "$(cat pid)" "the command"
# The resource remembers the largest token it saw.
python3 - "$(cat second)" "$(cat first)" <<'PY' || fail "the old token was accepted"
import sqlite3, sys
db = sqlite3.connect(":memory:")
db.execute("create table stock (n, token)")
db.execute("insert into stock values (1, 0)")
done = [db.execute("update stock set n = n + 1, token = ?1 where token <= ?1",
                   (int(t),)).rowcount for t in sys.argv[1:]]
sys.exit(done != [1, 0])
PY
