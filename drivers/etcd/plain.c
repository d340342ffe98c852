/* plain.c - the name K/<lease>: who may take it, and who may just delete it.
 *
 * A deletion without a condition costs the server far less than a transaction,
 * but it takes away whatever has that name when it arrives.  K/<lease>.<rid>
 * has had one owner for ever.  K/<lease> is used again by every exclusive entry
 * of the session, and an entry may be gone before its owner knows (an operator
 * broke it, somebody deleted the key) while the next one stands there already.
 *
 * So an entry by that name is deleted without a condition only if it is the
 * last that this session has put there, and no join that may put another is
 * under way; and while such a deletion is under way no join uses the name (it
 * takes one of its own).  Then it finds its own entry, or nothing.  Decided
 * under mu, before anything is sent, so a thread that is paused in between
 * stands in the count already.
 *
 * Reply lost: what may still arrive stays counted for ever, since nobody knows
 * when it does; what the server refused is not, since it never will.  A
 * deletion keeps joins off the name, a join keeps deletions to their condition.
 * Names share the counters by their hash; who is mistaken for another takes the
 * slower way.  Knows nothing of queues and requests. */
#include "store.h"

static etcd_slot *slot_of(etcd_work *work)
{
    return &work->store->slots[etcd_hash(work->names.plain) % ETCD_SLOTS];
}

bool etcd_claim_join(etcd_work *work)
{
    etcd_slot *slot = slot_of(work);
    bool free;

    pthread_mutex_lock(&work->store->mu);
    free = slot->leaves == 0;
    if (free && work->claim == ETCD_NO_CLAIM) {
        slot->joins++;
        work->claim = ETCD_JOINS;
    }
    work->pending |= free;
    pthread_mutex_unlock(&work->store->mu);
    return free;
}

void etcd_claim_put(etcd_work *work, int64_t created)
{
    pthread_mutex_lock(&work->store->mu);
    slot_of(work)->latest = created;
    pthread_mutex_unlock(&work->store->mu);
}

bool etcd_claim_leave(etcd_work *work, int64_t created)
{
    etcd_slot *slot = slot_of(work);
    bool last;

    pthread_mutex_lock(&work->store->mu);
    last = slot->latest == created && slot->joins == 0 &&
           work->claim == ETCD_NO_CLAIM;
    if (last) {
        slot->leaves++;
        work->claim = ETCD_LEAVES;
        work->pending = true;
    }
    pthread_mutex_unlock(&work->store->mu);
    return last;
}

void etcd_claim_end(etcd_work *work)
{
    etcd_slot *slot = slot_of(work);

    if (work->claim == ETCD_NO_CLAIM || work->pending)
        return;
    pthread_mutex_lock(&work->store->mu);
    if (work->claim == ETCD_JOINS)
        slot->joins--;
    else
        slot->leaves--;
    pthread_mutex_unlock(&work->store->mu);
}
