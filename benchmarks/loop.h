/* loop.h - one thread that runs thousands of requests by the non-blocking
 * form, and looks at what its process has become. */
#ifndef BENCH_LOOP_H
#define BENCH_LOOP_H

#include <holdfast/holdfast.h>

#define LOOP_LEASE_MS 6000
#define LOOP_BATCH 100

struct usage {
    double rss, heap;
    double sqlite; /* the part of the heap that is SQLite's, mostly caches */
    long threads;
};

struct loop {
    hf_session *session;
    long granted;
};

struct usage loop_look(void);

/* A session with room for 30 000 waits, and its descriptor. */
hf_session *loop_open(const char *where);

/* Take what has come in; with grants expected, wait for it. */
void loop_collect(struct loop *l, long until_granted);

/* Start `count` requests for "/PREFIX/BATCH/NUMBER", from number `first` on. */
void loop_start(struct loop *l, const char *prefix, long first, long count);

/* As a program would that comes to its locks one by one: a burst of requests
 * in flight would be measured as if holds had that price. */
void loop_take(struct loop *l, const char *prefix, long count);

/* The same for waits that need a place in the store. */
void loop_wait(struct loop *l, const char *name, long count);

/* Until the session counts `all` waits, and `stored` of them have a place in
 * the store's queues; the others wait behind a hold of this process. */
void loop_await(struct loop *l, long all, long stored);

#endif
