/* leave.c - giving a place back, and showing a value on it.
 *
 * A leave deletes the entry's node by its name, which nobody else ever has.
 * Not there: somebody took it away (HF_EFORCED), unless an earlier attempt of
 * ours was lost, which then did it.  An entry whose creation was never answered
 * is looked for first, by a member that has caught up with the leader.  What
 * the table does not have is not in the store, so that needs no question.
 * A permit that is not where it waited may have gone on to its lease, which is
 * looked for then.
 * Whoever waits behind hears of the deletion from the server.
 *
 * The value is behind the line in the node's data; a write demands the version
 * that we wrote last, so it never wipes out the mark of an operator: then the
 * data is read, and the owner learns that it was broken. */
#include "store.h"

/* ---- Leave -------------------------------------------------------------- */

static void leave_answer(zk_job *job)
{
    hf_store *store = job->store;
    hf_op *op = job->op;
    zk_entry *entry = job->entry;
    bool there = job->error == 0 && entry->created;

    zk_store_lock(store);
    if (there || (job->repeated && !entry->gone)) {
        op->place->verdict = entry->granted ? HF_GRANTED : HF_WAITS;
        op->place->reason = 0;
    } else {
        zk_place_gone(op->place, entry->created ? HF_EFORCED : HF_ENOTHELD);
    }
    if (op->tomb) {
        entry->tomb = true;
        entry->created = entry->uncertain = entry->granted = false;
        zk_entry_disarm(store, entry);
    } else {
        zk_entry_remove(store, entry);
    }
    zk_store_unlock(store);
    zk_job_ok(job);
}

static void find_lease(zk_job *job);

static void delete_take(zk_job *job, unsigned i, const zk_reply *reply)
{
    (void)i;
    job->error = reply->error;
}

static void delete_done(zk_job *job)
{
    if (job->error && job->error != ZK_NO_NODE)
        zk_job_refused(job, job->error, zk_entry_node(job->entry)->data);
    else if (job->error && job->entry->mode == HF_PERMIT && !job->at_lease)
        find_lease(job);
    else
        leave_answer(job);
}

static void delete_send(zk_job *job)
{
    const zk_text *node;

    job->take = delete_take;
    job->done = delete_done;
    zk_store_lock(job->store);
    node = zk_entry_node(job->entry);
    job->at_lease = job->entry->holds;
    zk_store_unlock(job->store);
    zk_job_ask(job, 0, ZK_DELETE, node->data, node->len);
    zk_job_send(job, 1);
}

static void lease_take(zk_job *job, unsigned i, const zk_reply *reply)
{
    if (i == 0 || reply->error)
        job->error = reply->error;
    else if (!job->error && !zk_permit_adopt(job, job->entry, reply))
        job->error = ZK_NO_NODE;
}

static void lease_done(zk_job *job)
{
    if (job->error == ZK_NO_NODE)
        leave_answer(job);
    else if (job->error)
        zk_job_refused(job, job->error, "queue");
    else
        delete_send(job);
}

static void find_lease(zk_job *job)
{
    job->take = lease_take;
    job->done = lease_done;
    zk_ask_fresh_list(job, job->entry->lease.data, job->entry->lease_dir);
}

static void find_take(zk_job *job, unsigned i, const zk_reply *reply)
{
    bool found;

    zk_store_lock(job->store);
    if (zk_look_find(job, i, reply, &found))
        job->entry->created = found;
    zk_store_unlock(job->store);
}

static void find_done(zk_job *job)
{
    if (job->error)
        zk_job_refused(job, job->error, "queue");
    else if (job->entry->created)
        delete_send(job);
    else
        leave_answer(job);
}

static void leave_begin(zk_job *job)
{
    if (job->entry->created) {
        delete_send(job);
        return;
    }
    job->take = find_take;
    job->done = find_done;
    zk_ask_fresh_list(job, job->entry->path.data, job->entry->dir_len);
}

/* Not in the table, or only as a tomb: nothing is there.  With mu held. */
static void leave_nothing(hf_store *store, hf_op *op, zk_entry *entry)
{
    zk_place_gone(op->place, HF_ENOTHELD);
    if (!op->tomb || entry)
        return;
    entry = zk_entry_new(store, op->place, ZK_KIND_LOCK);
    if (entry) {
        entry->tomb = true;
        zk_entry_unref(store, entry);
    }
}

