# Not found is 127, not executable is 126, and the lock is free afterwards.
. "$(dirname "$0")/common"
exits 127 "$hf" run k -- ./nothing-here
contains "stderr" "$err" "cannot run './nothing-here': No such file"
echo text >plain
exits 126 "$hf" run k -- ./plain
contains "stderr" "$err" "Permission denied"
exits 127 "$hf" run -F k -- ./nothing-here
until_true 10 has_count k held 0 || fail "still held after a failed exec"
exits 0 "$hf" run -n k -- true
# A script without a first line is run by the shell, as execvp does.
printf 'exit 9\n' >script
chmod +x script
exits 9 "$hf" run k -- ./script
