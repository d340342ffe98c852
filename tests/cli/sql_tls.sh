# TLS: the server is who it says, by its CA and by its name, or nothing runs.
. "$(dirname "$0")/common"
certs=$HOLDFAST_TEST_CERTS
case $HF_CLI_STORE in
postgres) tls=$HOLDFAST_TEST_POSTGRES_TLS ;;
mariadb) tls=$HOLDFAST_TEST_MYSQL_TLS ;;
esac
refused() { # URL PART
    exits 77 "$hf" run --url "$1" k -- touch ran
    same "lines on stderr for $1" "$(wc -l <err.txt)" 1
    contains "stderr for $1" "$err" "$2"
    lacks "stderr for $1" "$err" s3cret
    [ ! -e ran ] || fail "$1: the command ran without the lock"
}
exits 0 "$hf" run --url "$tls?prefix=tls_&ca_file=$certs/ca.pem" k -- echo inside
same "what ran" "$out" inside
exits 0 "$hf" run --url "$tls?prefix=tls_&tls=yes&ca_file=$certs/ca.pem" k -- true
refused "$tls?tls=yes&ca_file=$certs/other-ca.pem" CA
refused "$tls?tls=no" ""
# A server that shows a certificate for another name.
HF_SQL_CERTS=$certs HF_SQL_CERT=wrong sql_start "$HF_CLI_STORE"
other=${tls%@*}@localhost:$sql_port/holdfast
refused "$other?tls=yes&ca_file=$certs/ca.pem" name
exits 0 "$hf" run --url "$other?tls=yes&tls_verify=no" k -- echo inside
same "what ran" "$out" inside
