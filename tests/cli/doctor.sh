# doctor: lines of ok, warn, FAIL; the worst is the status.
. "$(dirname "$0")/common"
"$hf" doctor >found 2>err.txt
status=$?
# A database of the tests does not flush its disk, and that is found.
if [ "$status" -gt 1 ] && [ "$(grep '^FAIL' found | grep -cv durability)" -gt 0 ]
then
    fail "status $status: $(cat found err.txt)"
fi
[ "$status" -le 2 ] || fail "status $status: $(cat found err.txt)"
grep -Eqv '^(ok  |warn|FAIL)  ' found && fail "an odd line: $(cat found)"
grep -q '^ok' found || fail "nothing is ok: $(cat found)"
exits "$status" "$hf" doctor --json
python3 -c '
import json, sys
d = json.load(sys.stdin)
assert d["url"].split(":")[0].split("+")[0] in (
    "sqlite", "redis", "rediss", "postgres", "mysql", "odbc", "zookeeper",
    "etcd")
assert d["findings"] and all(f["level"] in ("ok", "warn", "FAIL") for f in d["findings"])
assert d["worst"] == ["ok", "warn", "FAIL"][int(sys.argv[1])]' "$status" <<<"$out" || fail "wrong JSON: $out"
exits "$status" "$hf" doctor -q
lacks "quiet output" "$out" "ok  "
exits 64 "$hf" doctor x
