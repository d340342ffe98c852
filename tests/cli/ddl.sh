# ddl: a store that needs nothing says so; words and names are checked.
. "$(dirname "$0")/common"
one_line() { same "lines on stderr" "$(wc -l <err.txt)" 1; }
exits 78 "$hf" ddl sqlite
contains "stderr" "$err" "needs nothing"
same "stdout" "$out" ""
exits 64 "$hf" ddl
contains "stderr" "$err" "holdfast ddl postgres"
one_line
exits 64 "$hf" ddl sqlite x
exits 64 "$hf" ddl sqlite --prefix "a'b"
contains "stderr" "$err" letters
one_line
exits 64 "$hf" ddl sqlite --url sqlite:x
exits 64 "$hf" ddl sqlite --json
exits 78 "$hf" ddl nosuchstore
contains "stderr" "$err" nosuchstore
one_line
echo sqlite:x >url
exits 78 "$hf" ddl --url-file url
contains "stderr" "$err" sqlite
