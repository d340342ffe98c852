# What the command finds in its environment; tokens rise.
. "$(dirname "$0")/common"
show='echo "$HOLDFAST_KEY $HOLDFAST_TOKEN $HOLDFAST_URL"'
exits 0 "$hf" run a/key -- sh -c "$show"
read -r key first url <<<"$out"
same "HOLDFAST_KEY" "$key" a/key
same "HOLDFAST_URL" "$url" "$HOLDFAST_URL"
exits 0 "$hf" run a/key -- sh -c "$show"
read -r key second url <<<"$out"
[ "$second" -gt "$first" ] || fail "token $second is not above $first"
exits 0 "$hf" run --url "sqlite:$PWD/other.db" a/key -- sh -c "$show"
contains "HOLDFAST_URL" "$out" "sqlite:$PWD/other.db"
# A run inside a run: its own values win, and the outer one's are back after.
exits 0 "$hf" run outer -- "$hf" run inner -- sh -c 'echo $HOLDFAST_KEY'
same "HOLDFAST_KEY" "$out" inner
same "times HOLDFAST_KEY is set" \
    "$("$hf" run outer -- "$hf" run inner -- env | grep -c ^HOLDFAST_KEY=)" 1
# The default store, when nobody names one.
exits 0 env -u HOLDFAST_URL "$hf" run k -- sh -c "$show"
contains "HOLDFAST_URL" "$out" "$HOME"
