# Wrong words: one line with a hint, status 64, nothing run, nothing made.
. "$(dirname "$0")/common"
bad() {
    exits 64 "$hf" "$@"
    same "lines on stderr of '$*'" "$(wc -l <err.txt)" 1
    contains "stderr of '$*'" "$err" "--help"
    [ ! -e ran ] || fail "'$*' ran the command"
}
bad
bad nonsense
bad help nonsense
bad run
bad run k
bad run k --
bad run k ''
bad run --wrong k -- touch ran
bad run -Z k -- touch ran
bad run --l k
bad run -w
bad run -w -1 k -- touch ran
bad run -w x k -- touch ran
bad run -w '' k -- touch ran
bad run -w . k -- touch ran
bad run -w 1y k -- touch ran
bad run -w nan k -- touch ran
bad run -w 1e3 k -- touch ran
bad run -w 99999999999999999999 k -- touch ran
bad run -w 9223372036854775807 k -- touch ran
bad run -w 4000d k -- touch ran
bad run --lease 0 k -- touch ran
bad run --lease 1.9 k -- touch ran
bad run --lease -5 k -- touch ran
bad run --lease 86401 k -- touch ran
bad hold --lease 0.9 k
bad run --at-most 0 k -- touch ran
bad run --at-most -1 k -- touch ran
bad run --at-least -1 k -- touch ran
bad run --kill-after 20 k -- touch ran
bad run --kill-after 5 --at-most 4 k -- touch ran
bad run --slots 99999999999 k -- touch ran
bad run --json=yes k -- touch ran
bad run -u k -- touch ran
bad run k -n touch ran
bad run $'-w\e[31m' k
[ ! -e locks.db ] || fail "a store was made"
# Names may be cut short while they are clear.
exits 0 "$hf" run --nonb --lea 5 --at-m 60 k -- true
