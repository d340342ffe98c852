/* sim.h - one small world: a store, a network, a few clients, one true clock.
 *
 *   main.c    seeds, the command, shrinking       world.c  one history
 *   loop.c    the heap of events                  time.c   clocks and pauses
 *   driver.c  the driver `sim:`                   store.c  the model, watched
 *   net.c     the network                         chaos.c  who is hit by what
 *   client.c  a process: its session and keeper   app.c    what it does with it
 *   pool.c    memory
 *
 * Everything happens on one thread.  A client that is paused in the middle of
 * a call is a frame on the C stack below the loop that runs the others. */
#ifndef HF_SIM_SIM_H
#define HF_SIM_SIM_H

#include <setjmp.h>

#include <holdfast/driver.h>

#include "core/mutant.h"
#include "mem/model.h"
#include "sim/history.h"

/* What may go wrong; a history draws a set of them. */
#define SIM_FAULT_MAP(X)                                                       \
    X(LOSE, "requests are lost")                                               \
    X(MUTE, "replies are lost")                                                \
    X(LATE, "messages are late, up to three leases, and overtake")             \
    X(TWICE, "requests arrive twice")                                          \
    X(REFUSE, "the store cannot be reached for a moment")                      \
    X(PUSH, "pushes are lost, late, repeated")                                 \
    X(PAUSE, "clients are stopped between two steps")                          \
    X(STALL, "clients are stopped right after reading the clock")              \
    X(FREEZE, "clients are frozen: their clock stands still")                  \
    X(CRASH, "clients crash")                                                  \
    X(RESTART, "the store restarts, with its memory")                          \
    X(STORE_CLOCK, "the store's clock is stepped a little")                    \
    X(WALL_CLOCK, "clients' wall clocks are set")                              \
    X(DRIFT, "clocks run at different rates")                                  \
    X(OOM, "memory is refused")                                                \
    X(SLOW, "keepers come late")                                               \
    X(DOUBT, "connections are reported broken")                                \
    X(CLOSE, "sessions are closed and opened again")                           \
    X(BREAK, "an operator breaks locks")                                       \
    X(GHOST, "the store comes back with what had left it")

#define SIM_FAULT_ENUM(name, text) SIM_FAULT_##name,
typedef enum sim_fault {
    SIM_FAULT_MAP(SIM_FAULT_ENUM) SIM_FAULT_COUNT
} sim_fault;
#define SIM_FAULTS_ALL ((UINT32_C(1) << SIM_FAULT_COUNT) - 1)

/* A seed says by this bit that holds expire one by one (HF_CAP_EACH), so that
 * the seed alone is the way to replay it. */
#define SIM_SEED_EACH (UINT64_C(1) << 40)

enum { SIM_CLIENTS = 5, SIM_HOLDS = 8, SIM_SEEN = 64, SIM_SIDS = 1024 };

typedef struct sim_rng {
    uint64_t a, b;
} sim_rng;

enum { SIM_ROWS = 64 };
typedef struct sim_rows { /* of a listing, on their way */
    hf_row rows[SIM_ROWS];
    size_t count;
} sim_rows;

typedef struct sim_client sim_client;
typedef struct sim_call sim_call;
typedef struct sim_push sim_push;

typedef enum sim_step_kind {
    SIM_STEP_REQUEST = 1, /* arrives at the store */
    SIM_STEP_AGAIN,       /* the same request once more */
    SIM_STEP_REPLY,
    SIM_STEP_DEADLINE,
    SIM_STEP_PUSH,
    SIM_STEP_OPEN,
    SIM_STEP_RESUME,
    SIM_STEP_CHAOS
} sim_step_kind;

typedef struct sim_step {
    hf_nsec at;
    uint64_t seq;
    sim_step_kind kind;
    uint32_t life; /* of the client, when it was planned; 0: whatever */
    sim_client *client;
    void *what;
} sim_step;

typedef enum sim_task_state {
    SIM_TASK_FREE = 0,
    SIM_TASK_ASKED,
    SIM_TASK_HELD,
    SIM_TASK_LOST,
    SIM_TASK_RELEASING
} sim_task_state;

