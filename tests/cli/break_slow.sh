# break, of a command that does not heed TERM: with the times that holdfast
# chooses by itself it is dead before the next one starts.
. "$(dirname "$0")/common"
start "$hf" run --lease 4 k -- bash -c \
    'trap "" TERM; echo $$ >first; for _ in {1..1000}; do sleep 0.02; done' 2>said
wrapper=$!
appears first
start "$hf" run --lease 4 -w 60 k -- bash -c \
    'read -r state rest < <(ps -o stat= -p "$(cat first)"); echo "${state:-gone}" >second'
until_true 20 has_count k waits 1 || fail "the second one does not wait"
exits 0 "$hf" break k
appears second
case $(cat second) in
gone | Z*) ;;
*) fail "the second command ran beside the first (state $(cat second))" ;;
esac
wait "$wrapper"
same "status of the broken run" $? 76
contains "stderr" "$(cat said)" "broken by an operator; sent KILL"
