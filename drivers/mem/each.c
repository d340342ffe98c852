/* each.c - the mem store as other libraries lay out their locks.
 *
 * A key is held by one entry with an end of its own, or it is free.  There is
 * no queue: a join or recheck takes the key if it is free and else stores
 * nothing.  A session is only the name that entries are listed under: attach
 * and renew always succeed, and a renewal extends those of its places that are
 * still there.
 *
 * What the model adds so that it can be watched: numbers and tokens come from
 * the counter, as in the store with queues, and the record of a session goes
 * when nobody has spoken for it for a lease; the next operation makes it
 * anew.  Expired is final here, too: a hold that ended is forgotten, and a
 * renewal never brings it back. */
#include "state.h"

/* How long a waiter that nobody wakes lets pass between two looks. */
#define MEM_POLL HF_MS(50)

/* The session that speaks, alive in any case; NULL: no memory. */
static mem_session *touch_session(hf__mem_store *store, const hf_op *op,
                                  mem_session *session, hf_nsec now)
{
    if (!session)
        session = hf__mem_add_session(store, op);
    if (!session)
        return NULL;
    if (!session->alive) {
        session->alive = true;
        mem_ring_append(&store->living, &session->all);
        store->living_count++;
    }
    session->ttl = op->ttl;
    session->ends = hf__mem_add_time(now, op->ttl);
    hf__mem_note_due(store, session->ends);
    return session;
}

static void extend_places(hf__mem_store *store, const hf_op *op, hf_nsec now)
{
    for (size_t i = 0; i < op->place_count; i++) {
        hf_place *place = op->places[i];
        mem_entry *entry = hf__mem_find_entry(store, &place->rid);

        if (!entry || !entry->queue || entry->closed) {
            hf__mem_answer_gone(place, HF_ENOTHELD);
            continue;
        }
        hf__mem_set_end(store, entry, hf__mem_add_time(now, op->ttl));
        place->verdict = HF_GRANTED;
        place->reason = 0;
        place->remaining = op->ttl;
    }
}

/* Take the key, or say how long to wait before the next try. */
static void take_key(hf__mem_store *store, hf_op *op, mem_session *session,
                     hf_nsec now)
{
    hf_place *place = op->place;
    mem_entry *entry = hf__mem_find_entry(store, &place->rid);
    const mem_queue *queue =
        hf__mem_find_queue(store, place->key, place->key_len);

    if (entry) {
        hf__mem_answer_place(store, entry, place, now);
        return;
    }
    if (queue) {
        place->verdict = HF_WAITS;
        place->look_in = hf__mem_time_to_look(queue, now);
        if (place->look_in > MEM_POLL)
            place->look_in = MEM_POLL;
        if (op->only_if_granted)
            hf__mem_refuse(op, HF_EBUSY, "held by another");
        return;
    }
    entry = hf__mem_append_entry(store, op, session, now);
    if (!entry) {
        hf__mem_fail(op, HF_ENOMEM, "out of memory for an entry");
        return;
    }
    hf__mem_grant_due(store, entry->queue, entry);
    hf__mem_set_end(
        store, entry,
        hf__mem_add_time(now, entry->lease > 0 ? entry->lease : op->ttl));
    hf__mem_answer_place(store, entry, place, now);
}

static void take_keys(hf__mem_store *store, hf_op *op, mem_session *session,
                      hf_nsec now)
{
    for (size_t i = 0; i < op->place_count && op->outcome == HF_APPLIED; i++) {
        op->place = op->places[i];
        take_key(store, op, session, now);
        op->place = NULL;
    }
}

static void end_session(hf__mem_store *store, mem_session *session)
{
    if (!session)
        return;
    MEM_EACH(at, &session->entries) {
        mem_entry *entry = MEM_OF(at, mem_entry, in_session);

        if (entry->queue && entry->lease == 0 && !entry->closed)
            hf__mem_remove_entry(store, entry, HF_ENOTHELD, false);
    }
    if (session->alive)
        hf__mem_end_session(store, session, HF_ENOTHELD);
    hf__mem_settle(store);
}

bool hf__mem_run_each(hf__mem_store *store, hf_op *op, mem_session *session,
                      hf_nsec now)
{
    bool speaks = op->kind == HF_OP_ATTACH || op->kind == HF_OP_RENEW ||
                  op->kind == HF_OP_JOIN || op->kind == HF_OP_RECHECK ||
                  (op->kind == HF_OP_LEAVE && op->tomb);

    if (op->kind == HF_OP_DETACH) {
        end_session(store, session);
        return true;
    }
    if (!speaks || (op->kind == HF_OP_JOIN && hf__mem_check_join(store, op)))
        return op->error.code != 0;
    session = touch_session(store, op, session, now);
    if (!session)
        hf__mem_fail(op, HF_ENOMEM, "out of memory for a session");
    else if (op->kind == HF_OP_RENEW)
        extend_places(store, op, now);
    else if (op->kind == HF_OP_JOIN)
        take_key(store, op, session, now);
    else if (op->kind == HF_OP_RECHECK)
        take_keys(store, op, session, now);
    return !session || op->kind != HF_OP_LEAVE;
}
