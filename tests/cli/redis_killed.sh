# The server is killed under a running command: all of it is stopped before the
# lease could end, the status says so, and with the server back all is well.
. "$(dirname "$0")/common"
redis_start
export HOLDFAST_URL=redis://127.0.0.1:$redis_port
start "$hf" run --lease 3 k -- bash -c \
    'trap "" TERM; sleep 300 & echo $! $$ >all.new; mv all.new all
     while :; do date +%s%N >>acts; sleep 0.02; done' 2>said
wrapper=$!
appears all
appears acts
sleep 1.2 # a renewal has been sent
before=$(date +%s%N)
kill -9 "$redis_pid"
wait "$wrapper"
same "status" $? 76
contains "stderr" "$(cat said)" "holdfast: lost 'k' (token "
contains "stderr" "$(cat said)" "sent KILL to the command"
same "lines that were said twice" "$(sort said | uniq -d)" ""
for pid in $(cat all); do
    ends "$pid" "of the command"
done
last=$(tail -n 1 acts)
[ "$last" -lt $((before + 3000000000)) ] ||
    fail "it acted $(((last - before) / 1000000)) ms after the server's death"
exits 69 "$hf" run -n k -- touch ran
same "lines on stderr" "$(wc -l <err.txt)" 1
[ ! -e ran ] || fail "the command ran without the lock"
redis_start
exits 0 "$hf" run -w 20 k -- true
# Away for a moment only, with its memory kept: nothing is lost.
start "$hf" run --lease 10 k -- bash -c 'echo x >ready; read -r _ <go; exit 5'
mkfifo go
wrapper=$!
appears ready
kill -STOP "$redis_pid"
sleep 1
kill -CONT "$redis_pid"
echo x >go
wait "$wrapper"
same "status" $? 5
