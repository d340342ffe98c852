/* survey.c - who else uses this key, and how?
 *
 * Permits and locks of one key do not see each other: locks are children of
 * its node, permits are below its `locks` and `leases`.  So each looks for the
 * other after its own node was created: of two who come at once the later
 * creation sees the earlier one, at least one of them is refused (HF_EKIND),
 * and never are both granted.  A lock looks only where the list of its queue
 * shows that there are such insides.
 *
 * A permit reads three lists in one flight, in this order: who waits, who
 * holds, who has locks.  Somebody who passes from waiting to holding meanwhile
 * is in one of the two.  How many places there are is in the data of ours, so
 * one of them is read: the first holder, or else the first who waits; whoever
 * came before us agreed with it.  Of Curator's nothing can be read.
 *
 * The one who was to be read is gone: all is read again. */
#include <string.h>

#include "store.h"

enum { LISTS = 3 };

/* ---- Lists -------------------------------------------------------------- */

/* The first of ours, other than this one, is whom we ask. */
static bool find_witness(zk_job *job, const zk_reply *children, zk_kind kind,
                         const char *dir, size_t dir_len)
{
    zk_survey *survey = &job->survey;
    const char *text;
    size_t at = 0, len;
    bool found = false;
    zk_name name;

    while (zk_next_name(children, &at, &text, &len)) {
        if (!zk_name_parse(&name, text, len) || name.maker != ZK_OURS ||
            name.kind != kind ||
            memcmp(&name.id, &job->entry->id, sizeof name.id) == 0 ||
            (found && zk_seq_order(name.seq, survey->first) > 0))
            continue;
        if (!zk_text_reserve(&survey->path, dir_len + 2 + len))
            return false;
        memcpy(survey->path.data, dir, dir_len);
        survey->path.data[dir_len] = '/';
        memcpy(survey->path.data + dir_len + 1, text, len);
        survey->path.len = dir_len + 1 + len;
        survey->first = name.seq;
        found = survey->witness = true;
    }
    return true;
}

static bool take_waiting(zk_job *job, const zk_reply *reply)
{
    zk_entry *entry = job->entry;
    bool good = true;
    zk_look look;

    if (entry->created) {
        zk_look_read(&look, reply, &entry->id, entry->kind, true, entry->seq);
        good = zk_look_judge(job, &job->members[0], &look);
    } else {
        zk_look_read_end(&look, reply, entry->kind);
    }
    job->survey.ahead = look.ahead;
    job->survey.other_kind = job->survey.other_kind || look.blind;
    return good && find_witness(job, reply, ZK_KIND_LOCK, entry->path.data,
                                entry->dir_len);
}

static void take_locks(zk_job *job, const zk_reply *reply)
{
    const char *text;
    size_t at = 0, len;
    zk_name name;

    while (zk_next_name(reply, &at, &text, &len)) {
        if (zk_name_parse(&name, text, len) && name.kind != ZK_KIND_LEASE)
            job->survey.other_kind = true;
    }
}

void zk_survey_take(zk_job *job, unsigned i, const zk_reply *reply)
{
    zk_survey *survey = &job->survey;
    const zk_entry *entry = job->entry;
    bool good = true;

    if (reply->error && reply->error != ZK_NO_NODE) {
        survey->error = reply->error;
    } else if (i == 1) {
        survey->homeless = reply->error != 0;
        survey->leases = zk_permit_count(reply);
        if (reply->error == 0)
            good = find_witness(job, reply, ZK_KIND_LEASE, entry->lease.data,
                                entry->lease_dir);
    } else if (reply->error == 0 && i == 0) {
        good = take_waiting(job, reply);
    } else if (reply->error == 0) {
        take_locks(job, reply);
    }
    if (!good)
        job->code = HF_ENOMEM;
}

void zk_survey_ask(zk_job *job, unsigned i)
{
    const zk_entry *entry = job->entry;
    zk_survey *survey = &job->survey;

    *survey = (zk_survey){.path = survey->path, .next = survey->next};
    zk_job_ask(job, i, ZK_GET_CHILDREN, entry->path.data, entry->dir_len);
    zk_job_ask(job, i + 1, ZK_GET_CHILDREN, entry->lease.data,
               entry->lease_dir);
    zk_job_ask(job, i + 2, ZK_GET_CHILDREN, entry->path.data, entry->top_len);
}

static void survey_done(zk_job *job)
{
    zk_survey_judge(job, job->survey.next);
}

void zk_survey_go(zk_job *job, void (*next)(zk_job *job))
{
    job->survey.next = next;
    job->members[0].needs = ZK_SEE_LIST;
    job->take = zk_survey_take;
    job->done = survey_done;
    zk_survey_ask(job, 0);
    zk_job_send(job, LISTS);
}

/* ---- How many places ---------------------------------------------------- */

static void witness_take(zk_job *job, unsigned i, const zk_reply *reply)
{
    zk_data data;

    (void)i;
    job->survey.witness = reply->error == ZK_NO_NODE; /* still to be found */
    if (reply->error && reply->error != ZK_NO_NODE)
        job->survey.error = reply->error;
    zk_data_read(&data, reply->data, reply->error ? 0 : reply->data_len);
    if (data.ours && data.places != job->entry->places)
        job->survey.other_kind = true;
}

static void witness_done(zk_job *job)
{
    if (job->survey.witness && ++job->tries <= 8)
        zk_survey_go(job, job->survey.next);
    else
        job->survey.next(job);
}

void zk_survey_judge(zk_job *job, void (*next)(zk_job *job))
{
    zk_survey *survey = &job->survey;

    survey->next = next;
    if (survey->error || survey->other_kind || job->code || !survey->witness) {
        next(job);
        return;
    }
    job->take = witness_take;
    job->done = witness_done;
    zk_job_ask(job, 0, ZK_GET_DATA, survey->path.data, survey->path.len);
    zk_job_send(job, 1);
}

/* ---- For locks ---------------------------------------------------------- */

static void inside_take(zk_job *job, unsigned i, const zk_reply *reply)
{
    const char *text;
    size_t at = 0, len;
    zk_name name;

    (void)i;
    if (reply->error && reply->error != ZK_NO_NODE)
        job->survey.error = reply->error;
    while (reply->error == 0 && zk_next_name(reply, &at, &text, &len)) {
        if (zk_name_parse(&name, text, len))
            job->survey.other_kind = true;
    }
}

static void inside_done(zk_job *job)
{
    job->survey.next(job);
}

void zk_survey_inside(zk_job *job, void (*next)(zk_job *job))
{
    static const char locks[] = "/locks", leases[] = "/leases";
    const zk_entry *entry = job->entry;
    size_t top = entry->top_len;
    zk_survey *survey = &job->survey;
    char *at;

    if (!zk_text_reserve(&survey->path, 2 * top + 20)) {
        zk_job_no_memory(job);
        return;
    }
    *survey = (zk_survey){.path = survey->path, .next = next};
    at = survey->path.data;
    memcpy(at, entry->path.data, top);
    memcpy(at + top, locks, sizeof locks - 1);
    zk_job_ask(job, 0, ZK_GET_CHILDREN, at, top + sizeof locks - 1);
    at += top + sizeof locks - 1;
    memcpy(at, entry->path.data, top);
    memcpy(at + top, leases, sizeof leases - 1);
    zk_job_ask(job, 1, ZK_GET_CHILDREN, at, top + sizeof leases - 1);
    job->take = inside_take;
    job->done = inside_done;
    zk_job_send(job, 2);
}
