/* model.c - the operations of driver.h on the mem store.
 *
 * Each operation first sweeps what has ended by the store's clock, then acts
 * as a whole or, out of memory, not at all.  What an answer says is the
 * contract's; what lives how long and who is granted is state.c's.
 *
 * Leave, confirm and publish name their entry by rid alone and ask for no
 * living session: a fixed lease outlives its session, and its owner must still
 * be able to give it back. */
#include "state.h"

#include <stdio.h>
#include <string.h>

hf__mem_store *hf__mem_model_new(void)
{
    hf__mem_store *store = hfd_alloc(sizeof *store);

    if (store) {
        store->marks = true;
        store->next_due = HF_NEVER;
        mem_ring_init(&store->living);
        mem_ring_init(&store->timed);
    }
    return store;
}

static void free_members(hf__mem_store *store)
{
    for (size_t i = 0; i < store->rids.size; i++) {
        for (mem_link *link = store->rids.slots[i], *next; link; link = next) {
            mem_entry *entry = MEM_OF(link, mem_entry, by_rid);

            next = link->next;
            hfd_free(entry->value);
            hfd_free(entry);
        }
    }
    for (size_t i = 0; i < store->queues.size; i++) {
        for (mem_link *link = store->queues.slots[i], *next; link;
             link = next) {
            next = link->next;
            hfd_free(MEM_OF(link, mem_queue, by_key));
        }
    }
    for (size_t i = 0; i < store->sessions.size; i++) {
        for (mem_link *link = store->sessions.slots[i], *next; link;
             link = next) {
            next = link->next;
            hfd_free(MEM_OF(link, mem_session, by_sid));
        }
    }
    hf__mem_table_done(&store->rids);
    hf__mem_table_done(&store->queues);
    hf__mem_table_done(&store->sessions);
}

void hf__mem_model_forget(hf__mem_store *store)
{
    free_members(store);
    mem_ring_init(&store->living);
    mem_ring_init(&store->timed);
    store->living_count = store->entry_count = 0;
    store->next_due = HF_NEVER;
}

void hf__mem_model_free(hf__mem_store *store)
{
    if (store) {
        free_members(store);
        hfd_free(store->seats);
        hfd_free(store);
    }
}

void hf__mem_model_tell(hf__mem_store *store, const hf__mem_tell *tell)
{
    store->tell = *tell;
}

void hf__mem_model_set_marks(hf__mem_store *store, bool marks)
{
    store->marks = marks;
}

bool hf__mem_model_marks(const hf__mem_store *store)
{
    return store->marks;
}

void hf__mem_model_set_each(hf__mem_store *store, bool each)
{
    store->each = each;
}

bool hf__mem_model_each(const hf__mem_store *store)
{
    return store->each;
}

void hf__mem_model_set_who(hf__mem_store *store, int64_t pid, const char *host)
{
    store->pid = pid;
    snprintf(store->host, sizeof store->host, "%s", host);
}

size_t hf__mem_model_entries(const hf__mem_store *store)
{
    return store->entry_count;
}

size_t hf__mem_model_sessions(const hf__mem_store *store)
{
    return store->living_count;
}

/* ---- Sessions ----------------------------------------------------------- */

static void extend_session(hf__mem_store *store, mem_session *session,
                           const hf_op *op, hf_nsec now)
{
    hf_nsec ends = hf__mem_add_time(now, op->ttl);

    session->ttl = op->ttl;
    if (ends > session->ends)
        session->ends = ends;
    hf__mem_note_due(store, session->ends);
}

static void run_attach(hf__mem_store *store, hf_op *op, mem_session *session,
                       hf_nsec now)
{
    if (op->ttl <= 0) {
        hf__mem_fail(op, HF_EINVAL, "a session's lease must be longer than 0");
        return;
    }
    if (session && !session->alive) {
        hf__mem_refuse(op, HF_EEXPIRED,
                       "this session is over: attach a new one");
        return;
    }
    if (!session)
        session = hf__mem_add_session(store, op);
    if (!session) {
        hf__mem_fail(op, HF_ENOMEM, "out of memory for a session");
        return;
    }
    extend_session(store, session, op, now);
}

