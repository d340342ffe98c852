/* state.c - lifetimes and grants in the mem store.
 *
 * Answers: what ends when, in which order, and who is granted then.  Knows
 * nothing of operations and their answers.
 *
 * The order that keeps exclusion (driver.h): a session is declared dead before
 * its entries leave, and all of them leave before anybody is granted.  So
 * removal only marks a queue as touched, and the grants come together at the
 * end, in hf__mem_settle; otherwise a lock could be handed to another entry of
 * the session that is just dying.
 *
 * Removing never allocates: what has to be remembered of an entry is the entry
 * itself, out of its queue. */
#include "state.h"

#include <string.h>

/* ---- Finding ------------------------------------------------------------ */

static uint64_t hash_id(const hf_id *id)
{
    return hf__mem_hash(id->bytes, sizeof id->bytes);
}

static bool same_id(const hf_id *a, const hf_id *b)
{
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

mem_session *hf__mem_find_session(const hf__mem_store *store, const hf_id *sid)
{
    mem_link *link = hf__mem_table_first(&store->sessions, hash_id(sid));

    for (; link; link = hf__mem_table_next(link)) {
        mem_session *session = MEM_OF(link, mem_session, by_sid);

        if (same_id(&session->sid, sid))
            return session;
    }
    return NULL;
}

mem_entry *hf__mem_find_entry(const hf__mem_store *store, const hf_id *rid)
{
    mem_link *link = hf__mem_table_first(&store->rids, hash_id(rid));

    for (; link; link = hf__mem_table_next(link)) {
        mem_entry *entry = MEM_OF(link, mem_entry, by_rid);

        if (same_id(&entry->rid, rid))
            return entry;
    }
    return NULL;
}

mem_queue *hf__mem_find_queue(const hf__mem_store *store, const char *key,
                              size_t len)
{
    mem_link *link =
        hf__mem_table_first(&store->queues, hf__mem_hash(key, len));

    for (; link; link = hf__mem_table_next(link)) {
        mem_queue *queue = MEM_OF(link, mem_queue, by_key);

        if (queue->key_len == len && memcmp(queue->key, key, len) == 0)
            return queue;
    }
    return NULL;
}

/* ---- Adding ------------------------------------------------------------- */

mem_session *hf__mem_add_session(hf__mem_store *store, const hf_op *op)
{
    mem_session *session = hfd_alloc(sizeof *session + op->text_len + 1);

    if (!session || !hf__mem_table_reserve(&store->sessions)) {
        hfd_free(session);
        return NULL;
    }
    session->sid = op->sid;
    session->alive = true;
    if (op->text_len > 0)
        memcpy(session->name, op->text, op->text_len);
    mem_ring_init(&session->entries);
    mem_ring_append(&store->living, &session->all);
    hf__mem_table_insert(&store->sessions, &session->by_sid, hash_id(&op->sid));
    store->living_count++;
    return session;
}

static mem_queue *make_queue(hf__mem_store *store, const char *key, size_t len)
{
    mem_queue *queue = hfd_alloc(sizeof *queue + len + 1);

    if (!queue || !hf__mem_table_reserve(&store->queues)) {
        hfd_free(queue);
        return NULL;
    }
    memcpy(queue->key, key, len);
    queue->key_len = len;
    mem_ring_init(&queue->entries);
    hf__mem_table_insert(&store->queues, &queue->by_key,
                         hf__mem_hash(key, len));
    return queue;
}

static void free_queue(hf__mem_store *store, mem_queue *queue)
{
    hf__mem_table_remove(&store->queues, &queue->by_key);
    hfd_free(queue);
}

/* So that granting needs no memory later, when it must not fail. */
static bool reserve_seats(hf__mem_store *store, size_t n)
{
    size_t cap = store->seats_cap ? store->seats_cap : 16;
    hf_seat *seats;

    while (cap < n)
        cap *= 2;
    if (cap == store->seats_cap)
        return true;
    seats = hfd_realloc(store->seats, cap * sizeof *seats);
    if (!seats)
        return false;
    store->seats = seats;
    store->seats_cap = cap;
    return true;
}

mem_entry *hf__mem_add_tomb(hf__mem_store *store, mem_session *session,
                            const hf_id *rid)
{
    mem_entry *entry = hfd_alloc(sizeof *entry);

    if (!entry || !hf__mem_table_reserve(&store->rids)) {
        hfd_free(entry);
        return NULL;
    }
    entry->rid = *rid;
    entry->session = session;
    entry->reason = HF_ENOTHELD;
    entry->ends = entry->broken_until = HF_NEVER;
    mem_ring_init(&entry->in_queue);
    mem_ring_init(&entry->timed);
    mem_ring_append(&session->entries, &entry->in_session);
    hf__mem_table_insert(&store->rids, &entry->by_rid, hash_id(rid));
    return entry;
}

mem_entry *hf__mem_add_entry(hf__mem_store *store, mem_session *session,
                             const hf_place *place)
{
    mem_queue *queue = hf__mem_find_queue(store, place->key, place->key_len);
    mem_queue *made = NULL;
    mem_entry *entry;

    if (!queue)
        queue = made = make_queue(store, place->key, place->key_len);
    if (!queue)
        return NULL;
    entry = reserve_seats(store, queue->count + 1)
                ? hf__mem_add_tomb(store, session, &place->rid)
                : NULL;
    if (!entry) {
        if (made)
            free_queue(store, made);
        return NULL;
    }
    entry->queue = queue;
    entry->mode = place->mode;
    entry->places = place->places;
    entry->run = store->marks && place->run > 0 ? place->run : 1;
    entry->lease = place->lease;
    mem_ring_append(&queue->entries, &entry->in_queue);
    queue->count++;
    store->entry_count++;
    return entry;
}

/* ---- Ending ------------------------------------------------------------- */

void hf__mem_note_due(hf__mem_store *store, hf_nsec at)
{
    if (at < store->next_due)
        store->next_due = at;
}

void hf__mem_set_end(hf__mem_store *store, mem_entry *entry, hf_nsec ends)
{
    entry->ends = ends;
    mem_ring_remove(&entry->timed);
    mem_ring_append(&store->timed, &entry->timed);
    hf__mem_note_due(store, ends);
}

void hf__mem_break_entry(hf__mem_store *store, mem_entry *entry, hf_nsec until)
{
    entry->broken = true;
    entry->broken_until = until;
    mem_ring_remove(&entry->timed);
    mem_ring_append(&store->timed, &entry->timed);
    hf__mem_note_due(store, until);
    hf__mem_tell_news(store, entry, HF_EFORCED);
}

void hf__mem_tell_news(hf__mem_store *store, mem_entry *entry, int reason)
{
    mem_session *session = entry->session;

    if (!session->alive)
        return;
    if (entry->reason != reason) {
        entry->reason = reason;
        session->news++;
    }
    if (store->tell.news)
        store->tell.news(store->tell.ctx, &session->sid, &entry->rid, reason);
}

static void free_entry(hf__mem_store *store, mem_entry *entry)
{
    hf__mem_table_remove(&store->rids, &entry->by_rid);
    mem_ring_remove(&entry->in_session);
    mem_ring_remove(&entry->timed);
    hfd_free(entry->value);
    hfd_free(entry);
}

static void unlink_entry(hf__mem_store *store, mem_entry *entry)
{
    mem_queue *queue = entry->queue;

    mem_ring_remove(&entry->in_queue);
    mem_ring_remove(&entry->timed);
    queue->count--;
    if (entry->granted)
        queue->granted--;
    entry->queue = NULL;
    store->entry_count--;
}

void hf__mem_remove_entry(hf__mem_store *store, mem_entry *entry, int reason,
                          bool remember)
{
    mem_queue *queue = entry->queue;

    if (entry->in_queue.next != &queue->entries)
        MEM_OF(entry->in_queue.next, mem_entry, in_queue)->nudge = true;
    unlink_entry(store, entry);
    if (!queue->touched) {
        queue->touched = true;
        queue->touched_next = store->touched;
        store->touched = queue;
    }
    if (remember && entry->session->alive) {
        if (reason == HF_ENOTHELD)
            entry->reason = reason;
        else
            hf__mem_tell_news(store, entry, reason);
        hfd_free(entry->value);
        entry->value = NULL;
    } else {
        free_entry(store, entry);
    }
}

void hf__mem_undo_entry(hf__mem_store *store, mem_entry *entry)
{
    mem_queue *queue = entry->queue;

    unlink_entry(store, entry);
    free_entry(store, entry);
    if (queue->count == 0)
        free_queue(store, queue);
}

void hf__mem_end_session(hf__mem_store *store, mem_session *session, int reason)
{
    session->alive = false;
    session->reason = reason;
    mem_ring_remove(&session->all);
    store->living_count--;
    MEM_EACH(at, &session->entries) {
        mem_entry *entry = MEM_OF(at, mem_entry, in_session);

        if (!entry->queue)
            free_entry(store, entry);
        else if (entry->ends == HF_NEVER)
            hf__mem_remove_entry(store, entry, reason, false);
    }
}

void hf__mem_sweep(hf__mem_store *store, hf_nsec now)
{
    if (now < store->next_due)
        return;
    store->next_due = HF_NEVER;
    MEM_EACH(at, &store->living) {
        mem_session *session = MEM_OF(at, mem_session, all);

        if (session->ends <= now)
            hf__mem_end_session(store, session, HF_EEXPIRED);
        else
            hf__mem_note_due(store, session->ends);
    }
    MEM_EACH(at, &store->timed) {
        mem_entry *entry = MEM_OF(at, mem_entry, timed);

        if (entry->broken_until <= now)
            hf__mem_remove_entry(store, entry, HF_EFORCED, true);
        else if (entry->ends <= now)
            hf__mem_remove_entry(store, entry, HF_EEXPIRED,
                                 (!entry->closed && !store->each) ||
                                     entry->tomb);
        else
            hf__mem_note_due(store, entry->ends < entry->broken_until
                                        ? entry->ends
                                        : entry->broken_until);
    }
    hf__mem_settle(store);
}

/* ---- Granting ----------------------------------------------------------- */

static void tell_changed(hf__mem_store *store, mem_entry *entry)
{
    hf_place fresh = {.rid = entry->rid,
                      .key = entry->queue->key,
                      .key_len = (uint16_t)entry->queue->key_len,
                      .mode = entry->mode,
                      .places = entry->places,
                      .lease = entry->lease,
                      .run = entry->run,
                      .verdict = HF_GRANTED,
                      .num = entry->num,
                      .token = entry->token};

    entry->nudge = false;
    if (store->tell.changed)
        store->tell.changed(store->tell.ctx, &entry->session->sid, &entry->rid,
                            store->marks ? &fresh : NULL);
}

static void grant_entry(hf__mem_store *store, mem_entry *entry,
                        const mem_entry *joiner)
{
    entry->granted = true;
    entry->queue->granted++;
    entry->token =
        entry == joiner || !store->marks ? entry->num : ++store->counter;
    store->counter += entry->run - 1;
    if (entry != joiner)
        tell_changed(store, entry);
}

/* The rule on the first n of the queue; was the last of them granted? */
static bool grant_first(hf__mem_store *store, mem_queue *queue, size_t n,
                        const mem_entry *joiner)
{
    mem_ring *at = queue->entries.next;

    for (size_t i = 0; i < n; i++, at = at->next) {
        const mem_entry *entry = MEM_OF(at, mem_entry, in_queue);

        store->seats[i] = (hf_seat){.num = entry->num,
                                    .mode = entry->mode,
                                    .granted = entry->granted,
                                    .places = entry->places};
    }
    if (hfd_admit_due(store->seats, n) > 0) {
        at = queue->entries.next;
        for (size_t i = 0; i < n; i++, at = at->next) {
            mem_entry *entry = MEM_OF(at, mem_entry, in_queue);

            if (store->seats[i].granted && !entry->granted)
                grant_entry(store, entry, joiner);
        }
    }
    return store->seats[n - 1].granted;
}

void hf__mem_grant_due(hf__mem_store *store, mem_queue *queue,
                       const mem_entry *joiner)
{
    /* Whoever is due stands right behind the granted: a long queue is looked
     * at in windows, as far as the grants reach. */
    size_t n = queue->granted + 8;

    while (queue->count > 0) {
        if (n > queue->count)
            n = queue->count;
        if (!grant_first(store, queue, n, joiner) || n == queue->count)
            return;
        n *= 2;
    }
}

/* Without marks the next in line hears that the one ahead of it went, whether
 * or not that was its turn, as a watch on the predecessor would say. */
static void tell_nudged(hf__mem_store *store, mem_queue *queue)
{
    MEM_EACH(at, &queue->entries) {
        mem_entry *entry = MEM_OF(at, mem_entry, in_queue);

        if (entry->nudge && !entry->granted && !store->marks)
            tell_changed(store, entry);
        entry->nudge = false;
    }
}

void hf__mem_settle(hf__mem_store *store)
{
    while (store->touched) {
        mem_queue *queue = store->touched;

        store->touched = queue->touched_next;
        queue->touched = false;
        hf__mem_grant_due(store, queue, NULL);
        if (!store->marks)
            tell_nudged(store, queue);
        if (queue->count == 0)
            free_queue(store, queue);
    }
}
