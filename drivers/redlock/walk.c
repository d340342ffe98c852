/* walk.c - questions to each server by itself, one after the other.
 *
 * For what is no vote: a listing (each server has a cursor of its own) and the
 * examination.  Each server's chain of calls goes on by itself, side by side
 * with the others', on whatever thread reads its answers; when the last has
 * ended the walk is judged as a whole, on the caller's own thread if it is
 * driven.  A server that fails ends its own chain alone.
 *
 * Nothing is changed in any server, so a reply that is lost costs the answer
 * and nothing else. */
#include <string.h>

#include "redlock.h"

static void end_walk(redlock_walk *walk)
{
    redlock_store *store = walk->store;

    redlock_op_of(walk->op)->walk = NULL;
    walk->done(walk);
    pthread_mutex_destroy(&walk->mu);
    hfd_free(walk);
    atomic_fetch_sub(&store->working, 1);
}

static void end_step(redlock_walk *walk)
{
    bool driven = walk->driven; /* its thread frees it, perhaps at once */

    if (atomic_fetch_sub(&walk->pending, 1) == 1 && !driven)
        end_walk(walk);
}

static void encode_step(redis_call *call, hf__buf *out,
                        const redis_server *server)
{
    redlock_step *step = (redlock_step *)(void *)call;

    (void)server;
    step->walk->encode(step, out);
}

static void step_landed(redis_call *call, hf_outcome outcome, const resp *reply,
                        const hf_error *why)
{
    redlock_step *step = (redlock_step *)(void *)call;
    redlock_walk *walk = step->walk;
    bool on;

    if (outcome != HF_APPLIED) {
        step->why = *why;
        reply = NULL;
    }
    pthread_mutex_lock(&walk->mu);
    on = walk->hear(step, reply);
    pthread_mutex_unlock(&walk->mu);
    if (on)
        redis_wire_start(walk->store->nodes[step->node].wire, call);
    else
        end_step(walk);
}

redlock_walk *walk_new(hf_store *base, hf_op *op)
{
    redlock_store *store = redlock_of(base);
    redlock_walk *walk = hfd_alloc(sizeof *walk);

    if (!walk) {
        hfd_finish(op, HF_NOT_APPLIED, HF_ENOMEM);
        return NULL;
    }
    walk->store = store;
    walk->op = op;
    walk->driven = op->driven;
    pthread_mutex_init(&walk->mu, NULL);
    for (unsigned i = 0; i < store->count; i++) {
        walk->steps[i].walk = walk;
        walk->steps[i].node = i;
        memcpy(walk->steps[i].cursor, "0", 2);
        walk->steps[i].call.encode = encode_step;
        walk->steps[i].call.landed = step_landed;
        walk->steps[i].call.deadline = op->deadline;
    }
    return walk;
}

void walk_start(redlock_walk *walk)
{
    redlock_store *store = walk->store;

    atomic_fetch_add(&store->working, 1);
    atomic_store(&walk->pending, (unsigned)store->count + 1);
    if (walk->driven)
        redlock_op_of(walk->op)->walk = walk;
    for (unsigned i = 0; i < store->count; i++)
        redis_wire_start(store->nodes[i].wire, &walk->steps[i].call);
    end_step(walk);
}

static bool walk_is_ready(void *arg)
{
    redlock_walk *walk = arg;

    return atomic_load(&walk->pending) == 0;
}

void walk_drive(redlock_walk *walk)
{
    redlock_await(walk->store, walk_is_ready, walk, HF_NEVER);
    end_walk(walk);
}

unsigned walk_whole(const redlock_walk *walk, hf_error *ret)
{
    size_t nodes = walk->store->count, n = 0;
    const hf_error *why[VOTE_NODES_MAX];
    unsigned whole = 0;
    char reasons[190];

    for (size_t i = 0; i < nodes; i++) {
        if (walk->steps[i].failed)
            why[n++] = &walk->steps[i].why;
        else
            whole++;
    }
    if (whole < vote_majority(nodes)) {
        redlock_reasons(reasons, sizeof reasons, why, n);
        hfd_error(ret, HF_EQUORUM, "redlock", 0,
                  "%u of %zu servers answered, %u are needed: %s", whole, nodes,
                  vote_majority(nodes), reasons);
    }
    return whole;
}
