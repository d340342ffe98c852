# Shared holders run together; an exclusive one waits for all of them.
. "$(dirname "$0")/common"
held k --shared
exits 0 "$hf" run -n -s k -- true
exits 0 "$hf" run -n --shared k -- true
exits 1 "$hf" run -n k -- true
exits 1 "$hf" run -n -s -x k -- true
exits 0 "$hf" run -n -x -s k -- true
# A waiting writer is not overtaken by a new reader.
start "$hf" run k -- touch wrote
until_true 20 has_count k waits 1 || fail "no waiter is seen"
exits 1 "$hf" run -n -s k -- true
kill "$holder"
appears_quietly() { [ -e wrote ]; }
until_true 20 appears_quietly || fail "the writer did not run"
