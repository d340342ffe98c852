# --slots N: N at once, not N + 1; another N is refused.
. "$(dirname "$0")/common"
"$hf" run -n --slots 2 none -- true 2>&1 | grep -q 'this store has no permits' &&
    skip "this store has no permits"
held k --slots 2
exits 0 "$hf" run -n --slots 2 k -- true
start "$hf" run --slots 2 k -- sh -c 'echo x >second; sleep 30'
appears second
exits 1 "$hf" run -n --slots 2 k -- true
exits 78 "$hf" run -n --slots 3 k -- true
[ -n "$err" ] || fail "another number of slots is refused without a word"
kill "$holder"
exits 0 "$hf" run -w 20 --slots 2 k -- true
exits 64 "$hf" run --slots 0 k -- true
exits 64 "$hf" run --slots -1 k -- true
exits 64 "$hf" run --slots 2 -s k -- true
