/* client.c - one process: its session, its keeper, its life and death.
 *
 * There are no threads: the keeper's step is called when its timer is due,
 * after whatever its thread would have handled (replies and pushes), and when
 * the core wakes it.  The wake-up is real: the core writes to a descriptor,
 * the write is caught here, and a core that forgets to write sleeps on, as its
 * thread would.
 *
 * hf_close blocks; it sleeps on a bell, which is caught as well, and the
 * world goes on meanwhile. */
#include "sim/sim.h"

#include <unistd.h>

#include "core/internal.h"

enum { WAKE_FDS = 1 << 20 };

static sim_world *world;

ssize_t __real_write(int fd, const void *buf, size_t len);
ssize_t __wrap_write(int fd, const void *buf, size_t len);
ssize_t __wrap_write(int fd, const void *buf, size_t len)
{
    if (fd >= WAKE_FDS && fd < WAKE_FDS + SIM_CLIENTS) {
        world->clients[fd - WAKE_FDS].woken = true;
        return (ssize_t)len;
    }
    return __real_write(fd, buf, len);
}

void __wrap_hf__bell_sleep(hf__bell *bell, unsigned count, hf_nsec due);
void __wrap_hf__bell_sleep(hf__bell *bell, unsigned count, hf_nsec due)
{
    (void)bell;
    (void)count;
    (void)due;
    sim_run_one(world, HF_NEVER);
}

static void run_keeper(sim_client *c)
{
    sim_world *w = c->world;
    hf__session *s = c->core;
    hf_nsec due;

    c->woken = false;
    hf__session_lock(s);
    due = s->keeper_due = hf__keeper_step(s);
    hf__session_unlock(s);
    due = sim_true_of(c, due);
    if (sim_has(w, SIM_FAULT_SLOW) && sim_chance(w, 6))
        due += sim_span(w, 0, HF_MS(500));
    c->keeper_at = due;
}

sim_client *sim_enter(sim_client *c)
{
    sim_client *before = c->world->cur;

    c->world->cur = c;
    c->stopped_now = false;
    c->step_boot = sim_boot_of(c, c->world->now);
    c->inside++;
    return before;
}

void sim_leave(sim_client *c, sim_client *before, bool keeper)
{
    sim_world *w = c->world;

    for (int rounds = 0; c->session && rounds < 50; rounds++) {
        if (c->woken && !keeper && sim_has(w, SIM_FAULT_SLOW) &&
            sim_chance(w, 6)) {
            c->woken = false;
            c->keeper_at = w->now + sim_span(w, 0, HF_MS(500));
        } else if (keeper || c->woken) {
            run_keeper(c);
        }
        keeper = false;
        if (!c->closing)
            sim_app_look(c);
        if (!c->woken)
            break;
    }
    c->inside--;
    w->cur = before;
}

static void set_clocks(sim_client *c)
{
    sim_world *w = c->world;

    c->boot_offset = sim_span(w, HF_MS(1000), HF_MS(1000000));
    c->real_offset_us = sim_span(w, 0, HF_MS(1000000));
    c->ppm = sim_has(w, SIM_FAULT_DRIFT) ? sim_span(w, -4000, 4000) : 0;
    c->freezes = 0;
}

void sim_client_open(sim_client *c)
{
    sim_world *w = c->world;
    hf_open_options opt = {HF_OPEN_OPTIONS, .name = "sim"};
    sim_client *before;

    if (c->session || w->next_life + 1 >= SIM_LIVES)
        return;
    world = w;
    c->life = ++w->next_life;
    c->lease_ms = sim_span(w, 1000, sim_chance(w, 3) ? 3000 : 1500);
    c->closing = c->woken = false;
    c->paused_until = 0;
    c->keeper_at = c->app_at = HF_NEVER;
    if (HF_MS(c->lease_ms) > w->longest_lease)
        w->longest_lease = HF_MS(c->lease_ms);
    set_clocks(c);
    opt.lease_ms = c->lease_ms;
    before = sim_enter(c);
    if (hf_open(&c->session, "sim:world", &opt, NULL) == 0) {
        c->core->keeper_runs = true;
        c->core->keeper = (pthread_t)0;
        c->core->wake_fd = WAKE_FDS + c->index;
        sim_record(&w->history, SIM_OPEN, w->now)->life = (uint8_t)c->life;
        sim_app_begin(c);
    } else {
        sim_plan(w, w->now + HF_MS(20), SIM_STEP_OPEN, c, NULL);
    }
    sim_leave(c, before, true);
}

void sim_client_close(sim_client *c)
{
    sim_world *w = c->world;
    sim_client *before;

    if (!c->session)
        return;
    before = sim_enter(c);
    sim_trace(w, "client %u closes", c->life);
    sim_app_end(c, SIM_CLOSE);
    c->closing = true;
    c->core->keeper_runs = false; /* there is no thread to be joined */
    c->core->wake_fd = -1;
    hf_close(c->session);
    c->session = NULL;
    c->closing = false;
    c->inside--;
    w->cur = before;
}

/* Its objects stay as they are, and nobody looks at them again. */
void sim_client_crash(sim_client *c)
{
    sim_trace(c->world, "client %u crashes", c->life);
    sim_app_end(c, SIM_CRASH);
    hf__process_remove(c->core);
    c->session = NULL;
    c->store = NULL;
    c->paused_until = 0;
    sim_unpark(c->world, c); /* dropped on arrival */
    c->world->crashed = true;
}

void sim_client_keep(sim_client *c)
{
    sim_client *before = sim_enter(c);

    c->keeper_at = HF_NEVER;
    sim_leave(c, before, true);
}

void sim_client_act(sim_client *c)
{
    sim_client *before = sim_enter(c);

    c->app_at = HF_NEVER;
    sim_app_act(c);
    sim_leave(c, before, false);
}
