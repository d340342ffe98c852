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
 * Whoever is refused with his node in the queue withdraws, and is answered when
 * that is done.  The answer to a withdrawal is lost or late: the refusal is
 * noted with the entry, so whoever asks again goes on withdrawing.  Its own
 * node is not there then, and that is nobody's doing but ours.
 *
 * Others' layouts: a mutex of Curator does not see readers, its read/write lock
 * does not see a mutex, kazoo sees neither.  Whoever finds a node in the queue
 * that cannot see his own leaves again: HF_EKIND.  So does a lock where there
 * are permits, and a permit where there are locks (survey.c).  Nothing else is
 * asked of an entry before that is known, also if the list was lost.
 *
 * A permit is created in the queue for leases; the lists behind its creation
 * are those of the survey. */
#include <string.h>

#include "join.h"

static const char kind_text[] =
    "another program uses this key in a layout that does not see ours: see "
    "layout=rw and format=kazoo";

static const char permit_text[] =
    "this key is in use as another kind of lock, or with another number of "
    "places";

static zk_kind kind_of(const hf_store *store, const hf_place *place)
{
    bool shared = place->mode == HF_SHARED;

    if (store->kazoo)
        return shared ? ZK_KIND_KAZOO_READ : ZK_KIND_KAZOO;
    if (place->mode == HF_PERMIT)
        return ZK_KIND_LOCK;
    if (shared)
        return ZK_KIND_READ;
    return store->rw ? ZK_KIND_WRITE : ZK_KIND_LOCK;
}

/* ---- Ends --------------------------------------------------------------- */

void zk_join_forget(zk_job *job)
{
    zk_store_lock(job->store);
    zk_entry_remove(job->store, job->entry);
    zk_store_unlock(job->store);
}

static const char *text_of(const zk_job *job, int code)
{
    if (code == HF_EBUSY)
        return "held by another";
    return zk_is_permit(job) || job->survey.other_kind ? permit_text
                                                       : kind_text;
}

void zk_join_refuse(zk_job *job, int code)
{
    zk_job_refuse(job, code, text_of(job, code));
}

static void undo_take(zk_job *job, unsigned i, const zk_reply *reply)
{
    (void)i;
    job->error = reply->error;
}

static void undo_done(zk_job *job)
{
    const zk_entry *entry = job->entry;

    if (job->error && job->error != ZK_NO_NODE) {
        zk_job_refused(job, job->error, entry->path.data);
        return;
    }
    zk_join_forget(job);
    zk_job_refuse(job, entry->refused, entry->refusal);
}

static void undo_send(zk_job *job)
{
    job->take = undo_take;
    job->done = undo_done;
    zk_job_ask(job, 0, ZK_DELETE, job->entry->path.data, job->entry->path.len);
    zk_job_send(job, 1);
}

static void undo(zk_job *job, int code)
{
    zk_entry *entry = job->entry;

    zk_store_lock(job->store);
    entry->leaving = true;
    entry->refused = code;
    entry->refusal = text_of(job, code);
    zk_entry_disarm(job->store, entry);
    zk_store_unlock(job->store);
    undo_send(job);
}

/* ---- Verdict ------------------------------------------------------------ */

/* What the list behind the creation says, while it is here.  Without a list
 * nothing is known of who else is there, and nothing may be granted. */
void zk_join_take_list(zk_job *job, const zk_reply *reply)
{
    zk_entry *entry = job->entry;
    zk_look look;

    job->survey = (zk_survey){.path = job->survey.path};
    if (reply->error == ZK_NO_NODE) {
        zk_settle_gone(job, &job->members[0]); /* the whole queue is gone */
        return;
    }
    if (reply->error) {
        job->survey.error = reply->error;
        return;
    }
    zk_look_read(&look, reply, &entry->id, entry->kind, true, entry->seq);
    if (look.found && look.blind)
        job->code = HF_EKIND;
    else if (look.found && look.ahead && job->op->only_if_granted)
        job->code = HF_EBUSY;
    else if (!zk_look_judge(job, &job->members[0], &look))
        job->code = HF_ENOMEM;
    job->survey.inside = look.inside;
}

static void join_looked(zk_job *job)
{
    if (job->op->only_if_granted && job->op->place->verdict == HF_WAITS)
        undo(job, HF_EBUSY);
    else
        zk_job_ok(job);
}

/* All is known of who else uses the key. */
void zk_join_surveyed(zk_job *job)
{
    const zk_survey *survey = &job->survey;
    zk_member *member = &job->members[0];
    zk_entry *entry = job->entry;
    bool good = true;

    if (survey->other_kind) {
        undo(job, HF_EKIND);
        return;
    }
    if (survey->error) {
        zk_job_unsettled(job, survey->error);
        return;
    }
    zk_store_lock(job->store);
    entry->surveyed = true;
    zk_store_unlock(job->store);
    if (member->needs == ZK_SEE_LEASES && survey->homeless)
        member->needs = ZK_SEE_HOME;
    else if (member->needs == ZK_SEE_LEASES && survey->leases < entry->places)
        good = zk_permit_prepare(job, member);
    if (!good || job->code == HF_ENOMEM)
        zk_job_no_memory(job);
    else if (zk_is_permit(job) && job->op->only_if_granted &&
             (survey->ahead || survey->leases >= entry->places))
        undo(job, HF_EBUSY);
    else
        zk_look_go(job);
}

