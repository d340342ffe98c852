# The completions load and know commands and options.
. "$(dirname "$0")/common"
dir=$HF_SOURCE_DIR/completion
complete_words() {
    bash -c '
        . "$1"
        shift
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
        _holdfast
        echo "${COMPREPLY[*]}"' - "$dir/holdfast.bash" "$@"
}
for name in run hold ls show break doctor ddl version; do
    contains "commands" " $(complete_words "$hf" '') " " $name "
    # Every long option of the help is completed.
    for option in $("$hf" help "$name" | grep -o -- '^  .*  --[a-z-]*\|, --[a-z-]*' | grep -o -- '--[a-z-]*' | sort -u); do
        contains "options of $name" " $(complete_words "$hf" "$name" --) " " $option "
    done
done
held deploy/x
contains "keys" "$(complete_words "$hf" show dep)" deploy/x
bash -n "$dir/holdfast.bash" || fail "bash cannot read it"
if command -v zsh >/dev/null; then
    zsh -n "$dir/_holdfast" || fail "zsh cannot read it"
fi
