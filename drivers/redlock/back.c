/* back.c - votes that were taken back, and when a server's vote counts again.
 *
 * Answers: may this server's word that a lock is ours be believed?  A waiter
 * votes again and again under one id, and takes its votes back in between,
 * without waiting.  On one connection that is done before the next vote.  But a
 * take-back that had no answer when its connection ended may be held up on the
 * way and arrive behind a vote that was sent on the next one: it would delete a
 * vote that was counted, and a rival could have the lock, too.
 *
 * So a record knows of each server how many take-backs are under way, and which
 * had no answer; while there is one, what that server says is ours does not
 * count: not as a vote, nor when it is raised or renewed.  After an answer it
 * counts at once; without one for a lease later, as long as a tomb lasts.
 * Several under way are counted, not noted, for one that comes again by its
 * script's text changes places with the next.
 *
 * Two threads: all under the table's lock, and one that ends without an answer
 * goes from "under way" to "late" in one step.  Paused here: noted before the
 * first byte goes out, and ended only after. */
#include <string.h>

#include "redlock.h"

_Static_assert((int)FORMAT_SERVERS >= (int)VOTE_NODES_MAX,
               "a record has no room for all servers");

typedef struct backs {
    hf_nsec span; /* of one without an answer */
    size_t count;
    hf_id rids[FORMAT_BATCH];
} backs;

static void back_landed(redlock_call *call, hf_outcome outcome)
{
    const redlock_round *round = call->round;
    const backs *all = round->more;
    format_data *data = format_of(&round->store->base);
    hf_nsec until = hfd_now() + all->span;

    pthread_mutex_lock(&data->mu);
    for (size_t i = 0; i < all->count; i++) {
        format_record *record = format_find(data, &all->rids[i]);

        if (!record || record->backs[call->node] == 0)
            continue;
        record->backs[call->node]--;
        if (outcome != HF_UNKNOWN)
            continue;
        record->late |= (uint16_t)(1U << call->node);
        if (until > record->late_until)
            record->late_until = until;
    }
    pthread_mutex_unlock(&data->mu);
}

bool back_note(redlock_round *round, hf_place *const *places, size_t n,
               hf_nsec span)
{
    format_data *data = format_of(&round->store->base);
    backs *all = hfd_alloc(sizeof *all);

    if (!all)
        return false;
    all->span = span;
    all->count = n;
    round->more = all;
    round->each = back_landed;
    pthread_mutex_lock(&data->mu);
    for (size_t i = 0; i < n; i++) {
        format_record *record = format_find(data, &places[i]->rid);

        all->rids[i] = places[i]->rid;
        for (size_t k = 0; record && k < round->store->count; k++)
            record->backs[k]++;
    }
    pthread_mutex_unlock(&data->mu);
    return true;
}

bool back_bars(redlock_store *store, const hf_id *rid, unsigned node)
{
    format_data *data = format_of(&store->base);
    format_record *record;
    bool bars = false;

    pthread_mutex_lock(&data->mu);
    record = format_find(data, rid);
    if (record && record->late != 0 && hfd_now() >= record->late_until)
        record->late = 0;
    if (record)
        bars = record->backs[node] > 0 || (record->late >> node & 1);
    pthread_mutex_unlock(&data->mu);
    return bars;
}
