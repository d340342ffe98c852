# -v says who and how long, -q says nothing; errors are one line.
. "$(dirname "$0")/common"
exits 0 "$hf" run -v k -- true
contains "stderr" "$err" "holdfast: got 'k' (token "
held k --owner chief
exits 1 "$hf" run -n -v k -- true
contains "stderr" "$err" "holdfast: 'k' is held by "
contains "stderr" "$err" "(chief), token "
exits 1 "$hf" run -n -q k -- true
same "stderr" "$err" ""
exits 78 "$hf" run -q --url nosuch: k -- true
same "stderr" "$err" ""
exits 76 "$hf" run -q --at-most 0.5 other -- sleep 30
same "stderr" "$err" ""
