# A server that cannot be used: one line that names it, a status of its own, no
# secret shown, nothing run.
. "$(dirname "$0")/common"
refused() { # STATUS URL PART
    exits "$1" "$hf" run --url "$2" k -- touch ran
    same "lines on stderr for $2" "$(wc -l <err.txt)" 1
    contains "stderr for $2" "$err" "$3"
    lacks "stderr for $2" "$err" s3cret
    [ ! -e ran ] || fail "$2: the command ran without the lock"
}
refused 69 redis://127.0.0.1:1 127.0.0.1:1
refused 69 redis://no-such-host.invalid no-such-host.invalid
redis_start --requirepass s3cret
at=127.0.0.1:$redis_port
refused 77 "redis://$at" password
refused 77 "redis://:s3cret-no@$at" password
refused 77 "redis://nobody:s3cret@$at" password
refused 78 "redis://:s3cret@$at/99" database
refused 78 "redis://:s3cret@$at/x" database
refused 78 "redis://:s3cret@$at/?ns=" ns
refused 78 "redis://:s3cret@$at/?colour=red" colour
refused 78 "redis://:s3cret@$at/?format=other" format
refused 78 "redis://:s3cret@$at/?ca_file=x" rediss
refused 69 "rediss://:s3cret@$at" 127.0.0.1
refused 69 redis+unix:///no/such/socket /no/such/socket
echo "redis://:s3cret@$at/3" >url
exits 0 "$hf" run -vv --url-file url k -- "$hf" run inner -- "$hf" ls --json
contains "the listing" "$out" '"inner"'
lacks "stderr" "$err" s3cret
exits 1 "$hf" doctor --url-file url --json
lacks "the findings" "$out" s3cret
