/* script.c - the scripts of the native format, one per operation.
 *
 * Their texts are in lua/, readable there; the build turns them into strings.
 * A script is named to the server by the SHA-1 of its text and sent whole only
 * when the server does not know it.  Each has a twin for clusters, which first
 * asks whether the slot is being moved (lua/moving.lua). */
#include "store.h"

#include "lua_texts.h"

#define TWO(word, name)                                                        \
    {word, name##_text, ""},                                                   \
    {                                                                          \
        word, name##_clustered, ""                                             \
    }

redis_script redis_join[2] = {TWO("join", join)},
             redis_leave[2] = {TWO("leave", leave)},
             redis_recheck[2] = {TWO("recheck", recheck)},
             redis_attach[2] = {TWO("attach", attach)},
             redis_renew[2] = {TWO("renew", renew)},
             redis_detach[2] = {TWO("detach", detach)},
             redis_confirm[2] = {TWO("confirm", confirm)},
             redis_publish[2] = {TWO("publish", publish)},
             redis_evict[2] = {TWO("evict", evict)},
             redis_sessions[2] = {TWO("sessions", sessions)},
             redis_rows[2] = {TWO("rows", rows)},
             redis_keep = {"keep", keep_text, ""};

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_ready(void)
{
    redis_script *all[] = {redis_join,     redis_leave,   redis_recheck,
                           redis_attach,   redis_renew,   redis_detach,
                           redis_confirm,  redis_publish, redis_evict,
                           redis_sessions, redis_rows};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        redis_script_ready(&all[i][0]);
        redis_script_ready(&all[i][1]);
    }
    redis_script_ready(&redis_keep);
}

void redis_scripts_ready(void)
{
    pthread_once(&once, make_ready);
}