typedef struct sim_task {
    sim_task_state state;
    uint32_t id;
    uint8_t key, mode;
    bool cancelled, renewing;
    bool bound; /* to the session alone: no end of its own */
    hf_request *request;
    hf_hold *hold;
    uint64_t token, owner;
    hf_nsec let_go; /* true time */
} sim_task;

struct sim_client {
    struct sim_world *world;
    hf_session *session;      /* NULL: not open */
    struct hf__session *core; /* what the handle stands for */
    struct hf_store *store;
    uint32_t life; /* which incarnation, from 1; 0: none yet */
    uint8_t index;
    /* its clocks, from the true one */
    hf_nsec boot_offset;
    int64_t ppm, real_offset_us;
    unsigned freezes;
    /* how it runs */
    int frames; /* stopped inside a call of its own: on the C stack */
    int inside; /* calls of its own under way */
    hf_nsec paused_until, step_boot;
    bool closing, woken, stopped_now;
    hf_nsec keeper_at, app_at; /* when each wants to run next */
    int64_t lease_ms;
    sim_task tasks[SIM_HOLDS];
    sim_step *parked;
    size_t parked_count, parked_room;
};

struct hf_store {
    sim_client *client;
    hf_host host;
};

typedef struct sim_sid {
    hf_id sid;
    uint8_t life;
    sim_client *client;
} sim_sid;

typedef struct sim_world {
    uint64_t seed;
    uint32_t faults;    /* drawn, and still on */
    bool forget, trace; /* asked for */
    sim_rng chance, core_chance;
    hf_nsec now, heal_at, longest_late, longest_lease;
    uint64_t next_seq;
    sim_step *steps;
    size_t step_count, step_room;
    unsigned long steps_done;
    int depth;
    sim_client *cur; /* whose code runs; NULL: the store's or nobody's */
    hf__mem_store *model;
    bool marks, each, clock, fresh, in_model, healed, calm, stuck;
    hf_nsec store_offset, store_last, store_step, down_until;
    int64_t store_ppm;
    int store_steps;
    int client_count, key_count;
    uint32_t next_task, next_life, lives_open;
    uint8_t key_mode[SIM_KEYS];
    uint32_t key_places[SIM_KEYS];
    uint64_t seen[SIM_KEYS][SIM_SEEN]; /* granted tokens, as last looked at */
    size_t seen_count[SIM_KEYS];
    sim_sid sids[SIM_SIDS];
    size_t sid_count;
    jmp_buf way_out; /* a history that does not end */
    bool crashed;    /* somebody did: memory is left behind by design */
    sim_client clients[SIM_CLIENTS];
    sim_history history;
} sim_world;

/* ---- time.c ---- */
uint64_t sim_random(sim_rng *rng);
uint64_t sim_below(sim_rng *rng, uint64_t n);
bool sim_chance(sim_world *w, unsigned one_in); /* true once in so many */
hf_nsec sim_span(sim_world *w, hf_nsec from, hf_nsec to);
bool sim_has(const sim_world *w, sim_fault fault);
void sim_clock_install(sim_world *w);
hf_nsec sim_boot_of(const sim_client *c, hf_nsec at);
hf_nsec sim_true_of(const sim_client *c, hf_nsec boot);
hf_nsec sim_store_now(sim_world *w);

/* ---- loop.c ---- */
void sim_plan(sim_world *w, hf_nsec at, sim_step_kind kind, sim_client *c,
              void *what);
