/* time.c - clocks, chance, and pauses.
 *
 * There is one true time, and nobody can read it.  Each client has a
 * CLOCK_BOOTTIME with an offset and a rate of its own, and a wall clock that
 * people set; so has the store.  Rates differ by less than the one per cent
 * that the guard of a lease allows.
 *
 * Reading the clock is where a client may be stopped: the value is read, then
 * the others run for up to several leases, then the caller gets the old value.
 * That is the worst that a scheduler can do to "look at the clock, then act".
 * A freeze does the same to a guest whose clock stands still meanwhile; only
 * its wall clock tells. */
#include "sim/sim.h"

#include <string.h>

#include "base/clock.h"

uint64_t sim_random(sim_rng *rng)
{
    uint64_t a = rng->a, b = rng->b;

    rng->a = b;
    a ^= a << 23;
    rng->b = a ^ b ^ (a >> 18) ^ (b >> 5);
    return rng->b + b;
}

uint64_t sim_below(sim_rng *rng, uint64_t n)
{
    return n ? (sim_random(rng) >> 11) % n : 0;
}

bool sim_chance(sim_world *w, unsigned one_in)
{
    return sim_below(&w->chance, one_in) == 0;
}

hf_nsec sim_span(sim_world *w, hf_nsec from, hf_nsec to)
{
    return from + (hf_nsec)sim_below(&w->chance, (uint64_t)(to - from) + 1);
}

bool sim_has(const sim_world *w, sim_fault fault)
{
    return w->faults >> fault & 1;
}

hf_nsec sim_boot_of(const sim_client *c, hf_nsec at)
{
    return c->boot_offset + at + at / 1000 * c->ppm / 1000;
}

hf_nsec sim_true_of(const sim_client *c, hf_nsec boot)
{
    hf_nsec far = INT64_C(3600) * 1000000000;
    hf_nsec span = boot - c->boot_offset;

    if (boot >= HF_NEVER / 2 || span > c->world->now + far)
        return c->world->now + far;
    if (span < 0)
        return 0;
    /* Rounded up, so that a timer never comes too early. */
    return span - span / (1000000 + c->ppm) * c->ppm + 2000;
}

hf_nsec sim_store_now(sim_world *w)
{
    hf_nsec now = w->store_offset + w->now +
                  w->now / 1000 * w->store_ppm / 1000 + w->store_step;

    if (now > w->store_last)
        w->store_last = now; /* set back: it stands still for a while */
    return w->store_last;
}

/* The others run; whoever is meant for c waits. */
static void stop_here(sim_world *w, sim_client *c, hf_nsec until)
{
    c->frames++;
    c->stopped_now = true;
    w->cur = NULL;
    sim_run_until(w, until);
    w->cur = c;
    c->frames--;
    if (c->frames == 0)
        sim_unpark(w, c);
}

static void maybe_stop(sim_world *w, sim_client *c)
{
    hf_nsec lease = HF_MS(c->lease_ms);

    if (w->depth > 4 || w->in_model || c->closing)
        return;
    if (sim_has(w, SIM_FAULT_STALL) && sim_chance(w, 300)) {
        sim_trace(w, "client %u stops after reading the clock", c->life);
        stop_here(w, c, w->now + sim_span(w, HF_MS(1), 2 * lease));
        sim_trace(w, "client %u goes on", c->life);
    } else if (sim_has(w, SIM_FAULT_FREEZE) && sim_chance(w, 800)) {
        hf_nsec gone = sim_boot_of(c, w->now);

        sim_trace(w, "client %u freezes", c->life);
        sim_app_forget(c);
        stop_here(w, c, w->now + sim_span(w, HF_MS(1), 3 * lease));
        gone = sim_boot_of(c, w->now) - gone;
        c->boot_offset -= gone;
        c->real_offset_us += gone / 1000;
        c->freezes++;
        sim_trace(w, "client %u thaws", c->life);
    }
}

static hf_nsec read_boot(void *ctx)
{
    sim_world *w = ctx;
    sim_client *c = w->cur;
    hf_nsec value;

    if (!c)
        return w->now;
    w->now += 1000; /* code takes time */
    value = sim_boot_of(c, w->now);
    if (w->faults &
        (UINT32_C(1) << SIM_FAULT_STALL | UINT32_C(1) << SIM_FAULT_FREEZE))
        maybe_stop(w, c);
    return value;
}

static int64_t read_real(void *ctx)
{
    sim_world *w = ctx;
    sim_client *c = w->cur;

    if (!c)
        return w->now / 1000;
    return sim_boot_of(c, w->now) / 1000 + c->real_offset_us;
}

static void draw_bytes(void *ctx, void *buf, size_t len)
{
    sim_world *w = ctx;
    uint8_t *at = buf;

    while (len > 0) {
        uint64_t word = sim_random(&w->core_chance);
        size_t part = len < sizeof word ? len : sizeof word;

        memcpy(at, &word, part);
        at += part;
        len -= part;
    }
}

static hf__clock table = {
    .now = read_boot,
    .realtime_us = read_real,
    .random = draw_bytes,
    .threads = false,
};

void sim_clock_install(sim_world *w)
{
    table.ctx = w;
    hf__clock_set(&table);
}
