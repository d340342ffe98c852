# --at-least keeps the lock after a quick command.
. "$(dirname "$0")/common"
case $HF_CLI_STORE in
zookeeper | etcd) skip "this store has no fixed leases" ;;
esac
exits 0 "$hf" run --at-least 6 k -- true
exits 1 "$hf" run -n k -- true
has_count k kept 1 || fail "ls does not show it as kept: $("$hf" ls)"
exits 0 "$hf" run -w 40 k -- true
exits 0 "$hf" run --at-least 0.05 k -- sleep 0.2
exits 0 "$hf" run -n k -- true
exits 64 "$hf" run --at-least 5 --at-most 3 k -- true
