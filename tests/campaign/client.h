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
    pthread_mutex_t loop;                  /* whoever has it collects for all */
} camp_client;

typedef struct camp_worker {
    camp_client *c;
    int place;
    uint64_t random;
    pthread_t thread;
} camp_worker;

/* A request and its hold. */
typedef struct camp_turn {
    camp_worker *w;
    uint32_t task;
    uint8_t key, mode, flags;
    int64_t length_ms; /* it ends by itself then; 0: it does not */
    hf_hold *hold;
    uint64_t token;
} camp_turn;

int64_t camp_now(void);
/* Writes it down: the life, the instant if it has none, and the sum. */
void camp_write(camp_client *c, camp_record r);
/* A number below this one, from the worker's own seed. */
uint32_t camp_draw(camp_worker *w, uint32_t below);
/* Tells the conductor that this thread is none of the library's. */
void camp_name_thread(void);
/* Takes locks until it is told to stop. */
void *camp_work(void *worker);

/* ---- Of turns.c, for ways.c ---- */

camp_record camp_line(const camp_turn *t, camp_kind kind);
/* For `user`: it may be told after the turn is over. */
void *camp_pack(const camp_turn *t);
void camp_note_change(hf_state state, int reason, void *user);
/* Draws a number for the request, and writes down that it is made. */
void camp_ask(camp_turn *t, const hf_lock_options *opt, uint32_t above,
              camp_record *ret);
void camp_answer(camp_turn *t, const camp_record *asked, const hf_error *err);
bool camp_take(camp_turn *t, hf_lock_options *opt, uint32_t above);
bool camp_check(camp_turn *t);
void camp_name_key(const camp_turn *t, char *ret, size_t size);

/* ---- Of ways.c ---- */

/* Sometimes a hold is asked for that ends by itself, or has a value. */
void camp_embellish(camp_turn *t, hf_lock_options *opt);
/* A whole turn as an event loop has it; false: somebody else has the loop. */
bool camp_loop_turn(camp_turn *t, hf_lock_options *opt);
/* A turn by a thread that ends while it holds. */
void camp_leave_turn(camp_turn *t, hf_lock_options *opt);

#endif
