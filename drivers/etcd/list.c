/* list.c - HF_OP_LIST: every entry under a prefix, or those of one session.
 *
 * By prefix: pages of keys, all of one revision, so that the listing is of one
 * instant; if that is compacted meanwhile the rest is of a later one.  Of one's
 * own (the audit after a doubt): the keys of the session's lease, which etcd
 * knows, then the queues that they stand in, several in one request; the rest
 * of the store is not touched, however large it is.
 *
 * It only reads.  Reply lost: the listing says that it is not whole. */
#include <string.h>

#include "rows.h"

enum { PAGE = 1000, QUEUES_AT_ONCE = 32 };

static etcd_listing *listing_of(etcd_work *work)
{
    return work->more;
}

static void tell_all(hf_op *op, etcd_work *work)
{
    if (etcd_rows_emit(listing_of(work), op))
        etcd_done(op);
    else
        etcd_no_memory(op);
}

/* ---- By prefix ---------------------------------------------------------- */

static void ask_page(hf_op *op, etcd_work *work);

static void page_landed(hf_op *op, etcd_work *work, grpc_code code,
                        etcd_text reply, const hf_error *why)
{
    etcd_listing *list = listing_of(work);
    etcd_text last = {"", 0};
    etcd_page page;
    etcd_kv kv;

    if (code == GRPC_OUT_OF_RANGE && list->revision) {
        list->revision = 0; /* compacted: on, at another instant */
        ask_page(op, work);
        return;
    }
    if (!etcd_answered(op, code, why))
        return;
    if (!etcd_read_page(&page, reply.at, reply.len)) {
        etcd_bad_reply(op);
        return;
    }
    list->revision = page.revision;
    while (etcd_next_row(&page.rows, &kv)) {
        last = kv.key;
        if (!etcd_rows_add(list, work->store, op, &kv)) {
            etcd_no_memory(op);
            return;
        }
    }
    if (page.rows.at.bad) {
        etcd_bad_reply(op);
    } else if (!page.more || last.len == 0) {
        tell_all(op, work);
    } else {
        hf__buf_eat(&list->cursor, hf__buf_len(&list->cursor));
        hf__buf_add(&list->cursor, last.at, last.len);
        hf__buf_add(&list->cursor, "", 1); /* the very next key */
        ask_page(op, work);
    }
}

static void ask_page(hf_op *op, etcd_work *work)
{
    etcd_listing *list = listing_of(work);
    etcd_range range = {
        .key = {list->cursor.data + list->cursor.start,
                hf__buf_len(&list->cursor)},
        .end = {list->end.data + list->end.start, hf__buf_len(&list->end)},
        .limit = PAGE,
        .revision = list->revision};

    if (list->cursor.failed || list->end.failed) {
        etcd_no_memory(op);
        return;
    }
    etcd_ask_range(etcd_new_request(work), &range);
    etcd_send(op, ETCD_RANGE, page_landed);
}

/* [cursor, end): what begins with the store's prefix and the text. */
static void begin_prefix(etcd_listing *list, const hf_store *store,
                         const hf_op *op)
{
    hf__buf *end = &list->end;

    hf__buf_add(&list->cursor, store->prefix, store->prefix_len);
    hf__buf_add(&list->cursor, op->text_len ? op->text : "", op->text_len);
    hf__buf_add(end, list->cursor.data + list->cursor.start,
                hf__buf_len(&list->cursor));
    while (end->end > end->start &&
           (unsigned char)end->data[end->end - 1] == 255)
        end->end--;
    if (end->end > end->start)
        end->data[end->end - 1]++;
    else
        hf__buf_add(end, "", 1); /* to the last key there is */
    if (hf__buf_len(&list->cursor) == 0)
        hf__buf_add(&list->cursor, "", 1); /* from the first */
}

/* ---- One's own ---------------------------------------------------------- */

static void ask_queues(hf_op *op, etcd_work *work);

static void queues_landed(hf_op *op, etcd_work *work, grpc_code code,
                          etcd_text reply, const hf_error *why)
{
    etcd_rows rows;
    etcd_txn txn;
    etcd_kv kv;

    if (!etcd_answered(op, code, why))
        return;
    if (!etcd_read_txn(&txn, reply.at, reply.len)) {
        etcd_bad_reply(op);
        return;
    }
    while (etcd_next_rows(&txn, &rows)) {
        while (etcd_next_row(&rows, &kv)) {
            if (!etcd_rows_add(listing_of(work), work->store, op, &kv)) {
                etcd_no_memory(op);
                return;
            }
        }
        txn.at.bad = txn.at.bad || rows.at.bad;
    }
    if (txn.at.bad)
        etcd_bad_reply(op);
    else
        ask_queues(op, work);
}

static void ask_queues(hf_op *op, etcd_work *work)
{
    etcd_listing *list = listing_of(work);
    hf__buf *out = etcd_new_request(work);
    size_t n = 0;

    while (n < QUEUES_AT_ONCE && list->at < hf__buf_len(&list->queues)) {
        etcd_range range = {.order = ETCD_ANY};
        etcd_text key;

        memcpy(&key, list->queues.data + list->queues.start + list->at,
               sizeof key);
        list->at += sizeof key;
        etcd_name_queue(&work->names, work->store, key.at, key.len);
        range.key = work->names.dir;
        range.end = work->names.dir_end;
        etcd_do_range(out, ETCD_THEN, &range);
        n++;
    }
    if (n == 0)
        tell_all(op, work);
    else
        etcd_send(op, ETCD_TXN, queues_landed);
}

/* Keys come in no order that is promised; a queue is asked for once. */
static bool is_known(const etcd_listing *list, etcd_text key)
{
    const char *from = list->queues.data + list->queues.start;

    for (size_t i = 0; i < hf__buf_len(&list->queues); i += sizeof key) {
        etcd_text known;

        memcpy(&known, from + i, sizeof known);
        if (etcd_same_text(known, key))
            return true;
    }
    return false;
}

static void keys_landed(hf_op *op, etcd_work *work, grpc_code code,
                        etcd_text reply, const hf_error *why)
{
    etcd_listing *list = listing_of(work);
    etcd_text key, lock;
    etcd_suffix name;
    etcd_lease lease;

    if (code == GRPC_NOT_FOUND) {
        etcd_done(op); /* nothing is its any more */
        return;
    }
    if (!etcd_answered(op, code, why))
        return;
    list->keys = hfd_alloc(reply.len + 1);
    if (!list->keys) {
        etcd_no_memory(op);
        return;
    }
    memcpy(list->keys, reply.at, reply.len);
    if (!etcd_read_lease(&lease, list->keys, reply.len)) {
        etcd_bad_reply(op);
        return;
    }
    while (etcd_next_key(&lease.keys, &key)) {
        if (etcd_split_key(work->store, key, &lock, &name) &&
            !is_known(list, lock))
            hf__buf_add(&list->queues, &lock, sizeof lock);
    }
    if (list->queues.failed)
        etcd_no_memory(op);
    else
        ask_queues(op, work);
}

void etcd_list(hf_store *store, hf_op *op)
{
    etcd_work *work = etcd_begin(store, op);

    if (!work)
        return;
    work->more = hfd_alloc(sizeof(etcd_listing));
    if (!work->more) {
        etcd_no_memory(op);
        return;
    }
    work->free_more = etcd_listing_free;
    if (op->only_mine) {
        etcd_ask_time(etcd_new_request(work), work->lease, true);
        etcd_send(op, ETCD_TIMETOLIVE, keys_landed);
    } else {
        begin_prefix(listing_of(work), store, op);
        ask_page(op, work);
    }
}
