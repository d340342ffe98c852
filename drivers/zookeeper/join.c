/* join.c - a place in the queue: created and judged in one flight.
 *
 *     create _c_<rid>-lock-   ephemeral, numbered by the server
 *     list the queue          sees that creation: one session's order
 *
 * go out together; if nobody is ahead the lock is ours when the answers are
 * here.  If the queue's node is not there, it is made in the same flight as
 * the entry; if those above it are not there either, they come first.
 *
 * Reply lost: was it created?  The entry is `uncertain`, and whoever asks again
 * (this job on the next connection, the core later) looks for the id in the
 * list before it creates, so there is never a second node of one rid.  The
 * member that answers may be behind the one that created it, so it has to
 * catch up with the leader first: `sync`, in the same flight.  Old
 * bytes cannot arrive behind that list: a connection of a session that has
 * moved to another one is closed by its server, and the leader refuses what
 * that server still passes on.  For the same reason a tomb needs only our own
 * table: after a leave that found nothing, nothing of this rid can appear but
 * by a join of ours, and that finds the tomb.
 *
 * Others' layouts: a mutex of Curator does not see readers, its read/write lock
 * does not see a mutex, kazoo sees neither.  Whoever finds a node in the queue
 * that cannot see his own leaves again: HF_EKIND. */
#include <string.h>

#include "store.h"

enum step { CREATES, FINDS, ADOPTS, TRIES, UNDOES };

static const char kind_text[] =
    "another program uses this key in a layout that does not see ours: see "
    "layout=rw and format=kazoo";

static void join_begin(zk_job *job);
static void join_create(zk_job *job);

static zk_kind kind_of(const hf_store *store, const hf_place *place)
{
    bool shared = place->mode == HF_SHARED;

    if (store->kazoo)
        return shared ? ZK_KIND_KAZOO_READ : ZK_KIND_KAZOO;
    if (shared)
        return ZK_KIND_READ;
    return store->rw ? ZK_KIND_WRITE : ZK_KIND_LOCK;
}

/* ---- Ends --------------------------------------------------------------- */

static void forget_entry(zk_job *job)
{
    zk_store_lock(job->store);
    zk_entry_remove(job->store, job->entry);
    zk_store_unlock(job->store);
}

static void undo_take(zk_job *job, unsigned i, const zk_reply *reply)
{
    (void)i;
    job->error = reply->error;
}

static void undo_done(zk_job *job)
{
    if (job->error && job->error != ZK_NO_NODE) {
        zk_job_refused(job, job->error, job->entry->path.data);
        return;
    }
    forget_entry(job);
    if (job->code == HF_EBUSY)
        zk_job_refuse(job, HF_EBUSY, "held by another");
    else
        zk_job_refuse(job, job->code, kind_text);
}

static void undo(zk_job *job, int code)
{
    zk_store_lock(job->store);
    job->entry->leaving = true;
    zk_entry_disarm(job->store, job->entry);
    zk_store_unlock(job->store);
    job->code = code;
    job->step = UNDOES;
    job->take = undo_take;
    job->done = undo_done;
    zk_job_ask(job, 0, ZK_DELETE, job->entry->path.data, job->entry->path.len);
    zk_job_send(job, 1);
}

/* ---- Verdict ------------------------------------------------------------ */

/* What the list behind the creation says, while it is here. */
static void take_list(zk_job *job, const zk_reply *reply)
{
    zk_entry *entry = job->entry;
    zk_look look;

    zk_look_read(&look, reply, &entry->id, entry->kind, true, entry->seq);
    if (look.found && look.blind)
        job->code = HF_EKIND;
    else if (look.found && look.ahead && job->op->only_if_granted)
        job->code = HF_EBUSY;
    else if (!zk_look_judge(job, &job->members[0], &look))
        job->code = HF_ENOMEM;
}

static void join_looked(zk_job *job)
{
    zk_job_ok(job);
}

static void judged(zk_job *job)
{
    if (job->code == HF_ENOMEM)
        zk_job_no_memory(job);
    else if (job->code)
        undo(job, job->code);
    else
        zk_look_go(job);
}

/* ---- Creating ----------------------------------------------------------- */

/* Errors after which it may have been done all the same. */
static bool is_uncertain(int32_t error)
{
    return error == -4 || error == -7; /* of the server's own connections */
}

static void take_creation(zk_job *job, const zk_reply *reply)
{
    zk_entry *entry = job->entry;

    job->error = reply->error;
    zk_store_lock(job->store);
    if (reply->error == 0 &&
        !zk_entry_name(entry, reply->path, reply->path_len))
        job->error = -1; /* not the name we asked for */
    entry->created = job->error == 0;
    entry->uncertain = is_uncertain(job->error);
    if (entry->created) {
        entry->czxid = reply->stat.czxid;
        entry->version = 0;
    }
    zk_store_unlock(job->store);
}

