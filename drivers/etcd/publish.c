/* publish.c - HF_OP_PUBLISH: another value on an entry.
 *
 * The entry is read, and put again with the new value if it has not changed
 * since; its lease and its place stay.  What was broken meanwhile has news and
 * takes none: otherwise the mark of the break would be written over.  Reply
 * lost: asked again, the same value once more.  Two of us here: the second
 * reads again. */
#include "store.h"

static void send_find(hf_op *op, etcd_work *work);

static void put_landed(hf_op *op, etcd_work *work, grpc_code code,
                       etcd_text reply, const hf_error *why)
{
    etcd_txn txn;

    if (!etcd_answered(op, code, why))
        return;
    if (!etcd_read_txn(&txn, reply.at, reply.len)) {
        etcd_bad_reply(op);
    } else if (!txn.done) {
        send_find(op, work);
    } else {
        op->place->verdict = op->place->token ? HF_GRANTED : HF_WAITS;
        op->place->reason = 0;
        etcd_done(op);
    }
}

static void send_put(hf_op *op, etcd_work *work, etcd_found *found)
{
    hf__buf *out = etcd_new_request(work);
    etcd_put put = {.key = found->mine.key, .keep_lease = true};

    found->record.value = (etcd_text){op->value, op->value_len};
    work->value.start = work->value.end = 0;
    etcd_put_record(&work->value, &found->record);
    put.value = (etcd_text){work->value.data, hf__buf_len(&work->value)};
    etcd_if_equal(out, ETCD_MODIFIED, put.key, found->mine.modified);
    etcd_if_equal(out, ETCD_CREATED, work->names.gone, 0);
    etcd_do_put(out, ETCD_THEN, &put);
    etcd_send(op, ETCD_TXN, put_landed);
}

static void find_landed(hf_op *op, etcd_work *work, grpc_code code,
                        etcd_text reply, const hf_error *why)
{
    etcd_found found;
    etcd_txn txn;

    if (!etcd_answered(op, code, why))
        return;
    if (!etcd_read_txn(&txn, reply.at, reply.len) ||
        !etcd_read_found(&found, &txn, &op->place->rid)) {
        etcd_bad_reply(op);
    } else if (found.mine.created > 0 && found.gone.created == 0) {
        send_put(op, work, &found);
    } else {
        etcd_is_gone(op->place, etcd_gone_reason(&found.gone));
        etcd_done(op);
    }
}

static void send_find(hf_op *op, etcd_work *work)
{
    etcd_do_find(etcd_new_request(work), ETCD_THEN, &work->names);
    etcd_send(op, ETCD_TXN, find_landed);
}

void etcd_publish(hf_store *store, hf_op *op)
{
    etcd_work *work = etcd_begin(store, op);

    if (!work)
        return;
    if (op->value_len > HF_VALUE_MAX) {
        etcd_refuse(op, HF_EINVAL, "a value has at most 1024 bytes");
        return;
    }
    etcd_name_entry(&work->names, store, op->place->key, op->place->key_len,
                    work->lease, &op->place->rid);
    send_find(op, work);
}
