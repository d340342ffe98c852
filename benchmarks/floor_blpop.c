/* floor_blpop.c - the cheapest hand-over that a Redis server has to offer.
 *
 * A list with one element is the lock: BLPOP takes the element, or waits for
 * it in the server's own queue; RPUSH gives it back, and the server answers
 * the first who waits within the same command.  First come, first served, two
 * round trips a pair; but no lease, no token, and a holder that dies takes the
 * element with it.  Nobody could use this, which is what makes it a floor. */
#include "redis.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The scenarios that use this floor know one key.  Its list has a name of its
 * own, since another floor may lock the same key on the same server. */
struct blpop_thread {
    redisContext *conn;
    char key[64], list[80];
};

static void *blpop_open_process(const char *where)
{
    char *copy = strdup(where);

    if (copy == NULL)
        bench_die("out of memory");
    return copy;
}

static void *blpop_open_thread(void *process, int worker)
{
    struct blpop_thread *t = calloc(1, sizeof *t);
    const char *port = strrchr(process, ':');

    (void)worker;
    if (t == NULL || port == NULL)
        bench_die("floor: cannot open '%s'", (const char *)process);
    t->conn = redisConnect("127.0.0.1", (int)strtol(port + 1, NULL, 10));
    if (t->conn == NULL || t->conn->err != 0)
        bench_die("floor: cannot connect to '%s'", (const char *)process);
    return t;
}

static redisReply *ask(struct blpop_thread *t, int words, const char **word)
{
    redisReply *r = redisCommandArgv(t->conn, words, word, NULL);

    if (r == NULL || r->type == REDIS_REPLY_ERROR)
        bench_die("floor: %s: %s", word[0], r ? r->str : t->conn->errstr);
    return r;
}

/* Whoever comes first puts the one element there. */
static void prepare_key(struct blpop_thread *t, const char *key)
{
    const char *mark[] = {"SETNX", "blpop-made", key};
    const char *push[] = {"RPUSH", t->list, "x"};
    redisReply *r;

    if (strcmp(t->key, key) == 0)
        return;
    if (t->key[0] != '\0' || strlen(key) >= sizeof t->key)
        bench_die("floor: BLPOP is measured with one short key only");
    memcpy(t->key, key, strlen(key) + 1);
    snprintf(t->list, sizeof t->list, "blpop:%s", key);
    r = ask(t, 3, mark);
    if (r->integer == 1)
        freeReplyObject(ask(t, 3, push));
    freeReplyObject(r);
}

static void blpop_lock(void *thread, const char *key)
{
    struct blpop_thread *t = thread;
    const char *word[] = {"BLPOP", t->list, "0"};
    redisReply *r;

    prepare_key(t, key);
    r = ask(t, 3, word);
    if (r->type != REDIS_REPLY_ARRAY || r->elements != 2)
        bench_die("floor: BLPOP answered without an element");
    freeReplyObject(r);
}

static void blpop_unlock(void *thread, const char *key)
{
    struct blpop_thread *t = thread;
    const char *word[] = {"RPUSH", t->list, "x"};

    (void)key;
    freeReplyObject(ask(t, 3, word));
}

const struct side floor_blpop = {
    .name = "BLPOP, RPUSH",
    .open_process = blpop_open_process,
    .open_thread = blpop_open_thread,
    .lock = blpop_lock,
    .unlock = blpop_unlock,
};
