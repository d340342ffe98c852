/* try.c - a join that never queues: granted at once, or nothing is left.
 *
 *     if  nothing at all is below K/ (and there is no tomb of this entry)
 *     then put the key
 *     else read all of it
 *
 * What is below K/ may still let it in: other readers, free places, keys of
 * nested locks.  Then a second transaction puts the key if nothing was created
 * there since that reading; those that were there can only have left.  So
 * nobody who waits is overtaken, and nobody ever sees the entry of a try that
 * was not granted.
 *
 * Reply lost: asked again; an entry with this rid is found in the reading.  The
 * late bytes of an old attempt find that entry, somebody else's, or the tomb.
 * Two of us here: the second finds what the first has put. */
#include "store.h"

static void try_landed(hf_op *op, etcd_work *work, grpc_code code,
                       etcd_text reply, const hf_error *why);

/* since: nothing may have been created after that revision; 0: at all. */
static void send_try(hf_op *op, etcd_work *work, int64_t since)
{
    const etcd_names *names = &work->names;
    bool plain = op->place->mode == HF_EXCLUSIVE && etcd_claim_join(work);
    hf__buf *out = etcd_new_request(work);
    etcd_put put = {.key = plain ? names->plain : names->own,
                    .value = {work->value.data, hf__buf_len(&work->value)},
                    .lease = work->lease};
    etcd_range range = {
        .key = names->dir, .end = names->dir_end, .order = ETCD_OLDEST_FIRST};

    work->plain = plain;
    etcd_if_none_after(out, names->dir, names->dir_end, since);
    etcd_if_equal(out, ETCD_CREATED, names->gone, 0);
    etcd_do_put(out, ETCD_THEN, &put);
    etcd_do_range(out, ETCD_ELSE, &range);
    etcd_do_get(out, ETCD_ELSE, names->gone);
    etcd_send(op, ETCD_TXN, try_landed);
}

static void refuse_busy(hf_op *op, const etcd_ahead *ahead)
{
    op->place->look_in = ahead->look_in;
    etcd_refuse(op, HF_EBUSY, "held by another");
}

static void left_again(hf_op *op, etcd_work *work, grpc_code code,
                       etcd_text reply, const hf_error *why)
{
    (void)work;
    (void)reply;
    if (etcd_answered(op, code, why))
        etcd_refuse(op, HF_EBUSY, "held by another");
}

/* An earlier attempt has put it.  One that waits was joined to wait, which a
 * try does not: it leaves. */
static void judge_mine(hf_op *op, etcd_work *work, size_t me)
{
    const etcd_entry *mine = &work->view.entries[me];
    etcd_text key = mine->name.has_rid ? work->names.own : work->names.plain;
    etcd_ahead ahead;
    hf__buf *out;

    op->place->own[1] &= ~(ETCD_PLACE_PLAIN | ETCD_PLACE_OWN);
    op->place->own[1] |= mine->name.has_rid ? ETCD_PLACE_OWN : ETCD_PLACE_PLAIN;
    if (mine->record.broken) {
        etcd_is_gone(op->place, HF_EFORCED);
        etcd_done(op);
    } else if (etcd_view_judge(&work->view, me, &ahead) == HF_GRANTED) {
        etcd_granted(op->place, mine->created);
        etcd_done(op);
    } else {
        op->place->look_in = ahead.look_in;
        out = etcd_new_request(work);
        etcd_if_equal(out, ETCD_MODIFIED, key, mine->modified);
        etcd_do_delete(out, ETCD_THEN, key);
        etcd_send(op, ETCD_TXN, left_again);
    }
}

/* Would it be granted as the last of this queue? */
static void judge_newcomer(hf_op *op, etcd_work *work, int64_t seen)
{
    const hf_place *place = op->place;
    etcd_view *view = &work->view;
    size_t me = view->count;
    hf_verdict verdict;
    etcd_ahead ahead;

    if (etcd_view_other_kind(view, me, (hf_mode)place->mode, place->places)) {
        etcd_refuse(op, HF_EKIND,
                    "the key is in use as another kind of lock, or with "
                    "another number of places");
        return;
    }
    if (!etcd_view_add(view, place)) {
        etcd_no_memory(op);
        return;
    }
    verdict = etcd_view_judge(view, me, &ahead);
    if (verdict == HF_GRANTED)
        send_try(op, work, seen);
    else
        refuse_busy(op, &ahead);
}

static void not_free(hf_op *op, etcd_work *work, etcd_txn *txn)
{
    etcd_rows rows, gone_rows;
    etcd_kv gone;
    etcd_reading read;
    size_t me;

    if (!etcd_next_rows(txn, &rows) || !etcd_next_rows(txn, &gone_rows) ||
        !etcd_one_row(&gone_rows, &gone)) {
        etcd_bad_reply(op);
        return;
    }
    read = etcd_read_view(&work->view, &rows, work->names.dir.len);
    if (read != ETCD_READ) {
        if (read == ETCD_BAD)
            etcd_bad_reply(op);
        else
            etcd_no_memory(op);
        return;
    }
    me = etcd_view_find(&work->view, work->lease, &op->place->rid);
    if (me < work->view.count) {
        judge_mine(op, work, me);
    } else if (gone.created > 0) {
        etcd_is_gone(op->place, etcd_gone_reason(&gone));
        etcd_done(op);
    } else {
        judge_newcomer(op, work, txn->revision);
    }
}

static void try_landed(hf_op *op, etcd_work *work, grpc_code code,
                       etcd_text reply, const hf_error *why)
{
    etcd_txn txn;

    if (!etcd_answered(op, code, why))
        return;
    if (!etcd_read_txn(&txn, reply.at, reply.len)) {
        etcd_bad_reply(op);
    } else if (txn.done) {
        op->place->own[1] &= ~(ETCD_PLACE_PLAIN | ETCD_PLACE_OWN);
        op->place->own[1] |= work->plain ? ETCD_PLACE_PLAIN : ETCD_PLACE_OWN;
        if (work->plain)
            etcd_claim_put(work, txn.revision);
        etcd_granted(op->place, txn.revision);
        etcd_done(op);
    } else {
        not_free(op, work, &txn);
    }
}

void etcd_try(hf_store *store, hf_op *op)
{
    etcd_work *work = etcd_begin(store, op);

    if (!work)
        return;
    etcd_name_entry(&work->names, store, op->place->key, op->place->key_len,
                    work->lease, &op->place->rid);
    etcd_make_value(op, work);
    send_try(op, work, 0);
}
