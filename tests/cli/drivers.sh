# A store whose driver is a shared object works as well as a built-in one,
# also for the command that is linked statically.
. "$(dirname "$0")/common"
path=${HOLDFAST_DRIVER_PATH:-}
[ -n "$path" ] && [ -e "$path/holdfast-trace.so" ] ||
    skip "needs HOLDFAST_DRIVER_PATH with holdfast-trace.so"
url=trace+$HOLDFAST_URL
exits 3 "$hf" run --url "$url" k -- sh -c 'echo "$HOLDFAST_URL"; exit 3'
same "HOLDFAST_URL" "$out" "$url"
exits 0 "$hf" ls --url "$url"
exits 0 "$hf" run -vv --url "$url" k -- true
contains "the driver's log" "$err" "trace: join 'k'"
exits 0 env HOLDFAST_URL="$url" "$hf" run -F k -- "$hf" show k
contains "show" "$out" "holder"
echo "$url" >url
exits 0 "$hf" run --url-file url k -- true
# It is the same lock.
held k
exits 1 "$hf" run -n --url "$url" k -- true
