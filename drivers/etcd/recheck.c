/* recheck.c - HF_OP_RECHECK: is it my turn?
 *
 * The common case is one exclusive entry that was told that the last before it
 * has gone.  One linearizable transaction answers: is my key as I put it, and
 * who is the last created before it?  Nobody: granted.  That is also the proof
 * that the entry, and so the lease, was still there at that instant.
 *
 * Otherwise the queues are read whole, several in one transaction, and every
 * place is judged; for places that are not there their tombs are read and, if
 * there is none, the lease is asked for, so that "broken", "expired" and
 * "never was" are told apart.
 *
 * A look that only the clock asked for sends nothing where the watch vouches
 * for the place (watch.c); the connection is looked at then, which costs the
 * member a PING of HTTP/2 at most and is no request of etcd's.
 *
 * It only reads: a lost reply costs a repetition, two of us do not disturb each
 * other, and an answer that is old errs towards waiting, since those ahead can
 * only leave. */
#include <string.h>

#include "store.h"

enum { QUEUES_AT_ONCE = 16, TOMBS_AT_ONCE = 64 };

static void ask_more(hf_op *op, etcd_work *work);

/* ---- Why are they gone? ------------------------------------------------- */

static void lease_asked(hf_op *op, etcd_work *work, grpc_code code,
                        etcd_text reply, const hf_error *why)
{
    etcd_lease lease = {.ttl = -1};

    (void)work;
    if (code != GRPC_NOT_FOUND) {
        if (!etcd_answered(op, code, why))
            return;
        if (!etcd_read_lease(&lease, reply.at, reply.len)) {
            etcd_bad_reply(op);
            return;
        }
    }
    for (size_t i = 0; lease.ttl < 0 && i < op->place_count; i++) {
        hf_place *place = op->places[i];

        if (place->verdict == HF_GONE && place->reason == HF_ENOTHELD)
            place->reason = HF_EEXPIRED;
    }
    etcd_done(op);
}

static bool is_unexplained(const hf_place *place)
{
    return place->verdict == HF_GONE && place->reason == 0;
}

static void tombs_landed(hf_op *op, etcd_work *work, grpc_code code,
                         etcd_text reply, const hf_error *why)
{
    etcd_txn txn;
    size_t n = 0;

    if (!etcd_answered(op, code, why))
        return;
    if (!etcd_read_txn(&txn, reply.at, reply.len)) {
        etcd_bad_reply(op);
        return;
    }
    for (size_t i = 0; i < op->place_count && n < TOMBS_AT_ONCE; i++) {
        etcd_rows rows;
        etcd_kv gone;

        if (!is_unexplained(op->places[i]))
            continue;
        if (!etcd_next_rows(&txn, &rows) || !etcd_one_row(&rows, &gone)) {
            etcd_bad_reply(op);
            return;
        }
        op->places[i]->reason = etcd_gone_reason(&gone);
        work->again = work->again || gone.created == 0;
        n++;
    }
    ask_more(op, work);
}

static void ask_tombs(hf_op *op, etcd_work *work)
{
    hf__buf *out = etcd_new_request(work);
    size_t n = 0;

    for (size_t i = 0; i < op->place_count && n < TOMBS_AT_ONCE; i++) {
        const hf_place *place = op->places[i];

        if (!is_unexplained(place))
            continue;
        etcd_name_entry(&work->names, work->store, place->key, place->key_len,
                        work->lease, &place->rid);
        etcd_do_get(out, ETCD_THEN, work->names.gone);
        n++;
    }
    etcd_send(op, ETCD_TXN, tombs_landed);
}

/* ---- Whole queues ------------------------------------------------------- */

static bool same_key(const hf_place *a, const hf_place *b)
{
    return etcd_same_text((etcd_text){a->key, a->key_len},
                          (etcd_text){b->key, b->key_len});
}

static bool is_open(const hf_place *place)
{
    return place->verdict == (hf_verdict)0;
}

