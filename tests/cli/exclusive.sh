# One at a time: six wrappers of a read-modify-write lose no step.
. "$(dirname "$0")/common"
echo 0 >count
for _ in 1 2 3 4 5 6; do
    for _ in 1 2 3 4 5; do
        "$hf" run k -- sh -c 'n=$(cat count); sleep 0.01; echo $((n + 1)) >count' ||
            echo "status $?" >>trouble
    done &
    pids+=($!)
done
wait
[ ! -e trouble ] || fail "a run failed: $(cat trouble)"
same "the count" "$(cat count)" 30
held k -x
exits 1 "$hf" run -n -s k -- true
exits 1 "$hf" run -n -e k -- true