static void create_take(zk_job *job, unsigned i, const zk_reply *reply)
{
    unsigned at = i + !job->dir_too; /* 0: the queue, 1: the entry, 2: list */

    if (at == 0 && reply->error == ZK_UNIMPLEMENTED)
        job->store->plain_parents = true;
    else if (at == 1)
        take_creation(job, reply);
    else if (at == 2 && job->error == 0 && reply->error == 0)
        take_list(job, reply);
    else if (at == 2 && job->error == 0)
        job->members[0].needs = ZK_SEE_LIST; /* it went in between */
}

static void create_again(zk_job *job)
{
    job->dir_too = true;
    join_create(job);
}

static void create_done(zk_job *job)
{
    if (job->error == ZK_NO_NODE && ++job->tries <= 8) {
        /* The queue is new, or was removed when it was empty. */
        if (job->dir_too)
            zk_parents_go(job, job->entry->path.data, job->entry->dir_len,
                          create_again);
        else
            create_again(job);
    } else if (is_uncertain(job->error)) {
        zk_op_note(job, HF_EUNAVAIL, "the server has lost its leader");
        zk_job_finish(job, HF_UNKNOWN, HF_EUNAVAIL);
    } else if (job->error) {
        job->entry->path.data[job->entry->dir_len] = '\0';
        forget_entry(job);
        zk_job_refused(job, job->error, job->entry->path.data);
    } else {
        judged(job);
    }
}

/* The path to create with, and the data; false: no memory. */
static bool make_node(zk_job *job)
{
    zk_entry *entry = job->entry;
    bool good = zk_text_reserve(&job->path, entry->dir_len + 2 + ZK_NAME_ROOM);

    if (good) {
        memcpy(job->path.data, entry->path.data, entry->dir_len);
        job->path.data[entry->dir_len] = '/';
        job->path.len = entry->dir_len + 1;
        job->path.len += zk_name_write(job->path.data + job->path.len,
                                       &entry->rid, entry->kind);
        zk_store_lock(job->store);
        good =
            zk_data_write(&job->data, job->store, entry, job->op->place->places,
                          job->op->value, job->op->value_len);
        zk_store_unlock(job->store);
    }
    return good;
}

static void join_create(zk_job *job)
{
    zk_entry *entry = job->entry;
    zk_request *request;
    unsigned n = 0;

    if (job->path.len == 0 && !make_node(job)) {
        zk_job_no_memory(job);
        return;
    }
    zk_store_lock(job->store);
    entry->uncertain = true; /* until it is answered */
    zk_store_unlock(job->store);
    if (job->dir_too)
        zk_parents_ask(job, n++, entry->path.data, entry->dir_len);
    request = zk_job_ask(job, n++, ZK_CREATE, job->path.data, job->path.len);
    request->data = job->data.data;
    request->data_len = job->data.len;
    request->flags = ZK_EPHEMERAL | ZK_SEQUENCE;
    request->closed_acl = job->store->closed_acl;
    zk_job_ask(job, n++, ZK_GET_CHILDREN, entry->path.data, entry->dir_len);
    job->synced = true; /* the list is behind the creation */
    job->error = 0;
    job->step = CREATES;
    job->take = create_take;
    job->done = create_done;
    zk_job_send(job, n);
}

/* ---- Finding what may be there ------------------------------------------ */

static void adopt_take(zk_job *job, unsigned i, const zk_reply *reply)
{
    zk_entry *entry = job->entry;

    if (i == 0) {
        job->error = reply->error == ZK_NO_NODE ? 0 : reply->error;
        if (job->error)
            return; /* as uncertain as before */
        zk_store_lock(job->store);
        entry->created = reply->error == 0 &&
                         reply->stat.ephemeral_owner == job->store->session;
        entry->uncertain = false;
        entry->czxid = reply->stat.czxid;
        entry->version = reply->stat.version;
        zk_store_unlock(job->store);
    } else if (entry->created && reply->error == 0) {
        take_list(job, reply);
    }
}

static void adopt_done(zk_job *job)
{
    if (job->error)
        zk_job_unsettled(job, job->error);
    else if (!job->entry->created)
        join_create(job);
    else
        judged(job);
}

/* It is there: whose is it, and which number has it? */
static void adopt(zk_job *job)
{
    zk_entry *entry = job->entry;

    job->step = ADOPTS;
    job->take = adopt_take;
    job->done = adopt_done;
    zk_job_ask(job, 0, ZK_GET_DATA, entry->path.data, entry->path.len);
    zk_job_ask(job, 1, ZK_GET_CHILDREN, entry->path.data, entry->dir_len);
    zk_job_send(job, 2);
}

static void find_take(zk_job *job, unsigned i, const zk_reply *reply)
{
    zk_entry *entry = job->entry;
    zk_look look = {.found = false};

    if (i == 0) {
        job->error = reply->error; /* of the sync */
        return;
    }
    if (reply->error && reply->error != ZK_NO_NODE)
        job->error = reply->error;
    if (job->error)
        return;
    if (reply->error == 0)
        zk_look_read(&look, reply, &entry->id, entry->kind, false, 0);
    zk_store_lock(job->store);
    entry->path.len = entry->dir_len;
    if (look.found) {
        char *name = entry->path.data + entry->dir_len;

        *name++ = '/';
        entry->seq = look.seq;
        entry->path.len +=
            1 + zk_name_write_seq(name, &entry->rid, entry->kind, look.seq);
    } else {
        entry->uncertain = false;
    }
    zk_store_unlock(job->store);
}

