/* floor_redis.c - the least a correct lock on Redis can do.
 *
 * Written by hand on hiredis: SET NX PX to take it, a script that compares and
 * deletes to give it back, a blocking connection a thread.  No session, no
 * renewal, no queue, no token: what holdfast costs more than this is what
 * those cost.  The commands' words are ready before they are timed. */
#include "redis.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct redis_thread {
    redisContext *conn;
    char owner[48], sha[41];
};

static void *redis_open_process(const char *where)
{
    char *copy = strdup(where);

    if (copy == NULL)
        bench_die("out of memory");
    return copy;
}

static void *redis_open_thread(void *process, int worker)
{
    static const char give[] = "if redis.call('GET', KEYS[1]) == ARGV[1] then "
                               "return redis.call('DEL', KEYS[1]) end return 0";
    struct redis_thread *t = calloc(1, sizeof *t);
    const char *port = strrchr(process, ':');
    redisReply *r;

    if (t == NULL || port == NULL)
        bench_die("floor: cannot open '%s'", (const char *)process);
    t->conn = redisConnect("127.0.0.1", (int)strtol(port + 1, NULL, 10));
    if (t->conn == NULL || t->conn->err != 0)
        bench_die("floor: cannot connect to '%s'", (const char *)process);
    snprintf(t->owner, sizeof t->owner, "%d-%d-%llx", (int)getpid(), worker,
             (unsigned long long)now_ns());
    r = redisCommand(t->conn, "SCRIPT LOAD %s", give);
    if (r == NULL || r->type != REDIS_REPLY_STRING || r->len != 40)
        bench_die("floor: SCRIPT LOAD failed");
    memcpy(t->sha, r->str, sizeof t->sha);
    freeReplyObject(r);
    return t;
}

static redisReply *ask(struct redis_thread *t, int words, const char **word)
{
    redisReply *r = redisCommandArgv(t->conn, words, word, NULL);

    if (r == NULL || r->type == REDIS_REPLY_ERROR)
        bench_die("floor: %s: %s", word[0], r ? r->str : t->conn->errstr);
    return r;
}

static bool try_lock(struct redis_thread *t, const char *key)
{
    const char *word[] = {"SET", key, t->owner, "NX", "PX", "30000"};
    redisReply *r = ask(t, 6, word);
    bool got = r->type == REDIS_REPLY_STATUS;

    freeReplyObject(r);
    return got;
}

static void redis_lock(void *thread, const char *key)
{
    if (!try_lock(thread, key))
        bench_die("floor: '%s' is taken, and this floor cannot wait", key);
}

static void redis_unlock(void *thread, const char *key)
{
    struct redis_thread *t = thread;
    const char *word[] = {"EVALSHA", t->sha, "1", key, t->owner};
    redisReply *r = ask(t, 5, word);

    if (r->type != REDIS_REPLY_INTEGER || r->integer != 1)
        bench_die("floor: '%s' was not held", key);
    freeReplyObject(r);
}

/* What most locks on Redis do when the key is taken. */
static void poll_lock(void *thread, const char *key)
{
    while (!try_lock(thread, key))
        sleep_us(100 * 1000);
}

const struct side floor_redis = {
    .name = "SET NX PX, EVALSHA",
    .open_process = redis_open_process,
    .open_thread = redis_open_thread,
    .lock = redis_lock,
    .unlock = redis_unlock,
};

const struct side floor_redis_poll = {
    .name = "100 ms poller on Redis",
    .open_process = redis_open_process,
    .open_thread = redis_open_thread,
    .lock = poll_lock,
    .unlock = redis_unlock,
};
