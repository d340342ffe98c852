# On a terminal the command is in the foreground: it can read, Ctrl-C reaches
# it, Ctrl-Z stops it while the lock stays held; afterwards the shell has the
# terminal back.
. "$(dirname "$0")/common"
timeout 60 python3 "$(dirname "$0")/terminal.py" "$hf" || fail "see above"
