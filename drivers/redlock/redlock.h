/* redlock.h - several servers as one store.
 *
 * The formats of drivers/redis send one command and read one reply.  Here a
 * command goes to all servers at once, their answers are counted (vote.c), and
 * the format gets one reply that says what a majority says (round.c, act.c).
 * What is not a vote, a listing or an examination, walks over each server by
 * itself (walk.c).
 *
 * The store begins with the hf_store that the formats know. */
#ifndef HF_DRIVERS_REDLOCK_REDLOCK_H
#define HF_DRIVERS_REDLOCK_REDLOCK_H

#include "layout.h"
#include "vote.h"

typedef struct redlock_node {
    struct redlock_store *store;
    redis_wire *wire;
    char where[80];
    bool exposed; /* plain TCP that leaves this machine */
    /* The last call was answered: the next caller waits for this one on his
     * own thread.  Else its answer counts if it comes in time. */
    atomic_bool answers;
} redlock_node;

typedef struct redlock_store {
    hf_store base;
    redlock_node nodes[VOTE_NODES_MAX];
    size_t count;
    int epoll_fd;      /* of the wires' own */
    hf_nsec node_time; /* that a caller waits for one; 0: by the lease */
    bool tokens;       /* draw numbers */
    hf_nsec settled;   /* a younger server's vote does not count; 0: it does */
    atomic_uint working; /* rounds and walks that have not ended */
} redlock_store;

static inline redlock_store *redlock_of(hf_store *store)
{
    return (redlock_store *)(void *)store;
}

/* ---- round.c: one command to all ---- */

typedef struct redlock_round redlock_round;

typedef struct redlock_call {
    redis_call call; /* first */
    redlock_round *round;
    unsigned node;
    bool waited_for; /* driven, at first */
    bool landed;
    hf_outcome outcome;
    hf_nsec born; /* of the server that it was sent to */
    int64_t said; /* a time in microseconds, or a number */
    hf_error why; /* unless it was applied */
} redlock_call;

/* Of the reply.  ACT: the time; code, ms left and number of each place; or one
 * number alone (layout.c). */
typedef enum redlock_shape {
    SHAPE_ACT,
    SHAPE_TIME,
    SHAPE_NUMBER
} redlock_shape;

struct redlock_round {
    pthread_mutex_t mu; /* guards what answers change */
    redlock_store *store;
    hf_op *op; /* NULL: nobody waits for it */
    unsigned refs, pending;
    bool driven, over;
    redlock_shape shape;
    size_t places;
    char verbs[FORMAT_BATCH];        /* of each place */
    uint64_t raise[FORMAT_BATCH];    /* LAYOUT_RAISE: to what; else 0 */
    const hf_id *rids[FORMAT_BATCH]; /* of op's places; NULL: of nobody's */
    int64_t asked_ms;                /* for how long, if it is a lone vote */
    bool hidden;          /* a server has voted for us, and it does not count */
    bool leaves, content; /* counted by vote_leave */
    unsigned given;
    hf_nsec sent;  /* just before the first byte of the first server's */
    hf__buf bytes; /* the command */
    const redis_script *script;
    size_t rest;
    vote *votes; /* [node * places + place] */
    /* All that is needed is known, or nothing more will come. */
    void (*complete)(redlock_round *round);
    /* One call has landed, perhaps after the verdict; NULL: nothing to do. */
    void (*each)(redlock_call *call, hf_outcome outcome);
    void *more; /* complete's or each's; hfd_freed with the round */
    redlock_call calls[VOTE_NODES_MAX];
};

/* A round with nothing in `bytes` yet and room for its answers; NULL: none. */
redlock_round *round_new(redlock_store *store, hf_op *op, redlock_shape shape,
                         size_t places);
/* It goes out; ends by itself unless op is driven: then redlock_drive follows.
 * Takes the round.  HF_ENOMEM: `bytes` is not whole; the round is gone. */
int round_start(redlock_round *round, hf_nsec deadline);
void round_drive(redlock_round *round);
void round_drop(redlock_round *round);
vote_tally round_tally(const redlock_round *round, size_t place);
unsigned round_heard(const redlock_round *round);
/* Too few answered: one line with the reason of each; whether nothing at all
 * can have been done. */
hf_outcome round_why(const redlock_round *round, hf_error *ret);
/* Wait on this thread, and read what comes, until ready(arg). */
void redlock_await(redlock_store *store, bool (*ready)(void *arg), void *arg,
                   hf_nsec until);

/* ---- back.c: votes that were taken back ---- */

/* This round takes them back, and is about to start; span: how long one without
 * an answer may be on its way.  False: no memory. */
bool back_note(redlock_round *round, hf_place *const *places, size_t n,
               hf_nsec span);
/* What this server says is ours may be taken back yet. */
bool back_bars(redlock_store *store, const hf_id *rid, unsigned node);

/* ---- wake.c: who waits is told of a release ---- */

/* By this server, on this channel. */
void redlock_told(redlock_store *store, size_t node, const char *channel,
                  size_t len);
/* What is told by this server is heard from now on. */
void redlock_listens(redlock_store *store, size_t node);

/* ---- walk.c: each server by itself ---- */

typedef struct redlock_walk redlock_walk;

typedef struct redlock_step {
    redis_call call; /* first */
    redlock_walk *walk;
    unsigned node;
    unsigned at; /* the walk's: which question */
    bool failed;
    hf_error why;
    char cursor[24];
} redlock_step;

struct redlock_walk {
    redlock_store *store;
    hf_op *op;
    atomic_uint pending;
    bool driven;
    pthread_mutex_t mu; /* for what all steps write to */
    void (*encode)(redlock_step *step, hf__buf *out);
    /* True: ask on.  A reply that is NULL was refused (step->why). */
    bool (*hear)(redlock_step *step, const resp *reply);
    void (*done)(redlock_walk *walk); /* all have ended; frees `data` */
    void *data;
    redlock_step steps[VOTE_NODES_MAX];
};

/* Finishes op itself when there is no memory. */
redlock_walk *walk_new(hf_store *store, hf_op *op);
void walk_start(redlock_walk *walk);
void walk_drive(redlock_walk *walk);
/* How many servers were walked to the end; fewer than a majority: *ret. */
unsigned walk_whole(const redlock_walk *walk, hf_error *ret);

/* ---- An operation's own[] ---- */

typedef struct redlock_op {
    redis_op base;
    redlock_round *round;
    redlock_walk *walk;
} redlock_op;
_Static_assert(sizeof(redlock_op) <= sizeof(((hf_op *)0)->own),
               "an operation has no room for a round");
static inline redlock_op *redlock_op_of(hf_op *op)
{
    return (redlock_op *)(void *)op->own;
}

/* "HOST:PORT: reason; HOST:PORT: reason", as much as has room. */
void redlock_reasons(char *ret, size_t room, const hf_error *const *why,
                     size_t n);

#endif
