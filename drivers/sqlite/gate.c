/* gate.c - whose turn it is to write.
 *
 * SQLite's own way to wait for the writer's turn is to sleep and try again,
 * which starves: whoever just wrote is awake and takes the next turn too.  So
 * all processes that want to write draw a ticket in the side file and are
 * served in order; each sleeps on the bell of its own ticket.
 *
 * The gate is courtesy, not truth: SQLite's write lock behind it is what keeps
 * writers apart.  Therefore it may be left to time.  One who gives up writes
 * his ticket down as left, and is skipped; one who dies or is stopped with a
 * ticket in hand is passed over when nothing has moved for STALLED; one who was
 * passed over walks in when he sees it.  Nobody draws a ticket after his time
 * is over.  An uncontended turn costs two atomic additions.
 *
 * Threads of one process come one at a time, by a lock in front (writer_mu).
 * It does not hand over in order: who is awake goes on, which saves a sleep for
 * each operation, but after RUNS in a row one makes way for who sleeps. */
#include "store.h"

#include <sched.h>

#define STALLED HF_MS(20)
#define SPINS 40
#define RUNS 16

enum { FREE, TAKEN, WANTED }; /* WANTED: taken, and somebody sleeps */

static bool grab(_Atomic uint32_t *mu)
{
    uint32_t free = FREE;

    return atomic_compare_exchange_strong(mu, &free, TAKEN);
}

bool hf__sq_writer_lock(hf_store *s, hf_nsec deadline)
{
    static _Thread_local unsigned runs;
    _Atomic uint32_t *mu = &s->writer_mu;
    hf_nsec now, since;

    /* Make way now and then: whoever was woken has a chance to come first. */
    if (++runs % RUNS == 0 && atomic_load(&s->writer_sleepers) > 0)
        sched_yield();
    for (int i = 0; i < SPINS; i++)
        if (grab(mu))
            return true;
    atomic_fetch_add(&s->writer_sleepers, 1);
    since = now = hfd_now();
    while (atomic_exchange(mu, WANTED) != FREE) {
        if (now >= deadline || now - since >= s->patience) {
            atomic_fetch_sub(&s->writer_sleepers, 1);
            return false;
        }
        hf__sq_futex_wait(mu, WANTED,
                          deadline - now < STALLED ? deadline - now : STALLED);
        now = hfd_now();
    }
    atomic_fetch_sub(&s->writer_sleepers, 1);
    return true;
}

void hf__sq_writer_unlock(hf_store *s)
{
    if (atomic_exchange(&s->writer_mu, FREE) == WANTED)
        hf__sq_futex_wake_one(&s->writer_mu);
}

static _Atomic uint32_t *bell_of(sq_map *map, uint32_t ticket)
{
    return &map->gate_bell[ticket % SQ_GATE_BELLS];
}

static _Atomic uint32_t *left_of(sq_map *map, uint32_t ticket)
{
    return &map->gate_left[ticket % SQ_GATE_LEFT];
}

/* Serve the next after `seen` who has not left, unless somebody else did. */
static void pass_on(sq_map *map, uint32_t seen)
{
    while (
        atomic_compare_exchange_strong(&map->gate_serving, &seen, seen + 1)) {
        seen++;
        if (atomic_load(&map->gate_next) == seen)
            return;
        /* Not, so that the zeros of a new file name no ticket drawn soon. */
        if (atomic_load(left_of(map, seen)) != ~seen) {
            hf__sq_futex_bump(bell_of(map, seen));
            return;
        }
    }
}

/* He writes it down and then looks; who serves moves on and then reads it: so
 * at least one of the two sees that this turn is nobody's. */
static void give_up(sq_map *map, uint32_t ticket)
{
    atomic_store(left_of(map, ticket), ~ticket);
    if (atomic_load(&map->gate_serving) == ticket)
        pass_on(map, ticket);
}

bool hf__sq_gate_enter(hf_store *s, hf_nsec deadline, uint32_t *ret_ticket)
{
    sq_map *map = s->map;
    uint32_t ticket, seen, bell;
    hf_nsec now, since = 0, moved = 0;

    if (hfd_now() >= deadline)
        return false;
    *ret_ticket = ticket = atomic_fetch_add(&map->gate_next, 1);
    seen = atomic_load(&map->gate_serving);
    /* Signed: a ticket that was passed over lies behind. */
    while ((int32_t)(ticket - seen) > 0) {
        uint32_t before = seen;

        /* The bell is read before the second look, so that a turn which
         * comes in between is not slept through. */
        bell = atomic_load(bell_of(map, ticket));
        seen = atomic_load(&map->gate_serving);
        if (seen != before)
            continue;
        now = hfd_now();
        if (since == 0)
            since = moved = now;
        if (now >= deadline || now - since >= s->patience) {
            give_up(map, ticket);
            return false;
        }
        hf__sq_futex_wait(bell_of(map, ticket), bell,
                          deadline - now < STALLED ? deadline - now : STALLED);
        seen = atomic_load(&map->gate_serving);
        now = hfd_now();
        if (seen != before) {
            moved = now;
        } else if (now - moved >= STALLED) {
            pass_on(map, seen);
            seen = atomic_load(&map->gate_serving);
            moved = now;
        }
    }
    return true;
}

void hf__sq_gate_leave(hf_store *s, uint32_t ticket)
{
    pass_on(s->map, ticket);
}
