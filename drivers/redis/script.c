/* script.c - the scripts of the native format, one per operation.
 *
 * Their texts are in lua/, readable there; the build turns them into strings.
 * A script is named to the server by the SHA-1 of its text and sent whole only
 * when the server does not know it. */
#include "store.h"

#include "lua_texts.h"

redis_script redis_join = {"join", join_text, ""},
             redis_leave = {"leave", leave_text, ""},
             redis_recheck = {"recheck", recheck_text, ""},
             redis_attach = {"attach", attach_text, ""},
             redis_renew = {"renew", renew_text, ""},
             redis_detach = {"detach", detach_text, ""},
             redis_confirm = {"confirm", confirm_text, ""},
             redis_publish = {"publish", publish_text, ""},
             redis_evict = {"evict", evict_text, ""},
             redis_sessions = {"sessions", sessions_text, ""},
             redis_rows = {"rows", rows_text, ""};

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_ready(void)
{
    redis_script *all[] = {&redis_join,     &redis_leave,   &redis_recheck,
                           &redis_attach,   &redis_renew,   &redis_detach,
                           &redis_confirm,  &redis_publish, &redis_evict,
                           &redis_sessions, &redis_rows};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        redis_script_ready(all[i]);
}

void redis_scripts_ready(void)
{
    pthread_once(&once, make_ready);
}
