/* job.c - an operation on its way, over one flight or several.
 *
 * A job is a call of the wire with what the operation needs between two
 * flights; it comes from a pool, so an operation costs no allocation once a few
 * have run.  An operation says what is asked, how a reply is taken and what is
 * done when all have come; here is what is the same for all of them.
 *
 * The connection breaks with requests on their way: nobody knows what was done.
 * All that is asked here may be asked again (a creation is looked for by its
 * id, a deletion that finds nothing was ours), so that is done once, on the
 * next connection; what is lost twice is HF_UNKNOWN, and the core goes on.
 * That is also how an expired session is learned from its own closing.
 *
 * Driven: the thread that started it is inside zk_store_drive until the last
 * flight has landed, and gives the job back; else the last flight does. */
#include <string.h>

#include "store.h"

enum { SPARE_JOBS = 32 };

static zk_job *job_of(zk_call *call)
{
    return (zk_job *)(void *)call;
}

/* ---- The pool ----------------------------------------------------------- */

static zk_job *take_job(hf_store *store)
{
    zk_job *job;

    zk_store_lock(store);
    job = store->spare_jobs;
    if (job) {
        store->spare_jobs = job->next;
        store->spare_job_count--;
    }
    zk_store_unlock(store);
    return job ? job : hfd_alloc(sizeof *job);
}

/* Only the strings are worth keeping. */
static void clean_job(zk_job *job)
{
    zk_text path = job->path, data = job->data, seen = job->survey.path;
    zk_text texts[ZK_MOST_REQUESTS][2];

    for (size_t i = 0; i < ZK_MOST_REQUESTS; i++) {
        texts[i][0] = job->members[i].whom;
        texts[i][1] = job->members[i].data;
    }
    memset(job, 0, sizeof *job);
    job->path = path;
    job->data = data;
    job->survey.path = seen;
    for (size_t i = 0; i < ZK_MOST_REQUESTS; i++) {
        job->members[i].whom = texts[i][0];
        job->members[i].data = texts[i][1];
    }
}

static void give_back(zk_job *job)
{
    hf_store *store = job->store;
    bool keep;

    clean_job(job);
    zk_store_lock(store);
    keep = store->spare_job_count < SPARE_JOBS;
    if (keep) {
        job->next = store->spare_jobs;
        store->spare_jobs = job;
        store->spare_job_count++;
    }
    zk_store_unlock(store);
    if (!keep)
        zk_job_free(job);
}

void zk_job_free(zk_job *job)
{
    zk_text_done(&job->path);
    zk_text_done(&job->data);
    zk_text_done(&job->survey.path);
    for (size_t i = 0; i < ZK_MOST_REQUESTS; i++) {
        zk_text_done(&job->members[i].whom);
        zk_text_done(&job->members[i].data);
    }
    hfd_free(job);
}

/* ---- Ending ------------------------------------------------------------- */

/* Before it is told: then the store may be gone. */
static void finish_op(hf_op *op, hf_outcome outcome, int code)
{
    hf__line *line = (hf__line *)op->own[ZK_OWN_LINE];

    if (line)
        hf__line_ended(line);
    hfd_finish(op, outcome, code);
}

void zk_op_ok(hf_op *op)
{
    op->sent = hfd_now();
    finish_op(op, HF_APPLIED, 0);
}

void zk_op_refuse(hf_op *op, hf_outcome outcome, int code, const char *text)
{
    if (op->sent == 0)
        op->sent = hfd_now();
    hfd_error(&op->error, code, "zookeeper", 0, "%s", text);
    finish_op(op, outcome, code);
}

void zk_op_note(zk_job *job, int code, const char *text)
{
    if (job->op)
        hfd_error(&job->op->error, code, "zookeeper", 0, "%s", text);
}

static void drop_references(zk_job *job)
{
    hf_store *store = job->store;

    zk_store_lock(store);
    if (job->entry)
        zk_entry_unref(store, job->entry);
    for (unsigned i = 0; i < job->member_count; i++) {
        if (job->members[i].entry)
            zk_entry_unref(store, job->members[i].entry);
        job->members[i].entry = NULL;
    }
    zk_store_unlock(store);
    job->entry = NULL;
    job->member_count = 0;
}

void zk_job_finish(zk_job *job, hf_outcome outcome, int code)
{
    hf_op *op = job->op;
    bool driven = op && op->driven;

    job->outcome = outcome;
    if (job->end)
        job->end(job);
    job->end = NULL;
    drop_references(job);
    if (op && op->sent == 0)
        op->sent = job->call.sent ? job->call.sent : hfd_now();
    if (!driven)
        give_back(job);
    if (op)
        finish_op(op, outcome, code);
}

void zk_job_ok(zk_job *job)
{
    zk_job_finish(job, HF_APPLIED, 0);
}

