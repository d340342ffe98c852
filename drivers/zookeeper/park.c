/* park.c - threads that sleep until their turn may have come.
 *
 * An event is told to the core by whichever thread reads it, and the core
 * unparks the thread it concerns.  An unpark that comes before the thread has
 * gone to sleep must not be lost: it rings the bell of the rid, whose count
 * was noted before the join or recheck that said "wait".
 *
 * A sleep that ended by the clock alone, with its watch still armed, has
 * nothing to ask the server about: look.c answers the look that follows from
 * what is known, so that a queue of sleepers costs the server nothing. */
#include <string.h>

#include "store.h"

typedef struct zk_parked { /* a thread in park, on its stack */
    struct zk_parked *next;
    hf_id rid;
    hf__waiter waiter;
} zk_parked;

static atomic_uint *bell_of(hf_store *store, const hf_id *rid)
{
    return &store->bells[rid->bytes[0] ^ rid->bytes[8]];
}

void zk_note_bell(hf_store *store, hf_place *place)
{
    place->own[0] = atomic_load(bell_of(store, &place->rid));
}

static bool is_rung(hf_store *store, const hf_place *place)
{
    return atomic_load(bell_of(store, &place->rid)) != (unsigned)place->own[0];
}

static void note_quiet(hf_store *store, const hf_place *place)
{
    zk_entry *entry;

    zk_store_lock(store);
    entry = zk_entry_find(store, &place->rid);
    if (entry && entry->armed && !is_rung(store, place))
        entry->quiet = true;
    zk_store_unlock(store);
}

void zk_park(hf_store *store, const hf_place *place, hf_nsec until)
{
    zk_parked me = {.rid = place->rid};
    zk_parked **at;
    bool rung;

    pthread_mutex_lock(&store->park_mu);
    rung = is_rung(store, place);
    if (!rung) {
        me.next = store->parked;
        store->parked = &me;
    }
    pthread_mutex_unlock(&store->park_mu);
    if (rung)
        return;
    zk_wire_park(store->wire, &me.waiter, until);
    pthread_mutex_lock(&store->park_mu);
    for (at = &store->parked; *at != &me; at = &(*at)->next)
        ;
    *at = me.next;
    pthread_mutex_unlock(&store->park_mu);
    if (hfd_now() >= until)
        note_quiet(store, place);
}

void zk_ring(hf_store *store, const hf_id *rid)
{
    pthread_mutex_lock(&store->park_mu);
    atomic_fetch_add(bell_of(store, rid), 1);
    for (zk_parked *p = store->parked; p; p = p->next) {
        if (memcmp(&p->rid, rid, sizeof p->rid) == 0)
            zk_wire_wake(store->wire, &p->waiter);
    }
    pthread_mutex_unlock(&store->park_mu);
}

void zk_ring_all(hf_store *store)
{
    pthread_mutex_lock(&store->park_mu);
    for (size_t i = 0; i < ZK_BELLS; i++)
        atomic_fetch_add(&store->bells[i], 1);
    for (zk_parked *p = store->parked; p; p = p->next)
        zk_wire_wake(store->wire, &p->waiter);
    pthread_mutex_unlock(&store->park_mu);
}

void zk_unpark(hf_store *store, const hf_place *place)
{
    zk_ring(store, &place->rid);
}