static void run_renew(hf__mem_store *store, hf_op *op, mem_session *session,
                      hf_nsec now)
{
    if (op->ttl <= 0) {
        hf__mem_fail(op, HF_EINVAL, "a session's lease must be longer than 0");
        return;
    }
    if (!session || !session->alive) {
        hf__mem_refuse(op, HF_EEXPIRED, "the session's lease ran out");
        return;
    }
    extend_session(store, session, op, now);
    if (session->news == 0)
        return;
    MEM_EACH(at, &session->entries) {
        mem_entry *entry = MEM_OF(at, mem_entry, in_session);

        if (entry->reason != HF_ENOTHELD && !entry->heard)
            hf__mem_tell_news(store, entry, entry->reason);
    }
}

static void run_detach(hf__mem_store *store, mem_session *session)
{
    if (session && session->alive) {
        hf__mem_end_session(store, session, HF_ENOTHELD);
        hf__mem_settle(store);
    }
}

/* ---- Entries ------------------------------------------------------------ */

static bool copy_value(void **ret, const void *value, size_t len)
{
    *ret = NULL;
    if (len > 0) {
        *ret = hfd_alloc(len);
        if (!*ret)
            return false;
        memcpy(*ret, value, len);
    }
    return true;
}

/* 0, or why this place can stand in no queue. */
int hf__mem_check_join(hf__mem_store *store, hf_op *op)
{
    const hf_place *place = op->place;
    const mem_queue *queue =
        hf__mem_find_queue(store, place->key, place->key_len);

    if (place->key_len == 0 || place->key_len > HF_KEY_MAX ||
        op->value_len > HF_VALUE_MAX || place->mode > HF_PERMIT ||
        (place->mode == HF_PERMIT && place->places == 0) || place->lease < 0) {
        hf__mem_fail(op, HF_EINVAL, "the place to join with is malformed");
        return HF_EINVAL;
    }
    if (queue) {
        const mem_entry *first =
            MEM_OF(queue->entries.next, mem_entry, in_queue);
        hf_seat seat = {.num = first->num,
                        .mode = first->mode,
                        .granted = first->granted,
                        .places = first->places};

        if (!hfd_same_kind(&seat, (hf_mode)place->mode, place->places)) {
            hf__mem_refuse(op, HF_EKIND,
                           "the key is in use as another kind of lock, or with "
                           "another number of places");
            return HF_EKIND;
        }
    }
    return 0;
}

/* A new entry at the tail, with its number and value; NULL: no memory. */
mem_entry *hf__mem_append_entry(hf__mem_store *store, const hf_op *op,
                                mem_session *session, hf_nsec now)
{
    void *value;
    mem_entry *entry;

    if (!copy_value(&value, op->value, op->value_len))
        return NULL;
    entry = hf__mem_add_entry(store, session, op->place);
    if (!entry) {
        hfd_free(value);
        return NULL;
    }
    entry->value = value;
    entry->value_len = op->value_len;
    entry->born = now;
    entry->num = ++store->counter;
    entry->token = store->marks ? 0 : entry->num;
    return entry;
}

