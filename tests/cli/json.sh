# --json is valid JSON everywhere, also for keys that are no text.
. "$(dirname "$0")/common"
valid() { python3 -m json.tool >/dev/null || fail "$1 is no JSON"; }
lines_valid() {
    while IFS= read -r line; do valid "a line of $1" <<<"$line"; done
}
key=$'quote" back\\ nl\n tab\t \x7f \xff\xfe ü end'
exits 0 "$hf" run --json "$key" -- "$hf" ls --json
valid ls <<<"$out"
lines_valid run <<<"$err"
contains "events" "$err" '"event": "held"'
python3 -c '
import json, os, sys
e = json.load(sys.stdin)[0]
assert bytes.fromhex(e["key_hex"]) == os.fsencode(sys.argv[1]), e' "$key" <<<"$out" || fail "key_hex is wrong: $out"
exits 0 "$hf" run "$key" -- "$hf" show --json "$key"
valid show <<<"$out"
exits 0 "$hf" version --json
valid version <<<"$out"
held k
exits 1 "$hf" run -n --json k -- true
lines_valid "a busy run" <<<"$err"
contains "events" "$err" '"event": "busy"'
exits 64 "$hf" run --json --wrong k -- true
lines_valid "a usage error" <<<"$err"
exits 78 "$hf" run --json --url nosuch: k -- true
lines_valid "an error" <<<"$err"
contains "events" "$err" '"code": "HF_E'
exits 76 "$hf" run --json --at-most 0.5 other -- sleep 30
lines_valid "a loss" <<<"$err"
contains "events" "$err" '"event": "lost"'
