/* batch.c - many places in one operation: looks, and renewals one by one.
 *
 * Answers: which entries does one request of the keeper take along, and what
 * does its answer say of each?  Knows nothing of when it is sent.  The places
 * are copies, since a driver writes into them without our mutex; the entries
 * are referenced, since the copies point to their keys.
 *
 * Where holds expire one by one (HF_CAP_EACH) there is no session in the store
 * whose renewal would be theirs, so every hold has a deadline of its own: it is
 * counted from the instant that its join, or the last renewal that took it
 * along, was *sent*.  A hold that was granted while a renewal was under way is
 * not covered by that one, whatever its answer.  Reply lost: nothing is
 * lengthened, and the deadlines decide.  An answer that comes after a hold's
 * own end finds it LOST, and leaves it so. */
#include "core/internal.h"

/* Not cleared: nobody reads beyond what was added, and room is often for many
 * more than come. */
bool hf__batch_init(hf__batch *batch, size_t room)
{
    batch->copies = hfd_realloc(NULL, room * sizeof *batch->copies);
    batch->pointers = hfd_realloc(NULL, room * sizeof *batch->pointers);
    batch->entries = hfd_realloc(NULL, room * sizeof *batch->entries);
    return batch->copies && batch->pointers && batch->entries;
}

void hf__batch_add(hf__batch *batch, hf__entry *entry)
{
    size_t i = batch->count++;

    batch->copies[i] = entry->place;
    batch->pointers[i] = &batch->copies[i];
    batch->entries[i] = entry;
    hf__entry_ref(entry);
}

void hf__batch_done(hf__batch *batch)
{
    for (size_t i = 0; i < batch->count; i++)
        hf__entry_unref(batch->entries[i]);
    hfd_free(batch->copies);
    hfd_free(batch->pointers);
    hfd_free(batch->entries);
}

static bool is_renewed(const hf__entry *entry)
{
    return entry->state == HF_ENTRY_GRANTED && entry->told != HF_LOST &&
           hf__entry_each(entry) && entry->gen == entry->s->gen;
}

bool hf__each_fill(hf__session *s, hf__batch *batch, hf_op *op)
{
    size_t count = 0;

    if (!(s->caps & HF_CAP_EACH))
        return true;
    HF_LIST_EACH(node, &s->entries)
        count += is_renewed(HF_CONTAINER(node, hf__entry, of_session));
    if (count == 0)
        return true;
    if (!hf__batch_init(batch, count))
        return false;
    HF_LIST_EACH(node, &s->entries) {
        hf__entry *entry = HF_CONTAINER(node, hf__entry, of_session);

        if (!is_renewed(entry))
            continue;
        hf__batch_add(batch, entry);
        /* A driver that forgets one must not seem to have answered. */
        batch->copies[batch->count - 1].verdict = (hf_verdict)0;
    }
    op->places = batch->pointers;
    op->place_count = batch->count;
    return true;
}

/* The store does not have it any more; the others go on. */
static void lose_hold(hf__entry *entry, int reason)
{
    hf__session *s = entry->s;
    hf__key *key = entry->key;

    key->refs++;
    hf__entry_lost(entry, reason == HF_ENOTHELD ? HF_EEXPIRED : reason);
    /* A late attempt may still bring it back to life: leave in any case. */
    hf__leave_later(entry);
    hf__line_pump(s, key);
    hf__key_put(s, key);
}

void hf__each_answered(hf__session *s, const hf__batch *batch, const hf_op *op)
{
    if (op->outcome != HF_APPLIED || op->error.code)
        return;
    for (size_t i = 0; i < batch->count; i++) {
        hf__entry *entry = batch->entries[i];
        const hf_place *answer = &batch->copies[i];
        hf_nsec now = hfd_now();

        if (entry->state != HF_ENTRY_GRANTED || entry->told == HF_LOST ||
            entry->gen != s->gen)
            continue;
        if (answer->verdict == HF_GONE) {
            lose_hold(entry, answer->reason);
        } else if (now >= hf__entry_end(entry)) {
            hf__leave_timer(&entry->timer, now); /* it comes too late */
        } else if (answer->verdict == HF_GRANTED) {
            hf__entry_extend(entry, op->sent, answer->remaining);
            hf__entry_arm(entry);
        }
    }
}
