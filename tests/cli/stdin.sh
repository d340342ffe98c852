# stdin, stdout and stderr are the command's own.
. "$(dirname "$0")/common"
same "what cat read" "$(printf 'a\nb\n' | "$hf" run k -- cat)" "$(printf 'a\nb')"
exits 0 "$hf" run k -- sh -c 'echo to-out; echo to-err >&2'
same "stdout" "$out" to-out
same "stderr" "$err" to-err
# A descriptor that the caller opened goes through as well.
same "descriptor 5" "$("$hf" run k -- sh -c 'cat <&5' 5<<<five)" five
# A closed stdin is no harm.
exits 0 "$hf" run k -- true <&-
