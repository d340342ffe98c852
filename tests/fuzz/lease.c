/* lease.c - any order of answers, failures and clock readings.
 *
 * The bytes drive the lease machine: time passes, renewals are sent, answered
 * late, twice or never, the store says things.  An ideal store beside it keeps
 * the instant at which it would give the lease away.  Promises: held is never
 * believed at or after that instant, lost is for ever, and the next look is
 * never later than the loss. */
#include "fuzz.h"

#include "base/clock.h"
#include "core/lease.h"

enum { FLIGHTS = 4 };

typedef struct flight {
    hf_nsec sent, remaining; /* remaining 0: nothing under way */
} flight;

typedef struct world {
    hf__lease lease;
    hf_nsec now;
    int64_t ahead_us;   /* of the wall clock over ours */
    hf_nsec expiry;     /* the store gives it away then */
    hf_state last_seen; /* to see that LOST is a one-way door */
    flight flights[FLIGHTS];
} world;

static hf_nsec world_now(void *ctx)
{
    return ((world *)ctx)->now;
}

static int64_t world_realtime_us(void *ctx)
{
    return ((world *)ctx)->now / 1000 + ((world *)ctx)->ahead_us;
}

static void world_random(void *ctx, void *buf, size_t len)
{
    memset(buf, (int)(((world *)ctx)->now >> 20 & 0xff), len);
}

/* A request that reaches the store now, unless it is over there. */
static void send_renewal(world *w, unsigned slot)
{
    w->flights[slot].sent = w->now;
    w->flights[slot].remaining = 0;
    if (w->now < w->expiry) {
        w->expiry = w->now + w->lease.ttl;
        w->flights[slot].remaining = w->lease.ttl;
    }
}

/* Its answer, which may come again: it is not taken off the wire. */
static void deliver_answer(world *w, unsigned slot)
{
    flight *f = &w->flights[slot];

    if (f->remaining > 0)
        hf__lease_renewed(&w->lease, f->sent, f->remaining);
}

static void check_world(world *w)
{
    hf_state state = hf__lease_state(&w->lease, w->now);

    PROMISE(state == HF_HELD || state == HF_DOUBTFUL || state == HF_LOST);
    if (w->last_seen == HF_LOST)
        PROMISE(state == HF_LOST);
    if (state != HF_LOST) {
        PROMISE(w->now < w->expiry);
        PROMISE(hf__lease_lost_at(&w->lease) > w->now);
        PROMISE(hf__lease_lost_at(&w->lease) < w->expiry);
        PROMISE(hf__lease_next(&w->lease) <= hf__lease_lost_at(&w->lease));
    } else {
        PROMISE(w->lease.reason < 0);
    }
    w->last_seen = state;
}

static void take_step(world *w, uint8_t step, uint8_t how)
{
    unsigned slot = how % FLIGHTS;

    switch (step % 8) {
    case 0:
    case 1:
        w->now += w->lease.ttl / 256 * how;
        break;
    case 2:
        w->now += HF_MS(how);
        break;
    case 3:
        send_renewal(w, slot);
        break;
    case 4:
        deliver_answer(w, slot);
        break;
    case 5:
        hf__lease_doubt(&w->lease, w->now, HF_EUNAVAIL);
        break;
    case 6:
        w->ahead_us = (int64_t)how * how * 100;
        hf__lease_look_at_clocks(&w->lease);
        break;
    default:
        if (how == 0)
            hf__lease_lost(&w->lease, HF_ETAKEN);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, data + (size < 2000 ? size : 2000)};
    world w = {.now = HF_MS(1000000)};
    hf__clock clock = {world_now, world_realtime_us, world_random, &w, false};
    hf_error err;
    int64_t lease_ms = (int64_t)take_number(&in, 3);

    if (hf__lease_init(&w.lease, lease_ms, &err) != 0) {
        PROMISE(err.code == HF_EINVAL && err.text[0] != '\0');
        return 0;
    }
    w.expiry = w.now + w.lease.ttl;
    hf__clock_set(&clock);
    hf__lease_began(&w.lease, w.now, w.lease.ttl);
    check_world(&w);
    while (in.at < in.end) {
        uint8_t step = take_byte(&in);

        take_step(&w, step, take_byte(&in));
        check_world(&w);
    }
    hf__clock_set(NULL);
    return 0;
}
