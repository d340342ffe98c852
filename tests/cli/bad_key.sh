# Keys: 1 to 1000 bytes, any of them but NUL; look-alikes are different.
. "$(dirname "$0")/common"
exits 64 "$hf" run '' -- true
contains "stderr" "$err" "the key is empty"
long=$(printf 'k%.0s' {1..1001})
exits 64 "$hf" run "$long" -- true
contains "stderr" "$err" "1001 bytes"
exits 64 "$hf" hold "$long"
exits 64 "$hf" show "$long"
exits 64 "$hf" break "$long"
exits 0 "$hf" run "${long:1}" -- true
exits 0 "$hf" run x -- true
all=$(for i in {1..255}; do printf "\\x$(printf %02x "$i")"; done; echo .)
exits 0 "$hf" run "$all" -- bash -c 'test "$HOLDFAST_KEY" = "$1"' - "$all"
held a
for key in A 'a ' a/ a/b '{a}' % a% '' ; do
    [ -z "$key" ] || exits 0 "$hf" run -n "$key" -- true
done
exits 1 "$hf" run -n a -- true
