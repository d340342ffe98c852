/* evict.c - HF_OP_EVICT: an operator takes a lock away.
 *
 * News for the owner is a key with the owner's lease, which its next renewal
 * reads (session.c) and which keeps a repeated join of it out (join.c).
 *
 * `now`: one transaction deletes the entry and puts the news.  The former owner
 * may act until its next renewal; only the token protects.
 *
 * Otherwise the entry is put again, marked, with a lease of its own that is as
 * long as its owner's and a little more and that nobody renews: etcd itself
 * deletes the entry one lease later, whether anybody looks or not, unless the
 * owner has left before.  By then every owner has stopped: a renewal that was
 * sent after the mark was written has brought the news, and one that was sent
 * before it ends, by the owner's own arithmetic, less than its lease after that
 * instant.  The new lease is granted before the mark and so is kept alive once
 * after it: it counts from there.
 *
 * An entry that is marked outlives its owner's lease, and so cannot be deleted
 * together with news that have that lease: then without any.
 *
 * Go's clients have no news to read: of theirs the lease alone is changed.
 * Reply lost: asked again, by the operator; what is marked already is counted
 * and not marked again.  Somebody else's entry is never hit: each transaction
 * names the revision of the one that was seen. */
#include <string.h>

#include "store.h"

enum { LEASE_MORE = 2 }; /* seconds */

typedef struct victim {
    int64_t created, modified;
    etcd_suffix name;
    hf_id rid; /* ours alone */
    bool ours, broken;
    size_t at, len; /* its value, in evicting.values */
} victim;

typedef struct evicting {
    hf__buf victims, values;
    size_t at; /* which of them */
    int64_t lease;
    bool silent; /* without news */
} evicting;

static void next_victim(hf_op *op, etcd_work *work);
static void look(hf_op *op, etcd_work *work);
static void delete_victim(hf_op *op, etcd_work *work, bool silent);

static evicting *evicting_of(etcd_work *work)
{
    return work->more;
}

static void free_evicting(void *more)
{
    evicting *e = more;

    hf__buf_done(&e->victims);
    hf__buf_done(&e->values);
    hfd_free(e);
}

static victim current(etcd_work *work)
{
    evicting *e = evicting_of(work);
    victim v;

    memcpy(&v, e->victims.data + e->victims.start + e->at * sizeof v, sizeof v);
    return v;
}

static etcd_text name_victim(hf_op *op, etcd_work *work, const victim *v)
{
    etcd_name_entry(&work->names, work->store, op->text, op->text_len,
                    v->name.lease, v->name.has_rid ? &v->name.rid : &v->rid);
    return v->name.has_rid ? work->names.own : work->names.plain;
}

static void put_news(hf__buf *out, const etcd_work *work, const victim *v)
{
    etcd_put news = {.key = work->names.gone,
                     .value = {ETCD_BROKEN, sizeof ETCD_BROKEN - 1},
                     .lease = v->name.lease};

    if (v->ours)
        etcd_do_put(out, ETCD_THEN, &news);
}

/* ---- At once ------------------------------------------------------------ */

static void deleted(hf_op *op, etcd_work *work, grpc_code code, etcd_text reply,
                    const hf_error *why)
{
    etcd_txn txn;

    /* Its session has ended: there is nobody to hear news.  It goes with its
     * session, or was marked and has a lease of its own. */
    if (code == GRPC_NOT_FOUND && !evicting_of(work)->silent) {
        delete_victim(op, work, true);
        return;
    }
    if (!etcd_answered(op, code, why))
        return;
    if (!etcd_read_txn(&txn, reply.at, reply.len)) {
        etcd_bad_reply(op);
        return;
    }
    op->count += txn.done;
    evicting_of(work)->at++;
    next_victim(op, work);
}

static void delete_victim(hf_op *op, etcd_work *work, bool silent)
{
    victim v = current(work);
    etcd_text key = name_victim(op, work, &v);
    hf__buf *out = etcd_new_request(work);

    etcd_if_equal(out, ETCD_CREATED, key, v.created);
    etcd_do_delete(out, ETCD_THEN, key);
    if (!silent)
        put_news(out, work, &v);
    evicting_of(work)->silent = silent;
    etcd_send(op, ETCD_TXN, deleted);
}

/* ---- One lease later ---------------------------------------------------- */

static void lengthened(hf_op *op, etcd_work *work, grpc_code code,
                       etcd_text reply, const hf_error *why)
{
    (void)reply;
    if (!etcd_answered(op, code, why))
        return;
    op->count++;
    evicting_of(work)->at++;
    next_victim(op, work);
}

static void marked(hf_op *op, etcd_work *work, grpc_code code, etcd_text reply,
                   const hf_error *why)
{
    etcd_txn txn;

    if (code == GRPC_NOT_FOUND) {
        evicting_of(work)->at++;
        next_victim(op, work);
        return;
    }
    if (!etcd_answered(op, code, why))
        return;
    if (!etcd_read_txn(&txn, reply.at, reply.len)) {
        etcd_bad_reply(op);
    } else if (!txn.done) {
        look(op, work); /* it has left, or has published: from the beginning */
    } else {
        etcd_ask_lease(etcd_new_request(work), evicting_of(work)->lease);
        etcd_send(op, ETCD_KEEPALIVE, lengthened);
    }
}

