# bash completion for holdfast.
#
# Commands, options, and for a key those that are in the store now.  Knows
# nothing that `holdfast help COMMAND` does not say.

_holdfast_common='--help --url --url-file --json --quiet --verbose'
_holdfast_take='--nonblock --nb --wait --timeout --shared --exclusive
    --conflict-exit-code --lease --at-most --at-least --slots --owner'

# The options of a command.
_holdfast_options() {
    case $1 in
    run) echo "$_holdfast_common $_holdfast_take --command --no-fork --close
        --kill-after" ;;
    hold) echo "$_holdfast_common $_holdfast_take" ;;
    break) echo "$_holdfast_common --token --now" ;;
    ddl) echo "$_holdfast_common --schema --prefix --format --guard" ;;
    ls | show | doctor | version) echo "$_holdfast_common" ;;
    esac
}

# Keys that are held or waited for; a store that cannot be asked has none.
# Only keys that need no quoting: the rest would not survive COMPREPLY.
_holdfast_keys() {
    local holdfast=${COMP_WORDS[0]}
    command -v "$holdfast" >/dev/null || return
    timeout 1 "$holdfast" ls --quiet "$1" 2>/dev/null |
        sed -n '2,$s/ .*//p' | grep -v "['\$]" | sort -u
}

_holdfast() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
    local command='' word at key=''
    COMPREPLY=()
    for ((at = 1; at < COMP_CWORD; at++)); do
        word=${COMP_WORDS[at]}
        if [ -z "$command" ]; then
            command=$word
            continue
        fi
        case $word in
        --wait | --timeout | -w | -E | --conflict-exit-code | --lease | \
            --at-most | --at-least | --slots | --owner | --kill-after | --url | \
            --url-file | --token | --schema | --prefix | --format) at=$((at + 1)) ;;
        -c | --command) at=$((at + 1)) ;;
        -*) ;;
        *) key=${key:-$at} ;;
        esac
    done
    if [ -z "$command" ]; then
        mapfile -t COMPREPLY < <(compgen -W \
            'run hold ls show break doctor ddl version help --help --version' \
            -- "$cur")
        return
    fi
    case $prev in
    --url-file)
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    --wait | --timeout | -w | -E | --conflict-exit-code | --lease | --at-most | \
        --at-least | --slots | --owner | --kill-after | --url | --token | \
        --schema | --prefix | --format) return ;;
    esac
    if [ "$command" = help ]; then
        mapfile -t COMPREPLY < <(compgen -W \
            'run hold ls show break doctor ddl version' -- "$cur")
    elif [ "$command" = run ] && [ -n "$key" ]; then
        # The command and its words are completed as anywhere.
        [ "${COMP_WORDS[key + 1]-}" = -- ] && key=$((key + 1))
        if declare -F _command_offset >/dev/null; then
            _command_offset $((key + 1))
        else
            mapfile -t COMPREPLY < <(compgen -c -f -- "$cur")
        fi
    elif [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_holdfast_options "$command")" \
            -- "$cur")
    elif [ "$command" = ddl ] && [ -z "$key" ]; then
        mapfile -t COMPREPLY < <(compgen -W 'postgres mysql odbc' -- "$cur")
    elif [ -z "$key" ]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_holdfast_keys "$cur")" -- "$cur")
    fi
}

complete -F _holdfast holdfast