static void find_done(zk_job *job)
{
    if (job->error)
        zk_job_refused(job, job->error, "queue");
    else if (job->entry->uncertain)
        adopt(job);
    else
        join_begin(job);
}

static void find(zk_job *job)
{
    job->step = FINDS;
    job->take = find_take;
    job->done = find_done;
    zk_ask_fresh_list(job, job->entry->path.data, job->entry->dir_len);
}

/* ---- Trying ------------------------------------------------------------- */

/* A look before anything is written: who is busy need not be disturbed. */
static void try_take(zk_job *job, unsigned i, const zk_reply *reply)
{
    zk_look look;

    if (i == 0) {
        job->error = reply->error; /* of the sync */
        return;
    }
    job->dir_too = reply->error == ZK_NO_NODE;
    if (reply->error && !job->dir_too)
        job->error = reply->error;
    if (reply->error)
        return;
    /* As if it stood at the end: everybody is ahead of it. */
    zk_look_read_end(&look, reply, job->entry->kind);
    if (look.blind)
        job->code = HF_EKIND;
    else if (look.ahead)
        job->code = HF_EBUSY;
}

static void try_done(zk_job *job)
{
    if (job->error || job->code)
        forget_entry(job);
    if (job->error)
        zk_job_refused(job, job->error, "queue");
    else if (job->code == HF_EKIND)
        zk_job_refuse(job, job->code, kind_text);
    else if (job->code)
        zk_job_refuse(job, job->code, "held by another");
    else
        join_create(job);
}

static void try_first(zk_job *job)
{
    job->step = TRIES;
    job->take = try_take;
    job->done = try_done;
    zk_ask_fresh_list(job, job->entry->path.data, job->entry->dir_len);
}

/* ---- Beginning ---------------------------------------------------------- */

static void join_begin(zk_job *job)
{
    const zk_entry *entry = job->entry;

    job->code = 0;
    job->members[0].needs = ZK_SEE_LIST;
    if (entry->uncertain)
        find(job);
    else if (entry->created)
        zk_look_go(job);
    else if (job->op->only_if_granted)
        try_first(job);
    else
        join_create(job);
}

/* Not sent, so nothing is there: the table need not know of it. */
static void join_end(zk_job *job)
{
    zk_entry *entry = job->entry;

    if (entry && job->outcome == HF_NOT_APPLIED && !entry->created)
        forget_entry(job);
}

static void join_redo(zk_job *job)
{
    if (job->step == UNDOES)
        undo(job, job->code);
    else
        join_begin(job);
}

/* Without a question: 0, or what is to be said. */
static int know_entry(zk_job *job)
{
    hf_store *store = job->store;
    hf_place *place = job->op->place;
    zk_entry *entry;
    int code = 0;

    zk_store_lock(store);
    entry = zk_entry_find(store, &place->rid);
    job->call.session = store->session;
    if (!zk_session_is(store, &job->op->sid)) {
        code = HF_EEXPIRED;
    } else if (entry && (entry->tomb || entry->gone)) {
        zk_place_gone(place, entry->gone ? HF_EFORCED : HF_ENOTHELD);
        code = HF_ENOTHELD;
    } else {
        if (entry)
            zk_entry_ref(entry);
        else
            entry = zk_entry_new(store, place, kind_of(store, place));
        job->entry = entry;
        code = entry ? 0 : HF_ENOMEM;
    }
    if (code == 0) {
        zk_entry_ref(entry);
        job->members[0].entry = entry;
        job->members[0].place = place;
        job->member_count = 1;
    }
    zk_store_unlock(store);
    return code;
}

void zk_join(hf_store *store, hf_op *op)
{
    zk_job *job;
    int code;

    if (op->place->key_len == 0 || op->place->key_len > HF_KEY_MAX ||
        op->value_len > HF_VALUE_MAX) {
        zk_op_refuse(op, HF_NOT_APPLIED, HF_EINVAL,
                     "the place to join with is malformed");
        return;
    }
    if (op->place->mode == HF_PERMIT || op->place->lease > 0) {
        zk_op_refuse(op, HF_APPLIED, HF_ENOTSUP,
                     "this store has no permits and no fixed leases");
        return;
    }
    job = zk_job_new(store, op);
    if (!job)
        return;
    zk_note_bell(store, op->place);
    job->path.len = 0;
    job->redo = join_redo;
    job->end = join_end;
    job->looked = join_looked;
    code = know_entry(job);
    if (code == HF_EEXPIRED)
        zk_job_expired(job);
    else if (code == HF_ENOMEM)
        zk_job_no_memory(job);
    else if (code)
        zk_job_ok(job);
    else
        join_begin(job);
}