bool sim_run_one(sim_world *w, hf_nsec until); /* false: nothing due by then */
void sim_run_until(sim_world *w, hf_nsec until);
void sim_unpark(sim_world *w, sim_client *c);
void sim_trace(const sim_world *w, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- driver.c ---- */
void sim_driver_install(sim_world *w);
const char *sim_op_name(hf_op_kind kind);
/* Its connection is broken, the driver says. */
void sim_net_doubt(sim_client *c);

/* ---- net.c ---- */
/* Send op, as the client's driver; is it still without an answer? */
void sim_net_start(sim_client *c, hf_op *op);
bool sim_net_pending(const hf_op *op);
void sim_net_clear(sim_world *w);
void sim_net_step(sim_world *w, const sim_step *step);
void sim_net_push(sim_world *w, const hf_id *sid, const hf_id *rid,
                  const hf_place *fresh, int reason);
hf_nsec sim_net_delay(sim_world *w);

/* ---- store.c ---- */
int sim_store_open(sim_world *w);
void sim_store_run(sim_world *w, hf_op *op);
bool sim_store_has(sim_world *w, uint8_t key, uint64_t token);
size_t sim_store_left(sim_world *w);
/* An operator takes a lock away, giving its owner time to hear of it. */
void sim_store_break(sim_world *w, uint8_t key);
/* It comes back with an older memory: a place of c is in it that c gave back
 * long ago. */
void sim_store_haunt(sim_world *w, sim_client *c);
/* An emitter that keeps the rows. */
int sim_keep_row(const hf_row *row, void *rows);
/* Its memory is lost; only where that was asked for. */
void sim_store_forget(sim_world *w);
sim_sid *sim_find_sid(sim_world *w, const hf_id *sid);
/* Planted bugs of the store and of the way to it; only in a build with
 * HF_MUTANTS. */
enum { SIM_MUTANTS_FROM = 1000 };
#define SIM_MUTANT_MAP(X)                                                      \
    X(NUMBER_EARLY, "the number is drawn before the entry is visible")         \
    X(EVICT_EARLY, "entries go before their session is dead")                  \
    X(LEAVE_ANY, "a leave takes whoever holds")                                \
    X(JOIN_TWICE, "a repeated join gets a second place")                       \
    X(NO_TOMB, "a late join comes to life after its leave")                    \
    X(NO_FLOOR, "numbers restart when a store is empty")                       \
    X(LEASE_TOO_LONG, "the reply says more than is left")                      \
    X(NO_WAKE, "a leave tells nobody")                                         \
    X(RENEW_SHORT, "a renewal says yes and extends nothing")                   \
    X(FORGETS, "a store that lost its memory grants at once")                  \
    X(UNMATCHED_REPLY, "a late reply is taken for that of the next attempt")
#define SIM_MUTANT_ENUM(name, text) SIM_MUTANT_##name,
typedef enum sim_mutant_id {
    SIM_MUTANT_NONE = SIM_MUTANTS_FROM,
    SIM_MUTANT_MAP(SIM_MUTANT_ENUM)
} sim_mutant_id;
#ifdef HF_MUTANTS
#define PLANTED(name) (hf__mutant == SIM_MUTANT_##name)
#else
#define PLANTED(name) 0
#endif
extern const char *const sim_keys[SIM_KEYS];

/* ---- client.c ---- */
void sim_client_open(sim_client *c);
void sim_client_close(sim_client *c);
void sim_client_crash(sim_client *c);
/* Its code begins and ends to run; at the end the keeper and the application
 * see what there is.  keeper: its thread was the one that ran. */
sim_client *sim_enter(sim_client *c);
void sim_leave(sim_client *c, sim_client *before, bool keeper);
void sim_client_keep(sim_client *c); /* its keeper is due */
void sim_client_act(sim_client *c);  /* its application is */

/* ---- app.c ---- */
void sim_app_begin(sim_client *c);
void sim_app_act(sim_client *c);  /* one thing that it wants to do */
void sim_app_look(sim_client *c); /* results, beliefs, what is due */
bool sim_app_idle(const sim_client *c);
void sim_app_ask(sim_client *c, uint8_t key, bool plain);
void sim_app_end(sim_client *c, sim_event_kind kind);
/* It believes nothing until it has looked again. */
void sim_app_forget(sim_client *c);

/* ---- chaos.c ---- */
void sim_chaos_begin(sim_world *w);
void sim_chaos_step(sim_world *w);

/* ---- pool.c ---- */
void sim_pool_install(sim_world *w);
void sim_pool_reset(void);
size_t sim_pool_live(void);

/* ---- world.c ---- */
void sim_world_run(sim_world *w, uint64_t seed, uint32_t allowed);
void sim_world_free(sim_world *w);

#endif
