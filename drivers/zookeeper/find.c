/* find.c - what a join asks before it creates anything, or when it does not
 * know all that it should about what it has created.
 *
 * Is it there already?  A creation that was sent and not answered is looked for
 * by its id, by a member that has caught up with the leader; and since a name
 * is no proof, its node must belong to our session.  Found: it is adopted,
 * with its number.  Not found: it does not exist and never will, unless we
 * create it (join.c says why).
 *
 * And for one who only tries: is there any use in it?  Who is busy need not be
 * disturbed by a node that comes and goes.
 *
 * Reply lost: all of this only reads, and is asked again. */
#include "join.h"

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
    } else if (entry->created) {
        zk_join_take_list(job, reply);
    }
}

static void adopt_done(zk_job *job)
{
    if (job->error)
        zk_job_unsettled(job, job->error);
    else if (!job->entry->created)
        zk_join_create(job);
    else if (zk_is_permit(job))
        zk_survey_go(job, zk_join_surveyed);
    else
        zk_join_judged(job);
}

/* It is there: whose is it, and which number has it? */
static void adopt(zk_job *job)
{
    zk_entry *entry = job->entry;

    job->take = adopt_take;
    job->done = adopt_done;
    zk_job_ask(job, 0, ZK_GET_DATA, entry->path.data, entry->path.len);
    zk_job_ask(job, 1, ZK_GET_CHILDREN, entry->path.data, entry->dir_len);
    zk_job_send(job, zk_is_permit(job) ? 1 : 2);
}

/* It was answered, the list behind it was not: nobody has looked yet whether
 * others are there that do not see it. */
static void list_take(zk_job *job, unsigned i, const zk_reply *reply)
{
    if (i == 0)
        job->error = reply->error; /* of the sync */
    else if (job->error == 0)
        zk_join_take_list(job, reply);
}

static void list_done(zk_job *job)
{
    if (job->error)
        zk_job_unsettled(job, job->error);
    else
        zk_join_judged(job);
}

void zk_join_list(zk_job *job)
{
    job->take = list_take;
    job->done = list_done;
    job->synced = true;
    zk_ask_fresh_list(job, job->entry->path.data, job->entry->dir_len);
}

static void find_take(zk_job *job, unsigned i, const zk_reply *reply)
{
    bool found;

    zk_store_lock(job->store);
    if (zk_look_find(job, i, reply, &found) && !found)
        job->entry->uncertain = false;
    zk_store_unlock(job->store);
}

static void find_done(zk_job *job)
{
    if (job->error)
        zk_job_refused(job, job->error, "queue");
    else if (job->entry->uncertain)
        adopt(job);
    else
        zk_join_begin(job);
}

void zk_join_find(zk_job *job)
{
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
    if (zk_is_permit(job)) {
        zk_survey_take(job, i - 1, reply);
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

static void try_end(zk_job *job);

static void try_judged(zk_job *job)
{
    const zk_survey *survey = &job->survey;

    if (survey->error)
        job->error = survey->error;
    else if (survey->other_kind)
        job->code = HF_EKIND;
    else if (survey->ahead || survey->leases >= job->entry->places)
        job->code = HF_EBUSY;
    try_end(job);
}

static void try_done(zk_job *job)
{
    if (zk_is_permit(job) && !job->error && !job->code)
        zk_survey_judge(job, try_judged);
    else
        try_end(job);
}

static void try_end(zk_job *job)
{
    if (job->error || job->code)
        zk_join_forget(job);
    if (job->error)
        zk_job_refused(job, job->error, "queue");
    else if (job->code == HF_ENOMEM)
        zk_job_no_memory(job);
    else if (job->code)
        zk_join_refuse(job, job->code);
    else
        zk_join_create(job);
}

void zk_join_try(zk_job *job)
{
    job->take = try_take;
    job->done = try_done;
    if (zk_is_permit(job)) {
        zk_job_ask(job, 0, ZK_SYNC, "/", 1);
        zk_survey_ask(job, 1);
        zk_job_send(job, 4);
    } else {
        zk_ask_fresh_list(job, job->entry->path.data, job->entry->dir_len);
    }
}
