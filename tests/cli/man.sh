# The man pages build and say what the command says: each option of --help is
# on its page, each exit status on the main page.
. "$(dirname "$0")/common"
man=$HF_SOURCE_DIR/docs/man
python3 "$man/mkman.py" --out made "$man"/*.md >out.txt 2>&1 || fail "$(cat out.txt)"
for name in run hold ls show break doctor ddl version; do
    page=made/holdfast-$name.1
    [ -s "$page" ] || fail "no page for $name"
    text=$(sed 's/\\-/-/g' "$page")
    for option in $("$hf" help "$name" | grep -o -- '--[a-z-]*' | sort -u); do
        case $option in --|--fence) continue ;; esac
        contains "the page of $name" "$text" "$option"
    done
done
for status in 1 64 69 70 71 73 74 76 77 78 126 127 128; do
    sed "s/\\\\f[BIR]//g" made/holdfast.1 | grep -qw "$status" || fail "status $status is not in holdfast(1)"
done
if command -v groff >/dev/null; then
    for page in made/*; do
        warnings=$(groff -man -Tutf8 -ww "$page" 2>&1 >/dev/null)
        [ -z "$warnings" ] || fail "$warnings"
    done
fi
