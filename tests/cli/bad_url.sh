# Stores that cannot be: a line that names it, a status of its own.
. "$(dirname "$0")/common"
one_line() { same "lines on stderr" "$(wc -l <err.txt)" 1; }
exits 78 "$hf" run --url nosuch://host/x k -- touch ran
one_line
contains "stderr" "$err" nosuch
exits 78 "$hf" ls --url ''
exits 78 "$hf" ls --url sqlite
one_line
exits 78 "$hf" ls --url 'sqlite:x.db?wrong=1'
one_line
contains "stderr" "$err" wrong
contains "all options" "$err" "sync, network"
exits 78 env HOLDFAST_URL=nosuch: "$hf" ls
echo 'this is not a database, but long enough to be looked at' >text
exits 78 "$hf" ls --url "sqlite:$PWD/text"
one_line
contains "stderr" "$err" text
ln -s elsewhere.db link.db
"$hf" ls --url "sqlite:$PWD/link.db" 2>err.txt
[ $? -ge 69 ] || fail "a symbolic link was followed"
one_line
[ ! -e elsewhere.db ] || fail "a symbolic link was followed"
exits 73 "$hf" ls --url "sqlite:$PWD/no/such/folder/x.db"
one_line
contains "stderr" "$err" "/no/such/folder"
[ ! -e ran ] || fail "the command ran without the lock"