static void lease_granted(hf_op *op, etcd_work *work, grpc_code code,
                          etcd_text reply, const hf_error *why)
{
    evicting *e = evicting_of(work);
    victim v = current(work);
    etcd_text key = name_victim(op, work, &v);
    etcd_put put = {.key = key, .keep_value = !v.ours, .lease = e->lease};
    etcd_record record;
    hf__buf *out;

    (void)reply;
    if (!etcd_answered(op, code, why))
        return;
    out = etcd_new_request(work);
    if (v.ours) {
        etcd_read_record(
            &record,
            (etcd_text){e->values.data + e->values.start + v.at, v.len});
        record.broken = true;
        work->value.start = work->value.end = 0;
        etcd_put_record(&work->value, &record);
        put.value = (etcd_text){work->value.data, hf__buf_len(&work->value)};
    }
    etcd_if_equal(out, ETCD_MODIFIED, key, v.modified);
    etcd_do_put(out, ETCD_THEN, &put);
    put_news(out, work, &v);
    etcd_send(op, ETCD_TXN, marked);
}

static void time_told(hf_op *op, etcd_work *work, grpc_code code,
                      etcd_text reply, const hf_error *why)
{
    evicting *e = evicting_of(work);
    etcd_lease lease = {.ttl = -1};

    if (code != GRPC_NOT_FOUND) {
        if (!etcd_answered(op, code, why))
            return;
        if (!etcd_read_lease(&lease, reply.at, reply.len)) {
            etcd_bad_reply(op);
            return;
        }
    }
    if (lease.ttl < 0) { /* its session has just ended */
        e->at++;
        next_victim(op, work);
        return;
    }
    hfd_random(&e->lease, sizeof e->lease);
    e->lease = (e->lease & INT64_MAX) | 1;
    etcd_ask_grant(etcd_new_request(work), e->lease,
                   lease.granted + LEASE_MORE);
    etcd_send(op, ETCD_GRANT, lease_granted);
}

static void mark_victim(hf_op *op, etcd_work *work)
{
    victim v = current(work);

    if (v.broken) { /* by an earlier request */
        op->count++;
        evicting_of(work)->at++;
        next_victim(op, work);
        return;
    }
    etcd_ask_time(etcd_new_request(work), v.name.lease, false);
    etcd_send(op, ETCD_TIMETOLIVE, time_told);
}

/* ---- Who ---------------------------------------------------------------- */

static void next_victim(hf_op *op, etcd_work *work)
{
    evicting *e = evicting_of(work);

    if (e->at * sizeof(victim) >= hf__buf_len(&e->victims))
        etcd_done(op);
    else if (op->now)
        delete_victim(op, work, false);
    else
        mark_victim(op, work);
}

static void keep_victim(evicting *e, const etcd_entry *entry)
{
    const etcd_record *record = &entry->record;
    victim v = {.created = entry->created,
                .modified = entry->modified,
                .name = entry->name,
                .rid = record->rid,
                .ours = record->ours,
                .broken = record->broken,
                .at = hf__buf_len(&e->values)};

    if (record->ours) {
        etcd_put_record(&e->values, record);
        v.len = hf__buf_len(&e->values) - v.at;
    }
    hf__buf_add(&e->victims, &v, sizeof v);
}

static void look_landed(hf_op *op, etcd_work *work, grpc_code code,
                        etcd_text reply, const hf_error *why)
{
    evicting *e = evicting_of(work);
    const etcd_view *view = &work->view;
    etcd_page page;

    if (!etcd_answered(op, code, why))
        return;
    if (!etcd_read_page(&page, reply.at, reply.len)) {
        etcd_bad_reply(op);
        return;
    }
    switch (etcd_read_view(&work->view, &page.rows, work->names.dir.len)) {
    case ETCD_BAD:
        etcd_bad_reply(op);
        return;
    case ETCD_NO_MEMORY:
        etcd_no_memory(op);
        return;
    default:
        break;
    }
    for (size_t i = 0; i < view->count; i++) {
        etcd_ahead ahead;

        if (etcd_view_judge(view, i, &ahead) == HF_GRANTED &&
            (op->token == 0 || op->token == (uint64_t)view->entries[i].created))
            keep_victim(e, &view->entries[i]);
    }
    if (e->victims.failed || e->values.failed)
        etcd_no_memory(op);
    else
        next_victim(op, work);
}

static void look(hf_op *op, etcd_work *work)
{
    evicting *e = evicting_of(work);
    etcd_range range = {.order = ETCD_OLDEST_FIRST};

    op->count = 0;
    e->at = 0;
    hf__buf_eat(&e->victims, hf__buf_len(&e->victims));
    hf__buf_eat(&e->values, hf__buf_len(&e->values));
    etcd_name_queue(&work->names, work->store, op->text, op->text_len);
    range.key = work->names.dir;
    range.end = work->names.dir_end;
    etcd_ask_range(etcd_new_request(work), &range);
    etcd_send(op, ETCD_RANGE, look_landed);
}

void etcd_evict(hf_store *store, hf_op *op)
{
    etcd_work *work = etcd_begin(store, op);

    if (!work)
        return;
    work->more = hfd_alloc(sizeof(evicting));
    if (!work->more) {
        etcd_no_memory(op);
        return;
    }
    work->free_more = free_evicting;
    look(op, work);
}
