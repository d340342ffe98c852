/* world.c - one history: a storm, the calm after it, the end.
 *
 *   storm   clients work, faults strike
 *   healed  no new faults; what was late arrives, leases run out
 *   calm    everybody asks once more; all must be served at once (I6, I9)
 *   end     sessions close; nothing may be left (I8)
 *
 * Nothing survives from one history to the next: memory is one arena, and the
 * table of handles is made anew.  A history that does not end is left by a
 * jump; its objects are never touched again. */
#include "sim/sim.h"

#include <stdlib.h>
#include <string.h>

#include "core/internal.h"

enum { CALM_LIMIT_MS = 30000, SWEEP_MS = 6000 };

static uint64_t mix(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static void draw_faults(sim_world *w, uint32_t allowed)
{
    uint32_t drawn = (uint32_t)(sim_random(&w->chance) >> 20);

    if (sim_chance(w, 2)) /* some have few */
        drawn &= (uint32_t)(sim_random(&w->chance) >> 20);
    if (sim_chance(w, 16))
        drawn = 0;
    /* A freeze is seen by the wall clock alone: one that is set back at the
     * same time hides it, and there is no cure for that but the token. */
    if (drawn >> SIM_FAULT_FREEZE & allowed >> SIM_FAULT_FREEZE & 1)
        drawn &= ~(UINT32_C(1) << SIM_FAULT_WALL_CLOCK);
    w->faults = drawn & allowed & SIM_FAULTS_ALL;
}

static void draw_keys(sim_world *w, uint64_t seed)
{
    w->key_count = (int)sim_below(&w->chance, SIM_KEYS) + 1;
    for (int i = 0; i < w->key_count; i++) {
        uint64_t dice = sim_below(&w->chance, 10);

        w->key_mode[i] = dice < 6   ? HF_EXCLUSIVE
                         : dice < 8 ? HF_SHARED
                                    : HF_PERMIT;
        w->key_places[i] = (uint32_t)sim_below(&w->chance, 3) + 1;
        if (seed & SIM_SEED_EACH)
            w->key_mode[i] = HF_EXCLUSIVE; /* it has nothing else */
    }
}

/* Keeps what is allocated once: the heap, the parked steps, the record. */
static void clear_world(sim_world *w)
{
    w->now = HF_MS(1);
    w->longest_late = w->longest_lease = 0;
    w->next_seq = 0;
    w->step_count = 0;
    w->steps_done = 0;
    w->depth = 0;
    w->cur = NULL;
    w->in_model = w->healed = w->calm = w->stuck = w->crashed = false;
    w->store_last = w->store_step = w->down_until = 0;
    w->store_steps = 0;
    w->next_task = w->next_life = 0;
    w->sid_count = 0;
    memset(w->seen_count, 0, sizeof w->seen_count);
    for (int i = 0; i < SIM_CLIENTS; i++) {
        sim_step *parked = w->clients[i].parked;
        size_t room = w->clients[i].parked_room;

        w->clients[i] = (sim_client){.world = w,
                                     .index = (uint8_t)i,
                                     .parked = parked,
                                     .parked_room = room};
    }
    sim_history_clear(&w->history);
}

static void begin(sim_world *w, uint64_t seed, uint32_t allowed)
{
    uint64_t state = seed;

    clear_world(w);
    w->seed = seed;
    w->chance = (sim_rng){mix(&state), mix(&state) | 1};
    w->core_chance = (sim_rng){mix(&state), mix(&state) | 1};
    draw_faults(w, allowed);
    draw_keys(w, seed);
    w->client_count = (int)sim_below(&w->chance, 3) + 3;
    w->each = seed & SIM_SEED_EACH;
    w->clock = seed >> 1 & 1;
    w->marks = !sim_chance(w, 3) || w->each;
    w->fresh = !sim_chance(w, 3);
    w->store_offset = sim_span(w, HF_MS(1000), HF_MS(1000000));
    w->store_ppm = sim_has(w, SIM_FAULT_DRIFT) ? sim_span(w, -4000, 4000) : 0;
    w->heal_at = sim_span(w, HF_MS(1000), HF_MS(4000));
    if (hf__process_mark())
        hf__handle_reset(hf__process_mark());
    if (sim_store_open(w) != 0)
        return;
    for (int i = 0; i < w->client_count; i++)
        sim_plan(w, w->now + sim_span(w, 0, HF_MS(100)), SIM_STEP_OPEN,
                 &w->clients[i], NULL);
    sim_chaos_begin(w);
}

static bool is_idle(const sim_world *w)
{
    for (int i = 0; i < w->client_count; i++) {
        if (!sim_app_idle(&w->clients[i]))
            return false;
    }
    return true;
}

static void heal(sim_world *w)
{
    w->healed = true;
    w->faults = 0;
    w->down_until = 0;
    sim_trace(w, "healed");
    for (int i = 0; i < w->client_count; i++) {
        sim_client *c = &w->clients[i];

        c->paused_until = 0;
        sim_unpark(w, c);
        if (!c->session)
            sim_plan(w, w->now, SIM_STEP_OPEN, c, NULL);
        else
            c->app_at = w->now;
    }
}

static void run_calm(sim_world *w)
{
    hf_nsec until = w->longest_late > w->now ? w->longest_late : w->now;

    sim_run_until(w, until + w->longest_lease + HF_MS(200));
    w->calm = true;
    sim_record(&w->history, SIM_CALM, w->now);
    for (int i = 0; i < w->client_count; i++) {
        sim_client *c = &w->clients[i], *before;

        if (!c->session)
            continue;
        before = sim_enter(c);
        sim_app_ask(c, 0, true);
        sim_app_ask(c, 0, true);
        sim_leave(c, before, false);
    }
    until = w->now + HF_MS(CALM_LIMIT_MS);
    while (!is_idle(w) && sim_run_one(w, until))
        ;
    sim_record(&w->history, SIM_SERVED, w->now);
}

static void finish(sim_world *w)
{
    size_t left;
    sim_event *end;

    for (int i = 0; i < w->client_count; i++)
        sim_client_close(&w->clients[i]);
    /* Sessions and fixed leases of the crashed end by themselves. */
    w->now += HF_MS(SWEEP_MS);
    left = sim_store_left(w);
    sim_net_clear(w);
    hf__mem_model_free(w->model);
    end = sim_record(&w->history, SIM_END, w->now);
    end->count = (uint32_t)left;
    /* The table of handles stays; a crash leaves all it had. */
    if (!w->crashed && sim_pool_live() > 1)
        end->num = sim_pool_live() - 1;
}

static void give_up(sim_world *w)
{
    for (int i = 0; i < w->client_count; i++) {
        if (w->clients[i].session)
            hf__process_remove(w->clients[i].core);
        w->clients[i].session = NULL;
    }
    w->cur = NULL;
    sim_net_clear(w);
    sim_record(&w->history, SIM_SERVED, w->now);
    sim_record(&w->history, SIM_END, w->now)->count = 1;
}

void sim_world_run(sim_world *w, uint64_t seed, uint32_t allowed)
{
    sim_clock_install(w);
    sim_pool_install(w);
    w->faults = 0;
    sim_pool_reset();
    if (setjmp(w->way_out) == 0) {
        begin(w, seed, allowed);
        if (!w->model)
            return;
        sim_run_until(w, w->heal_at);
        heal(w);
        run_calm(w);
        finish(w);
    } else {
        give_up(w);
    }
}

void sim_world_free(sim_world *w)
{
    for (int i = 0; i < SIM_CLIENTS; i++)
        free(w->clients[i].parked);
    free(w->steps);
    sim_history_free(&w->history);
    sim_pool_reset();
    memset(w, 0, sizeof *w);
}
