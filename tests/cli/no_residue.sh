# No zombie, no guardian, no entry, no file beside the store's own.
. "$(dirname "$0")/common"
for _ in 1 2 3; do
    exits 0 "$hf" run k -- true
    exits 0 "$hf" run -F k -- true
    exits 3 "$hf" run k -- sh -c 'exit 3'
done
until_true 20 has_count '' held 0 || fail "still held: $("$hf" ls)"
others=$(find . -type f ! -name 'locks.db*' ! -name out.txt ! -name err.txt)
same "other files" "$others" ""
# A child of a shell that reaps nothing: none of ours may be left as a zombie.
exits 0 bash -c '"$0" run k -- true; ps -o stat= --ppid $$ | grep -c Z; true' "$hf"
same "zombies" "$out" 0
