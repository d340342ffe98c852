/* session.c - attach, renew, detach: one lease for a process, and its news.
 *
 * A session is a lease of etcd whose number is made from the session's id; all
 * its entries hang on it and go with it, in one step of the cluster, when it
 * ends.  Leases are whole seconds, and the cluster may give more than was asked
 * for: what it says counts.
 *
 * The time of a lease is counted by the cluster from when it handled the
 * request, by the core from when it was sent, so ours ends earlier.  A renewal
 * is one keepalive, a call of its own: its answer cannot be taken for that of
 * another attempt, and it has a deadline.  An answer of 0 seconds means that
 * the lease is gone.  It is followed by a read of the session's news (who was
 * broken, evict.c), which is executed after the keepalive was sent: what it
 * does not show was written later than that instant, so an owner that has not
 * heard of a break has a deadline before the end of the lease that the break
 * gave it.  Without that read the renewal does not count.
 *
 * A keepalive is answered by the leader alone, and by one that was replaced and
 * has not noticed (servers before 3.4.31 and 3.5.13).  The read needs a
 * majority: both answers must name the same term, then the leader of the
 * keepalive was still the leader after it.
 *
 * Reply lost: a grant that is repeated finds the lease there already, and asks
 * what is left of it; a keepalive that arrives late extends only what lives; a
 * revoke that is repeated finds nothing. */
#include <string.h>

#include "store.h"

enum { LEASE_MIN = 2 }; /* seconds */

static int64_t seconds_of(hf_nsec ttl)
{
    int64_t seconds = (ttl + HF_MS(1000) - 1) / HF_MS(1000);

    return seconds < LEASE_MIN ? LEASE_MIN : seconds;
}

/* ---- Attach ------------------------------------------------------------- */

static void keep_session(hf_store *store, const hf_op *op, int64_t ttl)
{
    pthread_mutex_lock(&store->mu);
    store->sid = op->sid;
    store->ttl = ttl;
    etcd_make_who(store->who, sizeof store->who, store->host_name,
                  op->text ? op->text : "", op->text_len);
    pthread_mutex_unlock(&store->mu);
}

static void attach_asked(hf_op *op, etcd_work *work, grpc_code code,
                         etcd_text reply, const hf_error *why)
{
    etcd_lease lease;

    if (!etcd_answered(op, code, why))
        return;
    if (!etcd_read_lease(&lease, reply.at, reply.len)) {
        etcd_bad_reply(op);
    } else if (lease.ttl < 1) {
        etcd_refuse(op, HF_EEXPIRED, "this session is over");
    } else {
        keep_session(work->store, op, lease.granted);
        op->remaining = HF_MS(lease.ttl * 1000);
        etcd_done(op);
    }
}

static void attach_landed(hf_op *op, etcd_work *work, grpc_code code,
                          etcd_text reply, const hf_error *why)
{
    etcd_lease lease;

    if (code == GRPC_FAILED_PRECONDITION) {
        /* It is there: an earlier attempt of ours was answered to nobody. */
        etcd_ask_time(etcd_new_request(work), work->lease, false);
        etcd_send(op, ETCD_TIMETOLIVE, attach_asked);
        return;
    }
    if (!etcd_answered(op, code, why))
        return;
    if (!etcd_read_lease(&lease, reply.at, reply.len) ||
        lease.id != work->lease || lease.ttl < 1) {
        etcd_bad_reply(op);
        return;
    }
    keep_session(work->store, op, lease.ttl);
    op->remaining = HF_MS(lease.ttl * 1000);
    etcd_done(op);
}

void etcd_attach(hf_store *store, hf_op *op)
{
    etcd_work *work = etcd_begin(store, op);

    if (!work)
        return;
    /* Whoever waited in an earlier session waits no more. */
    etcd_watch_drop_all(store->watcher);
    etcd_ask_grant(etcd_new_request(work), work->lease, seconds_of(op->ttl));
    etcd_send(op, ETCD_GRANT, attach_landed);
}

/* ---- Renew -------------------------------------------------------------- */

static void news_landed(hf_op *op, etcd_work *work, grpc_code code,
                        etcd_text reply, const hf_error *why)
{
    hf_store *store = work->store;
    etcd_page page;
    etcd_kv kv;

    if (!etcd_answered(op, code, why))
        return;
    if (!etcd_read_page(&page, reply.at, reply.len)) {
        etcd_bad_reply(op);
        return;
    }
    while (etcd_next_row(&page.rows, &kv)) {
        hf_id rid;

        if (etcd_gone_reason(&kv) == HF_EFORCED && etcd_read_gone(&rid, kv.key))
            store->host.news(store->host.ctx, &rid, HF_EFORCED);
    }
    if (page.rows.at.bad)
        etcd_bad_reply(op);
    else if (page.term != (uint64_t)work->created)
        etcd_unsure(op, "the leader changed while the lease was renewed");
    else
        etcd_done(op);
}

static void renew_landed(hf_op *op, etcd_work *work, grpc_code code,
                         etcd_text reply, const hf_error *why)
{
    char names[2 * (ETCD_PREFIX_MAX + 40)];
    etcd_range range = {.order = ETCD_ANY};
    etcd_lease lease;

    if (!etcd_answered(op, code, why))
        return;
    if (!etcd_read_lease(&lease, reply.at, reply.len) ||
        lease.id != work->lease) {
        etcd_bad_reply(op);
        return;
    }
    if (lease.ttl < 1) {
        etcd_refuse(op, HF_EEXPIRED, "the session's lease ran out");
        return;
    }
    op->remaining = HF_MS(lease.ttl * 1000);
    work->created = (int64_t)lease.term;
    etcd_name_gone(names, work->store, work->lease, &range.key, &range.end);
    etcd_ask_range(etcd_new_request(work), &range);
    etcd_send(op, ETCD_RANGE, news_landed);
}

void etcd_renew(hf_store *store, hf_op *op)
{
    etcd_work *work = etcd_begin(store, op);

    if (!work)
        return;
    etcd_ask_lease(etcd_new_request(work), work->lease);
    etcd_send(op, ETCD_KEEPALIVE, renew_landed);
}

/* ---- Detach ------------------------------------------------------------- */

static void detach_landed(hf_op *op, etcd_work *work, grpc_code code,
                          etcd_text reply, const hf_error *why)
{
    (void)work;
    (void)reply;
    if (code == GRPC_NOT_FOUND || etcd_answered(op, code, why))
        etcd_done(op);
}

void etcd_detach(hf_store *store, hf_op *op)
{
    etcd_work *work = etcd_begin(store, op);

    if (!work)
        return;
    etcd_watch_drop_all(store->watcher);
    etcd_ask_lease(etcd_new_request(work), work->lease);
    etcd_send(op, ETCD_REVOKE, detach_landed);
}

/* ---- What an entry says of its session ---------------------------------- */

void etcd_make_value(hf_op *op, etcd_work *work)
{
    hf_store *store = work->store;
    char who[ETCD_WHO_MAX];
    etcd_record record = {.ours = true,
                          .mode = op->place->mode,
                          .places = op->place->places,
                          .rid = op->place->rid,
                          .sid = op->sid,
                          .pid = store->pid,
                          .since_us = hfd_realtime_us(),
                          .value = {op->value, op->value_len}};

    pthread_mutex_lock(&store->mu);
    record.ttl = store->ttl;
    memcpy(who, store->who, sizeof who);
    pthread_mutex_unlock(&store->mu);
    record.who = (etcd_text){who, strnlen(who, sizeof who)};
    work->value.start = work->value.end = 0;
    etcd_put_record(&work->value, &record);
}