void zk_leave(hf_store *store, hf_op *op)
{
    zk_entry *entry = NULL;
    int64_t session;
    bool expired, again = false;
    zk_job *job;

    zk_store_lock(store);
    session = store->session;
    expired = !zk_session_is(store, &op->sid);
    if (expired)
        zk_place_gone(op->place, HF_EEXPIRED);
    else
        entry = zk_entry_find(store, &op->place->rid);
    if (!expired && (!entry || entry->tomb)) {
        leave_nothing(store, op, entry);
        entry = NULL;
    }
    if (entry) {
        /* An earlier leave lost its answer: if nothing is there, it did it. */
        again = entry->leaving && !entry->gone;
        entry->leaving = true;
        zk_entry_ref(entry);
    }
    zk_store_unlock(store);
    if (!entry) {
        zk_op_ok(op);
        return;
    }
    job = zk_job_new(store, op);
    if (!job) {
        zk_store_lock(store);
        zk_entry_unref(store, entry);
        zk_store_unlock(store);
        return;
    }
    job->entry = entry;
    job->repeated = again;
    job->call.session = session;
    job->redo = leave_begin;
    leave_begin(job);
}

/* ---- Publish ------------------------------------------------------------ */

static void publish_send(zk_job *job);

static void read_take(zk_job *job, unsigned i, const zk_reply *reply)
{
    zk_data data;

    (void)i;
    job->error = reply->error;
    zk_data_read(&data, reply->data, reply->error ? 0 : reply->data_len);
    zk_store_lock(job->store);
    job->entry->version = reply->stat.version;
    zk_store_unlock(job->store);
    if (data.ours && data.broken)
        job->code = HF_EFORCED;
}

static void publish_answer(zk_job *job, bool gone)
{
    hf_place *place = job->op->place;

    zk_store_lock(job->store);
    if (gone) {
        bool forced = job->code || zk_entry_robbed(job->entry);

        zk_place_gone(place, forced ? HF_EFORCED : HF_ENOTHELD);
    } else {
        place->verdict = job->entry->granted ? HF_GRANTED : HF_WAITS;
        place->reason = 0;
    }
    zk_store_unlock(job->store);
    zk_job_ok(job);
}

static void read_done(zk_job *job)
{
    if (job->error && job->error != ZK_NO_NODE)
        zk_job_refused(job, job->error, zk_entry_node(job->entry)->data);
    else if (job->error || job->code)
        publish_answer(job, true);
    else
        publish_send(job);
}

static void write_take(zk_job *job, unsigned i, const zk_reply *reply)
{
    (void)i;
    job->error = reply->error;
    zk_store_lock(job->store);
    if (reply->error == 0)
        job->entry->version = reply->stat.version;
    zk_store_unlock(job->store);
}

static void write_done(zk_job *job)
{
    const zk_text *node = zk_entry_node(job->entry);

    if (job->error == ZK_BAD_VERSION && ++job->tries <= 8) {
        job->take = read_take;
        job->done = read_done;
        zk_job_ask(job, 0, ZK_GET_DATA, node->data, node->len);
        zk_job_send(job, 1);
    } else if (job->error && job->error != ZK_NO_NODE) {
        zk_job_refused(job, job->error, node->data);
    } else {
        publish_answer(job, job->error == ZK_NO_NODE);
    }
}

static void publish_send(zk_job *job)
{
    const zk_text *node = zk_entry_node(job->entry);
    zk_request *request =
        zk_job_ask(job, 0, ZK_SET_DATA, node->data, node->len);

    job->take = write_take;
    job->done = write_done;
    request->data = job->data.data;
    request->data_len = job->data.len;
    request->version = job->entry->version;
    zk_job_send(job, 1);
}

void zk_publish(hf_store *store, hf_op *op)
{
    zk_job *job;
    zk_entry *entry;
    bool good = true;

    if (op->value_len > HF_VALUE_MAX) {
        zk_op_refuse(op, HF_NOT_APPLIED, HF_EINVAL,
                     "a value has at most 1024 bytes");
        return;
    }
    job = zk_job_new(store, op);
    if (!job)
        return;
    zk_store_lock(store);
    job->expired = !zk_session_is(store, &op->sid);
    job->call.session = store->session;
    entry = job->expired ? NULL : zk_entry_find(store, &op->place->rid);
    if (!entry || !entry->created || entry->gone || entry->tomb) {
        zk_place_gone(op->place,
                      entry && entry->gone ? HF_EFORCED : HF_ENOTHELD);
    } else {
        job->entry = entry;
        zk_entry_ref(entry);
        good =
            zk_data_write(&job->data, store, entry, op->value, op->value_len);
    }
    zk_store_unlock(store);
    job->redo = publish_send;
    if (job->expired)
        zk_job_expired(job);
    else if (!good)
        zk_job_no_memory(job);
    else if (!job->entry)
        zk_job_ok(job);
    else
        publish_send(job);
}