static void run_join(hf__mem_store *store, hf_op *op, mem_session *session,
                     hf_nsec now)
{
    mem_entry *entry = hf__mem_find_entry(store, &op->place->rid);
    bool fresh = !entry;

    if (!session || !session->alive) {
        hf__mem_refuse(op, HF_EEXPIRED, "the session's lease ran out");
        return;
    }
    if (fresh) {
        if (hf__mem_check_join(store, op) != 0)
            return;
        entry = hf__mem_append_entry(store, op, session, now);
        if (!entry) {
            hf__mem_fail(op, HF_ENOMEM, "out of memory for an entry");
            return;
        }
        hf__mem_grant_due(store, entry->queue, entry);
        if (op->only_if_granted && !entry->granted) {
            op->place->look_in = hf__mem_time_to_look(entry->queue, now);
            store->counter--;
            hf__mem_undo_entry(store, entry);
            hf__mem_refuse(op, HF_EBUSY, "held by another");
            return;
        }
        if (entry->granted && entry->lease > 0)
            hf__mem_set_end(store, entry, hf__mem_add_time(now, entry->lease));
    }
    if (!hf__mem_answer_place(store, entry, op->place, now)) {
        if (fresh)
            hf__mem_undo_entry(store, entry);
        hf__mem_fail(op, HF_ENOMEM, "out of memory for the queue's seats");
    }
}

static void run_confirm(hf__mem_store *store, hf_op *op,
                        const mem_session *session, hf_nsec now)
{
    mem_entry *entry = hf__mem_open_entry(store, op, session);
    hf_place *place = op->place;

    if (!entry)
        return;
    if (entry->broken) {
        hf__mem_answer_gone(place, HF_EFORCED);
        return;
    }
    place->verdict = entry->granted ? HF_GRANTED : HF_WAITS;
    if (entry->granted && entry->lease > 0) {
        hf__mem_set_end(store, entry, hf__mem_add_time(now, entry->lease));
        place->remaining = entry->lease;
        place->num = entry->num;
        place->token = entry->token;
    }
}

/* The owner gave it back, so it need not hear of its end any more. */
static void stop_news(mem_entry *entry)
{
    if (!entry->heard && entry->reason != HF_ENOTHELD) {
        entry->heard = true;
        entry->session->news--;
    }
}

static void run_leave(hf__mem_store *store, hf_op *op, mem_session *session,
                      hf_nsec now)
{
    mem_entry *entry = hf__mem_find_entry(store, &op->place->rid);

    if (op->tomb && !entry && session && session->alive &&
        !hf__mem_add_tomb(store, session, &op->place->rid)) {
        hf__mem_fail(op, HF_ENOMEM, "out of memory for a tomb");
        return;
    }
    if (entry)
        stop_news(entry);
    entry = hf__mem_open_entry(store, op, session);
    if (!entry)
        return;
    op->place->verdict = entry->granted ? HF_GRANTED : HF_WAITS;
    op->place->reason = 0;
    if (op->keep > 0 && entry->granted && !entry->broken) {
        entry->closed = true;
        entry->tomb = op->tomb;
        hf__mem_set_end(store, entry, hf__mem_add_time(now, op->keep));
        return;
    }
    hf__mem_remove_entry(store, entry, HF_ENOTHELD, op->tomb);
    hf__mem_settle(store);
}

static void run_recheck(hf__mem_store *store, hf_op *op,
                        const mem_session *session, hf_nsec now)
{
    for (size_t i = 0; i < op->place_count; i++) {
        hf_place *place = op->places[i];
        const mem_entry *entry = hf__mem_find_entry(store, &place->rid);

        if (!entry) {
            hf__mem_answer_gone(place, hf__mem_reason_of(session));
        } else if (!hf__mem_answer_place(store, entry, place, now)) {
            while (i-- > 0) {
                hfd_free(op->places[i]->seats);
                op->places[i]->seats = NULL;
                op->places[i]->seat_count = 0;
            }
            hf__mem_fail(op, HF_ENOMEM, "out of memory for the queue's seats");
            return;
        }
    }
    if (session && !session->alive)
        hf__mem_refuse(op, HF_EEXPIRED, "the session's lease ran out");
}

