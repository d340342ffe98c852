# HOLDFAST_LOST_FD is silent while held and ends when the command must stop.
. "$(dirname "$0")/common"
exits 0 "$hf" run k -- bash -c 'read -t 0.3 -u $HOLDFAST_LOST_FD; test $? -gt 128'
exits 76 "$hf" run --at-most 4 k -- bash -c \
    'trap "" TERM; read -u $HOLDFAST_LOST_FD || echo told >told; while :; do sleep 0.02; done'
same "the command's word" "$(cat told)" told
# It ends with the wrapper too, for one that left the group.
start "$hf" run k -- bash -c \
    'setsid bash -c "echo x >ready; read -u \$HOLDFAST_LOST_FD; echo x >orphan" &
     sleep 60'
wrapper=$!
appears ready
kill -9 "$wrapper"
appears orphan