void zk_join_judged(zk_job *job)
{
    if (job->code == HF_ENOMEM)
        zk_job_no_memory(job);
    else if (job->code)
        undo(job, job->code);
    else if (zk_is_permit(job))
        zk_survey_judge(job, zk_join_surveyed);
    else if (job->survey.inside)
        zk_survey_inside(job, zk_join_surveyed);
    else
        zk_join_surveyed(job);
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

    if (at >= 2 && zk_is_permit(job)) {
        if (job->error == 0)
            zk_survey_take(job, at - 2, reply);
        return;
    }
    if (at == 0 && reply->error == ZK_UNIMPLEMENTED)
        job->store->plain_parents = true;
    else if (at == 1)
        take_creation(job, reply);
    else if (at == 2 && job->error == 0)
        zk_join_take_list(job, reply);
}

static void create_again(zk_job *job)
{
    job->dir_too = true;
    zk_join_create(job);
}

static void create_done(zk_job *job)
{
    if (job->error == ZK_NO_NODE && ++job->tries <= 8) {
        /* The queue is new, or was removed when it was empty. */
        if (zk_is_permit(job))
            zk_parents_go(job, job->path.data, job->path.len, zk_join_create);
        else if (job->dir_too)
            zk_parents_go(job, job->entry->path.data, job->entry->dir_len,
                          create_again);
        else
            create_again(job);
    } else if (is_uncertain(job->error)) {
        zk_op_note(job, HF_EUNAVAIL, "the server has lost its leader");
        zk_job_finish(job, HF_UNKNOWN, HF_EUNAVAIL);
    } else if (job->error) {
        job->entry->path.data[job->entry->dir_len] = '\0';
        zk_join_forget(job);
        zk_job_refused(job, job->error, job->entry->path.data);
    } else {
        zk_join_judged(job);
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
        good = zk_data_write(&job->data, job->store, entry, job->op->value,
                             job->op->value_len);
        zk_store_unlock(job->store);
    }
    return good;
}

void zk_join_create(zk_job *job)
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
    if (zk_is_permit(job)) {
        zk_survey_ask(job, n);
        n += 3;
    } else {
        zk_job_ask(job, n++, ZK_GET_CHILDREN, entry->path.data, entry->dir_len);
    }
    job->synced = true; /* the list is behind the creation */
    job->error = 0;
    job->take = create_take;
    job->done = create_done;
    zk_job_send(job, n);
}

/* ---- Beginning ---------------------------------------------------------- */

void zk_join_begin(zk_job *job)
{
    const zk_entry *entry = job->entry;

    job->code = 0;
    zk_store_lock(job->store);
    job->members[0].needs = zk_look_begin(entry);
    zk_store_unlock(job->store);
    if (entry->refused)
        undo_send(job);
    else if (entry->uncertain)
        zk_join_find(job);
    else if (entry->created && !entry->surveyed && zk_is_permit(job))
        zk_survey_go(job, zk_join_surveyed);
    else if (entry->created && !entry->surveyed)
        zk_join_list(job);
    else if (entry->created)
        zk_look_go(job);
    else if (job->op->only_if_granted)
        zk_join_try(job);
    else
        zk_join_create(job);
}

/* Not sent, so nothing is there: the table need not know of it.  But a creation
 * of an earlier attempt, which this one could not even look for, may be there:
 * it stays uncertain, else the next attempt would create a second node. */
static void join_end(zk_job *job)
{
    zk_entry *entry = job->entry;

    if (entry && job->outcome == HF_NOT_APPLIED && !entry->created &&
        (job->take == create_take || !entry->uncertain))
        zk_join_forget(job);
}

/* A permit's value is written a second time, when it is granted.  With mu
 * held; false: no memory. */
static bool keep_value(zk_entry *entry, const hf_op *op)
{
    if (entry->mode != HF_PERMIT || op->value_len == 0)
        return true;
    if (!zk_text_reserve(&entry->value, op->value_len))
        return false;
    memcpy(entry->value.data, op->value, op->value_len);
    entry->value.len = op->value_len;
    return true;
}

static zk_entry *new_entry(hf_store *store, const hf_op *op)
{
    zk_entry *entry = zk_entry_new(store, op->place, kind_of(store, op->place));

    if (entry && !keep_value(entry, op)) {
        zk_entry_remove(store, entry);
        zk_entry_unref(store, entry);
        entry = NULL;
    }
    return entry;
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
            entry = new_entry(store, job->op);
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
    if ((op->place->mode == HF_PERMIT && store->kazoo) ||
        op->place->lease > 0) {
        zk_op_refuse(op, HF_APPLIED, HF_ENOTSUP,
                     "this store has no fixed leases, and no permits with "
                     "format=kazoo");
        return;
    }
    job = zk_job_new(store, op);
    if (!job)
        return;
    zk_note_bell(store, op->place);
    job->path.len = 0;
    job->redo = zk_join_begin;
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
        zk_join_begin(job);
}
