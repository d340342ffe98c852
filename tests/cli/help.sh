# --help teaches: usage, an example, all on stdout, status 0.
. "$(dirname "$0")/common"
for word in --help -h help; do
    exits 0 "$hf" "$word"
    contains "stdout" "$out" "usage: holdfast"
    for name in run hold ls show break doctor ddl version; do
        contains "stdout" "$out" "  $name "
    done
done
for name in run hold ls show break doctor ddl version; do
    exits 0 "$hf" "$name" --help
    contains "stdout" "$out" "usage: holdfast $name"
    direct=$out
    same "stderr" "$err" ""
    exits 0 "$hf" help "$name"
    same "help $name" "$out" "$direct"
    awk 'length > 80 { exit 1 }' <<<"$out" || fail "a line of $name --help is too long"
done
exits 0 "$hf" --version
contains "stdout" "$out" "holdfast "
exits 0 "$hf" version
