# The URL from a file: nothing secret on the command line.
. "$(dirname "$0")/common"
printf '  sqlite:%s/filed.db \nmore\n' "$PWD" >url
exits 0 env -u HOLDFAST_URL "$hf" run --url-file url k -- sh -c 'echo $HOLDFAST_URL'
same "HOLDFAST_URL" "$out" "sqlite:$PWD/filed.db"
[ -e filed.db ] || fail "the store of the file was not used"
exits 78 "$hf" ls --url-file /dev/null
exits 71 "$hf" ls --url-file nowhere
contains "stderr" "$err" "nowhere"
exits 64 "$hf" ls --url-file url --url sqlite:x
# A pipe can be read once, and who loads drivers is another executable.
mkfifo secret
printf 'trace+sqlite:%s/piped.db\n' "$PWD" >secret &
exits 0 env -u HOLDFAST_URL "$hf" run -q --url-file secret k -- sh -c 'echo $HOLDFAST_URL; env'
wait
contains "stdout" "$out" "trace+sqlite:$PWD/piped.db"
case $out in *HOLDFAST_URL_READ*) fail "the command finds what was handed over" ;; esac
[ -e piped.db ] || fail "the store of the pipe was not used"
