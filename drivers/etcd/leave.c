/* leave.c - HF_OP_LEAVE: out of the queue, in one transaction.
 *
 *     if  the key is as it was put (its revision is the entry's number)
 *     then delete it
 *
 * and if it is not, both keys and the tomb are read in a second one.  Whoever
 * was granted deletes it without a condition where nothing else can have that
 * name (plain.c): it costs the server half, and the answer says how many keys
 * there were, one or none.
 * The deletion is what the next one waits for: its watch tells it.  An entry
 * that was changed since (published, broken) is deleted in a second one, which
 * names the revision that was seen.  Whoever was granted has a token, so only
 * the leave of one that waited has to look what it was.
 *
 * Reply lost: asked again; it is gone, and nothing says why, so that was our
 * own leave.  A leave repeated after another entry got the same key does not
 * touch it: revisions are never used twice.
 *
 * `tomb`: an attempt of the join is unanswered, and a reset of its stream does
 * not promise that the member did not, or will not, execute it.  So a tomb is
 * put first, a key that every join of this rid demands not to be there, with
 * the session's lease: it stays as long as an entry of the rid could live, and
 * the bytes of the join find the tomb or no lease.  What the join may have put
 * before is read in the same step, and deleted. */
#include "store.h"

static void send_find(hf_op *op, etcd_work *work);

static void say_gone(hf_op *op, int reason)
{
    etcd_is_gone(op->place, reason);
    etcd_done(op);
}

/* ---- Why is it gone? ---------------------------------------------------- */

static void lease_asked(hf_op *op, etcd_work *work, grpc_code code,
                        etcd_text reply, const hf_error *why)
{
    etcd_lease lease;

    (void)work;
    if (code == GRPC_NOT_FOUND)
        say_gone(op, HF_EEXPIRED);
    else if (!etcd_answered(op, code, why))
        return;
    else if (!etcd_read_lease(&lease, reply.at, reply.len))
        etcd_bad_reply(op);
    else
        say_gone(op, lease.ttl < 0 ? HF_EEXPIRED : HF_ENOTHELD);
}

static void ask_why(hf_op *op, etcd_work *work, const etcd_kv *gone)
{
    if (gone->created > 0) {
        say_gone(op, etcd_gone_reason(gone));
        return;
    }
    etcd_ask_time(etcd_new_request(work), work->lease, false);
    etcd_send(op, ETCD_TIMETOLIVE, lease_asked);
}

/* ---- The deletion ------------------------------------------------------- */

/* What it was, by the queue up to it at that instant. */
static void judge_left(hf_op *op, etcd_work *work, etcd_txn *txn)
{
    etcd_reading read;
    etcd_ahead ahead;
    etcd_rows rows;
    size_t me;

    if (!etcd_next_rows(txn, &rows)) {
        etcd_bad_reply(op);
        return;
    }
    read = etcd_read_view(&work->view, &rows, work->names.dir.len);
    if (read == ETCD_NO_MEMORY) {
        etcd_no_memory(op);
        return;
    }
    me = etcd_view_find(&work->view, work->lease, &op->place->rid);
    if (read == ETCD_BAD || me == work->view.count) {
        etcd_bad_reply(op);
        return;
    }
    op->place->verdict = etcd_view_judge(&work->view, me, &ahead);
    op->place->reason = 0;
    etcd_done(op);
}

static void erase_landed(hf_op *op, etcd_work *work, grpc_code code,
                         etcd_text reply, const hf_error *why)
{
    int64_t deleted;

    if (!etcd_answered(op, code, why))
        return;
    if (!etcd_read_deleted(&deleted, reply.at, reply.len)) {
        etcd_bad_reply(op);
    } else if (deleted == 0) {
        send_find(op, work);
    } else {
        op->place->verdict = HF_GRANTED;
        op->place->reason = 0;
        etcd_done(op);
    }
}

