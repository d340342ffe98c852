/* join.c - HF_OP_JOIN: a place at the tail, in one transaction.
 *
 *     if  neither key of this entry is there, nor its tomb
 *     then read who is before it, put the key with the session's lease
 *
 * and if one of them is there, all three are read in a second one: it is rare,
 * and what a transaction would do otherwise costs every one of them.
 *
 * The revision of that transaction is the entry's create revision: its place,
 * and its token.  An exclusive entry needs to see only the last before it: if
 * there is none it is granted, else it waits for that one.  Shared ones and
 * permits see the whole queue.
 *
 * Reply lost: the core asks again; an entry with this rid is found, and judged
 * by a look.  The late bytes of an old attempt do nothing: they find the entry
 * or, after a leave that followed an unanswered attempt, its tomb (leave.c).
 * K/<lease> may be another entry of this session, whose rid is in its value:
 * then this one has a key of its own, put only if that other one still stands,
 * so that of two attempts at most one leaves an entry, by either name.
 * Two of us here: etcd orders the transactions.  Paused here: the verdict is
 * old, and those ahead can only have left; the lease is the core's to judge.
 * A queue of another kind is seen after the put: the entry leaves again before
 * it is answered, and if that is not answered it is asked again. */
#include "store.h"

static void send_join(hf_op *op, etcd_work *work);

static bool is_exclusive(const hf_op *op)
{
    return op->place->mode == HF_EXCLUSIVE;
}

/* ---- Another kind ------------------------------------------------------- */

static void kind_left(hf_op *op, etcd_work *work, grpc_code code,
                      etcd_text reply, const hf_error *why)
{
    (void)work;
    (void)reply;
    if (etcd_answered(op, code, why))
        etcd_refuse(op, HF_EKIND,
                    "the key is in use as another kind of lock, or with "
                    "another number of places");
}

static void leave_other_kind(hf_op *op, etcd_work *work, etcd_text key,
                             int64_t modified)
{
    hf__buf *out = etcd_new_request(work);

    etcd_if_equal(out, ETCD_MODIFIED, key, modified);
    etcd_do_delete(out, ETCD_THEN, key);
    etcd_send(op, ETCD_TXN, kind_left);
}

/* ---- A look at the whole queue ------------------------------------------ */

/* The verdict about the entry at `me`, of a view of revision `seen`. */
static void judge(hf_op *op, etcd_work *work, size_t me, int64_t seen)
{
    const etcd_view *view = &work->view;
    const etcd_entry *mine = &view->entries[me];
    hf_place *place = op->place;
    etcd_ahead ahead;

    place->own[1] &= ~(ETCD_PLACE_PLAIN | ETCD_PLACE_OWN);
    place->own[1] |= mine->name.has_rid ? ETCD_PLACE_OWN : ETCD_PLACE_PLAIN;
    if (mine->record.broken) {
        etcd_is_gone(place, HF_EFORCED);
        etcd_done(op);
        return;
    }
    if (etcd_view_other_kind(view, me, (hf_mode)place->mode, place->places)) {
        leave_other_kind(
            op, work, mine->name.has_rid ? work->names.own : work->names.plain,
            mine->modified);
        return;
    }
    if (etcd_view_judge(view, me, &ahead) == HF_GRANTED)
        etcd_granted(place, mine->created);
    else
        etcd_waits(work, place, mine->created, &ahead, seen);
    etcd_done(op);
}

static void view_landed(hf_op *op, etcd_work *work, etcd_rows *rows,
                        int64_t seen)
{
    etcd_reading read = etcd_read_view(&work->view, rows, work->names.dir.len);
    size_t me;

    if (read != ETCD_READ) {
        if (read == ETCD_BAD)
            etcd_bad_reply(op);
        else
            etcd_no_memory(op);
        return;
    }
    me = etcd_view_find(&work->view, work->lease, &op->place->rid);
    if (me < work->view.count)
        judge(op, work, me, seen);
    else
        send_join(op,
                  work); /* it went meanwhile: with its session, or broken */
}

static void look_landed(hf_op *op, etcd_work *work, grpc_code code,
                        etcd_text reply, const hf_error *why)
{
    etcd_page page;

    if (!etcd_answered(op, code, why))
        return;
    if (!etcd_read_page(&page, reply.at, reply.len))
        etcd_bad_reply(op);
    else
        view_landed(op, work, &page.rows, page.revision);
}

static void look(hf_op *op, etcd_work *work)
{
    etcd_range range = {.key = work->names.dir,
                        .end = work->names.dir_end,
                        .order = ETCD_OLDEST_FIRST};

    etcd_ask_range(etcd_new_request(work), &range);
    etcd_send(op, ETCD_RANGE, look_landed);
}

/* ---- The answer --------------------------------------------------------- */

