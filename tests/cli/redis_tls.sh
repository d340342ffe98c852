# TLS: the server is who it says, by its CA and by its name, or nothing runs.
. "$(dirname "$0")/common"
certs=$HOLDFAST_TEST_CERTS
port=${HOLDFAST_TEST_REDISS##*:}
tls=rediss://localhost:$port
refused() { # URL PART
    exits 77 "$hf" run --url "$1" k -- touch ran
    same "lines on stderr for $1" "$(wc -l <err.txt)" 1
    contains "stderr for $1" "$err" "$2"
    [ ! -e ran ] || fail "$1: the command ran without the lock"
}
exits 0 "$hf" run --url "$tls?ns=tls&ca_file=$certs/ca.pem" k -- echo inside
same "what ran" "$out" inside
refused "$tls?ca_file=$certs/other-ca.pem" "'localhost' refused"
refused "$tls" "'localhost' refused"
refused "$tls?ca_file=$certs/ca.pem&tls_name=elsewhere.invalid" \
    "'elsewhere.invalid' refused"
exits 78 "$hf" run --url "$tls?ca_file=/no/such/file" k -- touch ran
contains "stderr" "$err" /no/such/file
exits 0 "$hf" run --url "$tls?ns=tls&tls_verify=no" k -- echo inside