static void delete_landed(hf_op *op, etcd_work *work, grpc_code code,
                          etcd_text reply, const hf_error *why)
{
    etcd_txn txn;

    if (!etcd_answered(op, code, why))
        return;
    if (!etcd_read_txn(&txn, reply.at, reply.len)) {
        etcd_bad_reply(op);
    } else if (!txn.done) {
        send_find(op, work);
    } else if (op->place->token == 0) {
        judge_left(op, work, &txn);
    } else {
        op->place->verdict = HF_GRANTED;
        op->place->reason = 0;
        etcd_done(op);
    }
}

static void send_delete(hf_op *op, etcd_work *work, uint64_t form,
                        int64_t created, int64_t modified)
{
    const etcd_names *names = &work->names;
    etcd_text key = form == ETCD_PLACE_PLAIN ? names->plain : names->own;
    etcd_range range = {.key = names->dir,
                        .end = names->dir_end,
                        .order = ETCD_OLDEST_FIRST,
                        .max_created = created};
    hf__buf *out = etcd_new_request(work);

    if (op->place->token != 0 &&
        (form == ETCD_PLACE_OWN || etcd_claim_leave(work, created))) {
        etcd_ask_delete(out, key);
        etcd_send(op, ETCD_DELETE, erase_landed);
        return;
    }
    etcd_if_equal(out, ETCD_MODIFIED, key, modified);
    if (op->place->token == 0)
        etcd_do_range(out, ETCD_THEN, &range);
    etcd_do_delete(out, ETCD_THEN, key);
    etcd_send(op, ETCD_TXN, delete_landed);
}

static void find_landed(hf_op *op, etcd_work *work, grpc_code code,
                        etcd_text reply, const hf_error *why)
{
    etcd_found found;
    etcd_txn txn;

    if (code == GRPC_NOT_FOUND) {
        say_gone(op, HF_EEXPIRED); /* no lease for a tomb, nor for an entry */
        return;
    }
    if (!etcd_answered(op, code, why))
        return;
    if (!etcd_read_txn(&txn, reply.at, reply.len) ||
        !etcd_read_found(&found, &txn, &op->place->rid))
        etcd_bad_reply(op);
    else if (found.mine.created > 0)
        send_delete(op, work, found.form, found.mine.created,
                    found.mine.modified);
    else
        ask_why(op, work, &found.gone);
}

/* ---- Beginning ---------------------------------------------------------- */

/* Its number or its name is not known, or an attempt is still on its way. */
static void send_find(hf_op *op, etcd_work *work)
{
    const etcd_names *names = &work->names;
    hf__buf *out = etcd_new_request(work);
    etcd_put tomb = {.key = names->gone,
                     .value = {ETCD_TOMB, sizeof ETCD_TOMB - 1},
                     .lease = work->lease};

    /* News of a break stay: they are a tomb, too. */
    etcd_if_equal(out, ETCD_CREATED, names->gone, 0);
    etcd_do_find(out, ETCD_THEN, names);
    if (op->tomb)
        etcd_do_put(out, ETCD_THEN, &tomb);
    etcd_do_find(out, ETCD_ELSE, names);
    etcd_send(op, ETCD_TXN, find_landed);
}

void etcd_leave(hf_store *store, hf_op *op)
{
    uint64_t form = op->place->own[1] & (ETCD_PLACE_PLAIN | ETCD_PLACE_OWN);
    etcd_work *work = etcd_begin(store, op);

    if (!work)
        return;
    if (op->place->token == 0) /* else it has ceased to wait before */
        etcd_watch_drop(store->watcher, op->place);
    if (op->keep > 0 && op->place->token) {
        etcd_refuse(op, HF_ENOTSUP,
                    "etcd keeps no lock after its release (at_least_ms)");
        return;
    }
    etcd_name_entry(&work->names, store, op->place->key, op->place->key_len,
                    work->lease, &op->place->rid);
    if (op->tomb || !form || op->place->num == 0)
        send_find(op, work);
    else
        send_delete(op, work, form, (int64_t)op->place->num,
                    (int64_t)op->place->num);
}