/* The last before me, if there is one; I was put by this transaction. */
static void exclusive_joined(hf_op *op, etcd_work *work, etcd_txn *txn)
{
    size_t dir_len = work->names.dir.len;
    int64_t mine = txn->revision;
    etcd_suffix name;
    etcd_record record;
    etcd_rows rows;
    etcd_kv last;

    if (!etcd_next_rows(txn, &rows) || !etcd_one_row(&rows, &last) ||
        last.created >= mine || (last.created > 0 && last.key.len < dir_len)) {
        etcd_bad_reply(op);
    } else if (last.created == 0) {
        etcd_granted(op->place, mine);
        etcd_done(op);
    } else {
        etcd_text suffix = {last.key.at + dir_len, last.key.len - dir_len};

        etcd_read_record(&record, last.value);
        if (!etcd_read_suffix(&name, suffix) || record.mode == HF_PERMIT) {
            look(op, work); /* another lock's, or another kind: all of it */
        } else {
            etcd_ahead ahead = {.hash = etcd_hash(suffix),
                                .look_in = etcd_look_in(&record)};

            etcd_waits(work, op->place, mine, &ahead, txn->revision);
            etcd_done(op);
        }
    }
}

static void joined(hf_op *op, etcd_work *work, etcd_txn *txn)
{
    etcd_rows rows;

    op->place->own[1] &= ~(ETCD_PLACE_PLAIN | ETCD_PLACE_OWN);
    op->place->own[1] |= work->plain ? ETCD_PLACE_PLAIN : ETCD_PLACE_OWN;
    if (work->plain)
        etcd_claim_put(work, txn->revision);
    if (is_exclusive(op))
        exclusive_joined(op, work, txn);
    else if (!etcd_next_rows(txn, &rows))
        etcd_bad_reply(op);
    else
        view_landed(op, work, &rows, txn->revision);
}

/* It was there already, or its tomb is, or its name is another's. */
static void found_landed(hf_op *op, etcd_work *work, grpc_code code,
                         etcd_text reply, const hf_error *why)
{
    etcd_found found;
    etcd_txn txn;

    if (!etcd_answered(op, code, why))
        return;
    if (!etcd_read_txn(&txn, reply.at, reply.len) ||
        !etcd_read_found(&found, &txn, &op->place->rid)) {
        etcd_bad_reply(op);
    } else if (found.mine.created > 0) {
        look(op, work);
    } else if (found.gone.created > 0) {
        etcd_is_gone(op->place, etcd_gone_reason(&found.gone));
        etcd_done(op);
    } else {
        work->created = found.plain.created; /* 0: it has just gone */
        send_join(op, work);
    }
}

static void send_find(hf_op *op, etcd_work *work)
{
    etcd_do_find(etcd_new_request(work), ETCD_THEN, &work->names);
    etcd_send(op, ETCD_TXN, found_landed);
}

static void join_landed(hf_op *op, etcd_work *work, grpc_code code,
                        etcd_text reply, const hf_error *why)
{
    etcd_txn txn;

    if (!etcd_answered(op, code, why))
        return;
    if (!etcd_read_txn(&txn, reply.at, reply.len))
        etcd_bad_reply(op);
    else if (txn.done)
        joined(op, work, &txn);
    else
        send_find(op, work);
}

/* ---- The request -------------------------------------------------------- */

/* work->created: the other entry of this session that has the plain key. */
static void send_join(hf_op *op, etcd_work *work)
{
    const etcd_names *names = &work->names;
    bool plain =
        is_exclusive(op) && work->created == 0 && etcd_claim_join(work);
    hf__buf *out = etcd_new_request(work);
    etcd_put put = {.key = plain ? names->plain : names->own,
                    .value = {work->value.data, hf__buf_len(&work->value)},
                    .lease = work->lease};
    etcd_range range = {.key = names->dir,
                        .end = names->dir_end,
                        .order = is_exclusive(op) ? ETCD_NEWEST_FIRST
                                                  : ETCD_OLDEST_FIRST,
                        .limit = is_exclusive(op) ? 1 : 0};

    work->plain = plain;
    if (is_exclusive(op))
        etcd_if_equal(out, ETCD_CREATED, names->plain, work->created);
    etcd_if_equal(out, ETCD_CREATED, names->own, 0);
    etcd_if_equal(out, ETCD_CREATED, names->gone, 0);
    if (is_exclusive(op))
        etcd_do_range(out, ETCD_THEN, &range);
    etcd_do_put(out, ETCD_THEN, &put);
    if (!is_exclusive(op)) /* itself too */
        etcd_do_range(out, ETCD_THEN, &range);
    etcd_send(op, ETCD_TXN, join_landed);
}

void etcd_join(hf_store *store, hf_op *op)
{
    etcd_work *work = etcd_begin(store, op);

    if (!work)
        return;
    etcd_note_bell(store, op->place);
    etcd_name_entry(&work->names, store, op->place->key, op->place->key_len,
                    work->lease, &op->place->rid);
    etcd_make_value(op, work);
    send_join(op, work);
}