void zk_job_refuse(zk_job *job, int code, const char *text)
{
    zk_op_note(job, code, text);
    zk_job_finish(job, HF_APPLIED, code);
}

/* An earlier attempt was lost, or half of it is done. */
static bool is_begun(const zk_job *job)
{
    return job->repeated || (job->op && job->op->kind == HF_OP_JOIN &&
                             job->entry && job->entry->created);
}

void zk_job_refused(zk_job *job, int32_t error, const char *path)
{
    hf_error why = {.code = 0};
    int code = zk_error_of(error, path, &why);
    hf_outcome outcome = HF_APPLIED;

    if (job->op)
        job->op->error = why;
    /* Later, perhaps: the server did not do this. */
    if (hf_error_class(code) == HF_CLASS_RETRY)
        outcome = is_begun(job) ? HF_UNKNOWN : HF_NOT_APPLIED;
    zk_job_finish(job, outcome, code);
}

void zk_job_unsettled(zk_job *job, int32_t error)
{
    hf_error why = {.code = 0};
    int code = zk_error_of(error, "queue", &why);

    if (job->op)
        job->op->error = why;
    zk_job_finish(job, HF_UNKNOWN, code);
}

/* In the middle of something: what was done before is not undone. */
void zk_job_no_memory(zk_job *job)
{
    zk_op_note(job, HF_ENOMEM, "out of memory");
    zk_job_finish(job, job->under_way ? HF_UNKNOWN : HF_NOT_APPLIED, HF_ENOMEM);
}

void zk_job_expired(zk_job *job)
{
    hf_op *op = job->op;

    if (op && op->kind == HF_OP_LEAVE) {
        zk_place_gone(op->place, HF_EEXPIRED);
        zk_job_ok(job);
    } else if (op && op->kind == HF_OP_DETACH) {
        job->done(job);
    } else {
        zk_job_refuse(job, HF_EEXPIRED, "the session is over");
    }
}

/* ---- Flights ------------------------------------------------------------ */

static void fail(zk_job *job, hf_outcome outcome, const hf_error *why)
{
    if (job->op)
        job->op->error = *why;
    if (is_begun(job))
        outcome = HF_UNKNOWN;
    zk_job_finish(job, outcome, why->code ? why->code : HF_EUNAVAIL);
}

static void answered(zk_call *call, unsigned i, const zk_reply *reply)
{
    zk_job *job = job_of(call);

    if (reply->error == ZK_SESSION_EXPIRED || reply->error == ZK_SESSION_MOVED)
        job->expired = true;
    else
        job->take(job, i, reply);
}

static void landed(zk_call *call, hf_outcome outcome, const hf_error *why)
{
    zk_job *job = job_of(call);

    if (outcome == HF_APPLIED && !job->expired) {
        job->done(job);
    } else if (outcome == HF_APPLIED || why->code == HF_EEXPIRED) {
        zk_job_expired(job);
    } else if (outcome == HF_UNKNOWN && !job->repeated && job->redo &&
               hfd_now() < call->deadline) {
        job->repeated = true;
        job->redo(job);
    } else {
        fail(job, outcome, why);
    }
}

zk_job *zk_job_new(hf_store *store, hf_op *op)
{
    zk_job *job = take_job(store);

    if (!job) {
        if (op)
            zk_op_refuse(op, HF_NOT_APPLIED, HF_ENOMEM, "out of memory");
        return NULL;
    }
    job->store = store;
    job->op = op;
    job->call.answered = answered;
    job->call.landed = landed;
    if (op) {
        job->call.deadline = op->deadline;
        job->call.driven = op->driven;
        op->own[ZK_OWN_JOB] = (uintptr_t)job;
    }
    return job;
}

zk_request *zk_job_ask(zk_job *job, unsigned i, zk_op op, const char *path,
                       size_t len)
{
    zk_request *request = &job->call.requests[i];

    *request =
        (zk_request){.op = op, .path = path, .path_len = len, .version = -1};
    return request;
}

void zk_ask_fresh_list(zk_job *job, const char *path, size_t len)
{
    zk_job_ask(job, 0, ZK_SYNC, "/", 1);
    zk_job_ask(job, 1, ZK_GET_CHILDREN, path, len);
    zk_job_send(job, 2);
}

void zk_job_send(zk_job *job, unsigned count)
{
    if (job->op && job->op->sent == 0 && job->call.sent)
        job->op->sent = job->call.sent; /* of several the first counts */
    if (!job->under_way) /* the thread that drives it may be reading it */
        job->under_way = true;
    job->call.count = count;
    zk_wire_start(job->store->wire, &job->call);
}

void zk_store_drive(hf_store *store, hf_op *op)
{
    zk_job *job = (zk_job *)op->own[ZK_OWN_JOB];

    if (!job)
        return; /* answered without a round trip */
    if (job->under_way)
        zk_wire_drive(store->wire, &job->call);
    give_back(job);
}
