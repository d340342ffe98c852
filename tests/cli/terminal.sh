# On a terminal the command is in the foreground: it can read, Ctrl-C reaches
# it, Ctrl-Z stops it while the lock stays held; afterwards the shell has the
# terminal back.
. "$(dirname "$0")/common"
python3 -c 'import os; os.openpty()' 2>/dev/null ||
    skip "needs a pseudo-terminal (/dev/pts is not mounted)"
timeout 60 python3 "$(dirname "$0")/terminal.py" "$hf" || fail "see above"
