/* redlock_test.h - five servers, and sessions on all of them.
 *
 * The servers are children of the test; each may be killed, stopped and started
 * again, with or without its memory.  Every wait has an end. */
#ifndef HF_DRIVERS_REDLOCK_TEST_H
#define HF_DRIVERS_REDLOCK_TEST_H

#include "../redis/redis_fault_test.h"

enum { FIVE = 5, MAJORITY = 3 };

typedef struct five {
    server *s[FIVE];
    char url[300];
} five;

static inline void five_url(five *f, const int ports[FIVE], const char *query)
{
    snprintf(f->url, sizeof f->url,
             "redlock://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d,"
             "127.0.0.1:%d/?%s",
             ports[0], ports[1], ports[2], ports[3], ports[4], query);
}

static inline five five_begin(const char *query)
{
    five f;
    int ports[FIVE];

    memset(&f, 0, sizeof f);
    for (int i = 0; i < FIVE; i++) {
        f.s[i] = server_start(NULL);
        ports[i] = f.s[i]->port;
    }
    five_url(&f, ports, query);
    return f;
}

static inline void five_end(five *f)
{
    for (int i = 0; i < FIVE; i++)
        server_stop(f->s[i]);
}

/* On how many of the servers from..to-1 is this key? */
static inline int five_have(five *f, const char *key, int from, int to)
{
    int count = 0;

    for (int i = from; i < to; i++)
        count += server_number(f->s[i], "EXISTS %s", key) == 1;
    return count;
}

static inline hf_hold *try_take(hf_session *s, const char *key)
{
    hf_hold *hold = NULL;
    hf_error err;

    EXPECT_OK(hf_try_lock(s, key, NULL, &hold, &err), err);
    return hold;
}

#endif
