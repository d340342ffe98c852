# A database that cannot be used: one line that names it, a status of its own,
# no secret shown, nothing run.
. "$(dirname "$0")/common"
refused() { # STATUS URL PART
    exits "$1" "$hf" run --url "$2" k -- touch ran
    same "lines on stderr for $2" "$(wc -l <err.txt)" 1
    contains "stderr for $2" "$err" "$3"
    lacks "stderr for $2" "$err" s3cret
    [ ! -e ran ] || fail "$2: the command ran without the lock"
}
case $HF_CLI_STORE in
postgres)
    scheme=postgres super=postgres at=${HOLDFAST_TEST_POSTGRES#*@}
    trusted=$HOLDFAST_TEST_POSTGRES
    ;;
mariadb)
    scheme=mysql super=root at=${HOLDFAST_TEST_MYSQL#*@}
    trusted=$HOLDFAST_TEST_MYSQL
    ;;
esac
at=${at%/*}
refused 69 "$scheme://$super@127.0.0.1:1/holdfast" 127.0.0.1:1
refused 69 "$scheme://$super@no-such-host.invalid/holdfast" no-such-host.invalid
refused 77 "$scheme://keeper:s3cret-no@$at/holdfast" password
refused 77 "$scheme://nobody:s3cret@$at/holdfast" password
refused 77 "$scheme://keeper@$at/holdfast" password
refused 78 "$scheme://$super@$at/nowhere" database
refused 78 "$trusted?colour=red" colour
refused 78 "$trusted?format=other" format
refused 78 "$trusted?prefix=a%22b" prefix
refused 78 "$trusted?schema=x;y" schema
refused 78 "$trusted?connections=0" connections
refused 78 "$trusted?create=perhaps" create
# Tables that are not there, and may not be made.
refused 78 "$trusted?prefix=none_&create=no" none_
echo "$scheme://keeper:s3cret@$at/holdfast?tls=yes&tls_verify=no&prefix=mine_" >url
exits 0 "$hf" run -vv --url-file url k -- "$hf" run inner -- "$hf" ls --json
contains "the listing" "$out" '"inner"'
lacks "stderr" "$err" s3cret
"$hf" doctor --url-file url --json >found 2>err.txt
[ $? -le 2 ] || fail "doctor: $(cat err.txt)"
lacks "the findings" "$(cat found err.txt)" s3cret
