/* chaos.c - who is hit by what: the faults that come by themselves.
 *
 * Faults of messages are drawn where messages are sent (net.c), stops in the
 * middle of a call where the clock is read (time.c); here are the rest: pauses,
 * crashes, restarts, clocks that are set. */
#include "sim/sim.h"

/* The store may be stepped forward three times by this much: less than the
 * margin of the shortest lease in use (class B in the guarantees says so).
 * Set back, it stands still, and every lease is longer. */
enum { STEP_MS = 10, STEPS_MAX = 3 };

void sim_chaos_begin(sim_world *w)
{
    sim_plan(w, w->now + sim_span(w, HF_MS(50), HF_MS(400)), SIM_STEP_CHAOS,
             NULL, NULL);
}

static void pause_client(sim_world *w, sim_client *c)
{
    hf_nsec span = sim_span(w, HF_MS(1), HF_MS(3 * c->lease_ms));

    c->paused_until = w->now + span;
    sim_trace(w, "client %u is paused for %lld ms", c->life,
              (long long)(span / 1000000));
    sim_plan(w, c->paused_until, SIM_STEP_RESUME, c, NULL);
}

static void crash_client(sim_world *w, sim_client *c)
{
    if (w->next_life + 2 * SIM_CLIENTS >= SIM_LIVES)
        return;
    sim_client_crash(c);
    sim_plan(w, w->now + sim_span(w, 0, HF_MS(1000)), SIM_STEP_OPEN, c, NULL);
}

static void restart_store(sim_world *w)
{
    w->down_until = w->now + sim_span(w, HF_MS(1), HF_MS(1500));
    sim_trace(w, "the store goes down");
    for (int i = 0; i < w->client_count; i++) {
        sim_client *c = &w->clients[i];

        if (c->session && c->inside == 0 && c->frames == 0 &&
            c->paused_until <= w->now && !c->closing && sim_chance(w, 2))
            sim_net_doubt(c);
    }
}

static void set_wall_clock(sim_world *w, sim_client *c)
{
    static const int64_t steps_ms[] = {-3600000, -2000, 2000, 3600000};

    c->real_offset_us += 1000 * steps_ms[sim_below(&w->chance, 4)];
    sim_trace(w, "the wall clock of client %u is set", c->life);
}

static void step_store_clock(sim_world *w)
{
    if (sim_chance(w, 2))
        w->store_step -= sim_span(w, 0, HF_MS(300));
    else if (w->store_steps++ < STEPS_MAX)
        w->store_step += HF_MS(STEP_MS);
    sim_trace(w, "the store's clock is set");
}

void sim_chaos_step(sim_world *w)
{
    sim_client *c = &w->clients[sim_below(&w->chance, w->client_count)];
    bool free = c->session && c->inside == 0 && c->frames == 0 && !c->closing;
    bool running = free && c->paused_until <= w->now;

    if (w->healed)
        return;
    switch (sim_below(&w->chance, 9)) {
    case 0:
    case 1:
        if (running && sim_has(w, SIM_FAULT_PAUSE))
            pause_client(w, c);
        break;
    case 2:
        if (free && sim_has(w, SIM_FAULT_CRASH))
            crash_client(w, c);
        break;
    case 3:
        if (sim_has(w, SIM_FAULT_RESTART))
            restart_store(w);
        break;
    case 4:
        if (sim_has(w, SIM_FAULT_WALL_CLOCK))
            set_wall_clock(w, c);
        break;
    case 5:
        if (sim_has(w, SIM_FAULT_STORE_CLOCK))
            step_store_clock(w);
        break;
    case 6:
        if (running && sim_has(w, SIM_FAULT_DOUBT))
            sim_net_doubt(c);
        break;
    case 7:
        if (sim_has(w, SIM_FAULT_BREAK))
            sim_store_break(w, (uint8_t)sim_below(&w->chance, w->key_count));
        break;
    default:
        sim_store_forget(w);
        if (running && sim_has(w, SIM_FAULT_GHOST))
            sim_store_haunt(w, c);
        break;
    }
    sim_chaos_begin(w);
}
