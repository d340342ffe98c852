/* format_simple.c - the lock that most libraries know: one string key.
 *
 * The key is the lock's name, its value names the owner, SET NX PX takes it
 * and a comparing script deletes it: redis-py, redlock and its forks, redsync,
 * redislock, redis-semaphore, ShedLock.  None of them tells a release, so a
 * waiter of ours polls, and more rarely the longer it waits; among ourselves a
 * release is told on a channel beside the key, which costs the others nothing.
 *
 * No token, no queue: who comes at the right moment is next. */
#include "format.h"

#define SIMPLE                                                                 \
    FORMAT_STRINGS                                                             \
    "local function drop(k)\n"                                                 \
    "  redis.call('DEL', k)\n"                                                 \
    "  redis.pcall('PUBLISH', '" FORMAT_WAKE "' .. k, k)\n"                    \
    "end\n"

static redis_script simple_act = {.name = "simple", .text = SIMPLE FORMAT_ACT};
static redis_script simple_rows = {.name = "simple_rows",
                                   .text = SIMPLE FORMAT_ROWS};
static redis_script simple_evict = {.name = "simple_evict",
                                    .text = SIMPLE FORMAT_EVICT};

static const format_kind simple_kind = {.act = &simple_act,
                                        .rows = &simple_rows,
                                        .evict = &simple_evict,
                                        .tail = "",
                                        .kept_before = "kept:",
                                        .kept_tail = "",
                                        .look_most = HF_MS(900),
                                        .channel = format_wake_channel,
                                        .told = format_told_by_text};

static int simple_open(hf_store *store, const hf_url *url, hf_error *err)
{
    return format_open(store, url, &simple_kind, err);
}

static const char *const simple_options[] = {"prefix", NULL};

const redis_format redis_simple = {.name = "simple",
                                   .caps = FORMAT_CAPS,
                                   .options = simple_options,
                                   .open = simple_open,
                                   .close = format_close,
                                   .start = format_start,
                                   .message = format_message};
