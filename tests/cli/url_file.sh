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