/* The first open place at or after i whose queue is not asked for by one
 * between `from` and it. */
static size_t next_queue(const hf_op *op, size_t from, size_t i)
{
    for (; i < op->place_count; i++) {
        size_t k = from;

        if (!is_open(op->places[i]))
            continue;
        while (k < i && !(is_open(op->places[k]) &&
                          same_key(op->places[k], op->places[i])))
            k++;
        if (k == i)
            break;
    }
    return i;
}

static void judge_place(etcd_work *work, hf_place *place, int64_t seen)
{
    const etcd_view *view = &work->view;
    size_t me = etcd_view_find(view, work->lease, &place->rid);
    etcd_ahead ahead;

    if (me == view->count) {
        etcd_watch_drop(work->store->watcher, place);
        etcd_is_gone(place, 0);
        return;
    }
    place->own[1] &= ~(ETCD_PLACE_PLAIN | ETCD_PLACE_OWN);
    place->own[1] |=
        view->entries[me].name.has_rid ? ETCD_PLACE_OWN : ETCD_PLACE_PLAIN;
    if (view->entries[me].record.broken)
        etcd_is_gone(place, HF_EFORCED);
    else if (etcd_view_judge(view, me, &ahead) == HF_GRANTED)
        etcd_granted(place, view->entries[me].created);
    else
        etcd_waits(work, place, view->entries[me].created, &ahead, seen);
    if (place->verdict != HF_WAITS)
        etcd_watch_drop(work->store->watcher, place);
}

/* All open places of the queue of places[first]. */
static void judge_queue(hf_op *op, etcd_work *work, size_t first, int64_t seen)
{
    const hf_place *head = op->places[first];

    for (size_t i = first + 1; i < op->place_count; i++) {
        if (is_open(op->places[i]) && same_key(op->places[i], head))
            judge_place(work, op->places[i], seen);
    }
    judge_place(work, op->places[first], seen);
}

static void queues_landed(hf_op *op, etcd_work *work, grpc_code code,
                          etcd_text reply, const hf_error *why)
{
    size_t dir_len, i = 0;
    etcd_rows rows;
    etcd_txn txn;

    if (!etcd_answered(op, code, why))
        return;
    if (!etcd_read_txn(&txn, reply.at, reply.len)) {
        etcd_bad_reply(op);
        return;
    }
    while (etcd_next_rows(&txn, &rows)) {
        etcd_reading read;

        i = next_queue(op, i, i);
        if (i == op->place_count)
            break;
        dir_len = work->store->prefix_len + op->places[i]->key_len + 1;
        read = etcd_read_view(&work->view, &rows, dir_len);
        if (read == ETCD_BAD) {
            etcd_bad_reply(op);
            return;
        }
        if (read == ETCD_NO_MEMORY) {
            etcd_no_memory(op);
            return;
        }
        judge_queue(op, work, i, txn.revision);
    }
    if (txn.at.bad)
        etcd_bad_reply(op);
    else
        ask_more(op, work);
}

static void ask_queues(hf_op *op, etcd_work *work, size_t i)
{
    hf__buf *out = etcd_new_request(work);
    size_t first = i;

    for (size_t n = 0; n < QUEUES_AT_ONCE && i < op->place_count; n++) {
        etcd_range range = {.order = ETCD_OLDEST_FIRST};

        etcd_name_queue(&work->names, work->store, op->places[i]->key,
                        op->places[i]->key_len);
        range.key = work->names.dir;
        range.end = work->names.dir_end;
        etcd_do_range(out, ETCD_THEN, &range);
        i = next_queue(op, first, i + 1);
    }
    etcd_send(op, ETCD_TXN, queues_landed);
}

static void ask_more(hf_op *op, etcd_work *work)
{
    size_t i = next_queue(op, 0, 0);

    if (i < op->place_count) {
        ask_queues(op, work, i);
        return;
    }
    for (i = 0; i < op->place_count; i++) {
        if (is_unexplained(op->places[i])) {
            ask_tombs(op, work);
            return;
        }
    }
    if (work->again) {
        etcd_ask_time(etcd_new_request(work), work->lease, false);
        etcd_send(op, ETCD_TIMETOLIVE, lease_asked);
        return;
    }
    etcd_done(op);
}

