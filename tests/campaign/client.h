/* client.h - what the parts of the campaign's client share. */
#ifndef HF_CAMPAIGN_CLIENT_H
#define HF_CAMPAIGN_CLIENT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <holdfast/holdfast.h>

#include "record.h"

enum { THREADS_MAX = 16 };

typedef struct camp_client {
    hf_session *s;
    uint32_t caps, life;
    int64_t lease_ms;
    int diary, keys, threads;
    bool planted; /* has keys of its own, as if there were no lock */
    camp_arena *arena;
    atomic_uint tasks;
    atomic_bool stop;
    _Atomic(hf_hold *) shown[THREADS_MAX]; /* somebody's hold, for a child */
} camp_client;

typedef struct camp_worker {
    camp_client *c;
    int place;
    uint64_t random;
    pthread_t thread;
} camp_worker;

int64_t camp_now(void);
/* Writes it down: the life, the instant if it has none, and the sum. */
void camp_write(camp_client *c, camp_record r);
/* A number below this one, from the worker's own seed. */
uint32_t camp_draw(camp_worker *w, uint32_t below);
/* Tells the conductor that this thread is none of the library's. */
void camp_name_thread(void);
/* Takes locks until it is told to stop. */
void *camp_work(void *worker);

#endif
