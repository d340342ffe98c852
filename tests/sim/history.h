/* history.h - what happened, in the order of true time.
 *
 * The simulator writes it, the checker reads it; neither knows the other.  All
 * instants are of the one true clock, which no client can read. */
#ifndef HF_SIM_HISTORY_H
#define HF_SIM_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { SIM_KEYS = 3, SIM_LIVES = 64, SIM_TASKS = 1024 };

/* X(name, text) */
#define SIM_EVENT_MAP(X)                                                       \
    X(ASK, "asks for the lock")                                                \
    X(GRANT, "is told: granted")                                               \
    X(BELIEF, "checks: still held")                                            \
    X(CUT, "believes nothing for now")                                         \
    X(GONE, "is told: lost")                                                   \
    X(RELEASE, "gives it back")                                                \
    X(RELEASED, "is answered to its release")                                  \
    X(REFUSED, "is told: not granted")                                         \
    X(CANCEL, "cancels")                                                       \
    X(ACT, "writes to the resource")                                           \
    X(OPEN, "opens its session")                                               \
    X(CLOSE, "closes its session")                                             \
    X(CRASH, "crashes")                                                        \
    X(STORE_GRANT, "STORE grants")                                             \
    X(STORE_END, "STORE drops the granted entry")                              \
    X(BREAK, "an operator breaks the lock")                                    \
    X(CALM, "no more faults from here on")                                     \
    X(SERVED, "by now all must be served")                                     \
    X(END, "the end")

#define SIM_EVENT_ENUM(name, text) SIM_##name,
typedef enum sim_event_kind { SIM_EVENT_MAP(SIM_EVENT_ENUM) } sim_event_kind;

enum {
    SIM_TRY = 1 << 0,      /* ASK: does not wait */
    SIM_AGAIN = 1 << 1,    /* GRANT: re-entry by the same owner */
    SIM_OVER = 1 << 2,     /* GRANT: its session was over before */
    SIM_DOUBT = 1 << 3,    /* GRANT: the clock was in doubt */
    SIM_STANDING = 1 << 4, /* GONE: the store still has it, and it lives */
    SIM_OWNED = 1 << 5     /* ASK: by an owner who may take it again */
};

typedef struct sim_event {
    int64_t at;
    int64_t until;  /* GRANT, BELIEF: end of the belief; ASK: of the wait */
    uint64_t token; /* GRANT, ACT, STORE_...: the (first) token */
    uint64_t num;   /* STORE_GRANT: place in the queue; ASK, GRANT: which
                       session of the client it was; END: blocks of memory
                       that are left */
    uint32_t task;  /* the request, and the hold that came of it */
    uint32_t count; /* STORE_GRANT: tokens in a row; ASK: places; END: what
                       is left in the store */
    int32_t code;
    uint8_t kind, life, key, mode, flags;
} sim_event;

typedef struct sim_history {
    sim_event *events;
    size_t count, room;
    bool full; /* some are missing: no verdict, and so not good */
} sim_history;

/* The next event, to be filled in. */
sim_event *sim_record(sim_history *history, sim_event_kind kind, int64_t at);
void sim_history_clear(sim_history *history);
void sim_history_free(sim_history *history);
void sim_print_event(FILE *out, const sim_event *event);

#endif