/* ---- One exclusive place ------------------------------------------------ */

static void last_landed(hf_op *op, etcd_work *work, grpc_code code,
                        etcd_text reply, const hf_error *why)
{
    hf_place *place = op->places[0];
    size_t dir_len = work->names.dir.len;
    etcd_suffix name;
    etcd_record record;
    etcd_rows rows;
    etcd_txn txn;
    etcd_kv last;

    if (!etcd_answered(op, code, why))
        return;
    if (!etcd_read_txn(&txn, reply.at, reply.len)) {
        etcd_bad_reply(op);
        return;
    }
    if (!txn.done) { /* changed, or gone: by the long way */
        ask_more(op, work);
        return;
    }
    if (!etcd_next_rows(&txn, &rows) || !etcd_one_row(&rows, &last) ||
        (last.created > 0 && last.key.len < dir_len)) {
        etcd_bad_reply(op);
        return;
    }
    if (last.created == 0) {
        etcd_watch_drop(work->store->watcher, place);
        etcd_granted(place, (int64_t)place->num);
        etcd_done(op);
        return;
    }
    if (!etcd_read_suffix(&name, (etcd_text){last.key.at + dir_len,
                                             last.key.len - dir_len})) {
        ask_more(op, work); /* a nested lock's key hides the others */
        return;
    }
    etcd_read_record(&record, last.value);
    etcd_waits(
        work, place, (int64_t)place->num,
        &(etcd_ahead){.hash = etcd_hash((etcd_text){last.key.at + dir_len,
                                                    last.key.len - dir_len}),
                      .look_in = etcd_look_in(&record)},
        txn.revision);
    etcd_done(op);
}

static void ask_last(hf_op *op, etcd_work *work)
{
    const hf_place *place = op->places[0];
    const etcd_names *names = &work->names;
    hf__buf *out = etcd_new_request(work);
    etcd_range range = {.order = ETCD_NEWEST_FIRST,
                        .limit = 1,
                        .max_created = (int64_t)place->num - 1};

    etcd_name_entry(&work->names, work->store, place->key, place->key_len,
                    work->lease, &place->rid);
    range.key = names->dir;
    range.end = names->dir_end;
    etcd_if_equal(out, ETCD_MODIFIED,
                  place->own[1] & ETCD_PLACE_PLAIN ? names->plain : names->own,
                  (int64_t)place->num);
    etcd_do_range(out, ETCD_THEN, &range);
    etcd_send(op, ETCD_TXN, last_landed);
}

/* The bell is noted before the watch is asked: what it tells afterwards is
 * heard. */
static bool is_vouched(hf_store *store, const hf_op *op, hf_place *place)
{
    bool vouched;

    etcd_note_bell(store, place);
    vouched = op->by_clock && etcd_watch_vouches(store->watcher, place);
    place->verdict = vouched ? HF_WAITS : (hf_verdict)0;
    return vouched;
}

void etcd_recheck(hf_store *store, hf_op *op)
{
    etcd_work *work = etcd_begin(store, op);
    size_t asked = 0;
    bool simple;

    if (!work)
        return;
    for (size_t i = 0; i < op->place_count; i++)
        asked += !is_vouched(store, op, op->places[i]);
    if (asked == 0) {
        grpc_look(store->channel); /* is the member still there? */
        etcd_done(op);
        return;
    }
    simple = op->place_count == 1 && op->places[0]->mode == HF_EXCLUSIVE &&
             op->places[0]->num > 1 &&
             (op->places[0]->own[1] & (ETCD_PLACE_PLAIN | ETCD_PLACE_OWN));
    if (simple)
        ask_last(op, work);
    else
        ask_more(op, work);
}