static void run_publish(hf__mem_store *store, hf_op *op,
                        const mem_session *session)
{
    mem_entry *entry;
    void *value;

    if (op->value_len > HF_VALUE_MAX) {
        hf__mem_fail(op, HF_EINVAL, "a value has at most 1024 bytes");
        return;
    }
    entry = hf__mem_open_entry(store, op, session);
    if (!entry)
        return;
    if (!copy_value(&value, op->value, op->value_len)) {
        hf__mem_fail(op, HF_ENOMEM, "out of memory for a value");
        return;
    }
    hfd_free(entry->value);
    entry->value = value;
    entry->value_len = op->value_len;
    op->place->verdict = entry->granted ? HF_GRANTED : HF_WAITS;
    op->place->reason = 0;
}

static bool owns_token(const mem_entry *entry, uint64_t token)
{
    return token == 0 ||
           (token >= entry->token && token - entry->token < entry->run);
}

static void run_evict(hf__mem_store *store, hf_op *op, hf_nsec now)
{
    mem_queue *queue = hf__mem_find_queue(store, op->text, op->text_len);

    op->count = 0;
    if (!queue)
        return;
    MEM_EACH(at, &queue->entries) {
        mem_entry *entry = MEM_OF(at, mem_entry, in_queue);

        if (!entry->granted)
            break;
        if (!owns_token(entry, op->token))
            continue;
        op->count++;
        if (entry->closed) {
            hf__mem_remove_entry(store, entry, HF_ENOTHELD, entry->tomb);
        } else if (op->now || !store->marks || store->each) {
            hf__mem_remove_entry(store, entry, HF_EFORCED, !store->each);
        } else if (!entry->broken) {
            hf_nsec grace =
                entry->session->alive ? entry->session->ttl : op->ttl;

            hf_nsec until = hf__mem_add_time(now, grace);

            /* Its owner may believe in a fixed lease to the end of it. */
            if (entry->ends != HF_NEVER && entry->ends > until)
                until = entry->ends;
            hf__mem_break_entry(store, entry, until);
        }
    }
    hf__mem_settle(store);
}

static void run_probe(const hf__mem_store *store, const hf_op *op)
{
    if (op->emit_finding)
        op->emit_finding(HF_WARN, "memory",
                         store->marks
                             ? "a mem: store is seen by this process alone; "
                               "use sqlite: to share locks with others"
                             : "a mem: store without marks is a test bench; "
                               "use sqlite: to share locks with others",
                         op->user);
}

void hf__mem_model_run(hf__mem_store *store, hf_op *op, hf_nsec now)
{
    mem_session *session;

    hf__mem_sweep(store, now);
    op->outcome = HF_APPLIED;
    op->error = (hf_error){.code = 0};
    op->store_us = 0;
    session = hf__mem_find_session(store, &op->sid);
    if (store->each && hf__mem_run_each(store, op, session, now)) {
        op->remaining = op->ttl;
        return;
    }
    switch (op->kind) {
    case HF_OP_ATTACH:
        run_attach(store, op, session, now);
        break;
    case HF_OP_RENEW:
        run_renew(store, op, session, now);
        break;
    case HF_OP_DETACH:
        run_detach(store, session);
        break;
    case HF_OP_JOIN:
        run_join(store, op, session, now);
        break;
    case HF_OP_CONFIRM:
        run_confirm(store, op, session, now);
        break;
    case HF_OP_LEAVE:
        run_leave(store, op, session, now);
        break;
    case HF_OP_RECHECK:
        run_recheck(store, op, session, now);
        break;
    case HF_OP_LIST:
        if (!hf__mem_list(store, op, now))
            hf__mem_fail(op, HF_ENOMEM, "out of memory for the listing");
        break;
    case HF_OP_PUBLISH:
        run_publish(store, op, session);
        break;
    case HF_OP_EVICT:
        run_evict(store, op, now);
        break;
    case HF_OP_PROBE:
        run_probe(store, op);
        break;
    default:
        hf__mem_fail(op, HF_ENOTSUP,
                     "an operation that this store does not know");
        break;
    }
    session = hf__mem_find_session(store, &op->sid);
    op->remaining = session && session->alive ? session->ends - now : 0;
}
