/* evict.c - HF_OP_EVICT: an operator takes a lock away.
 *
 * At once: the holder's node is deleted, and the server passes the lock on; the
 * old owner may act until it hears of it, and only its token protects.
 *
 * With time to leave: the mark goes into the data of the holder's node.  Its
 * owner watches that node (patrol.c), is told, and leaves; if it does not, then
 * whoever waits for that node deletes it when it has seen the mark for a lease
 * (look.c).  The server has no timers, so with nobody waiting the node stays,
 * marked, which hurts nobody.  The mark demands the version that was read, so
 * it is never written over what its owner publishes at the same time.
 *
 * A holder of another program is asked with the word that Curator has for it,
 * __REVOKE__, and is deleted by nobody: it cannot be told that it has lost.
 *
 * Reply lost: done again, what is gone already is not counted a second time. */
#include <string.h>

#include "store.h"

typedef struct holders { /* paths, one behind another, each with its length */
    hf__buf paths;
    int32_t version;
    bool skip;
    bool permits; /* some of them have leases */
} holders;

static void evict_next(zk_job *job);

static void evict_end(zk_job *job)
{
    holders *h = job->more;

    hf__buf_done(&h->paths);
    hfd_free(h);
    job->more = NULL;
}

/* The first of those that are left; false: none is. */
static bool first_holder(const holders *h, const char **ret, size_t *ret_len)
{
    const char *at = h->paths.data + h->paths.start;

    if (hf__buf_len(&h->paths) == 0)
        return false;
    memcpy(ret_len, at, sizeof *ret_len);
    *ret = at + sizeof *ret_len;
    return true;
}

static void drop_holder(zk_job *job)
{
    holders *h = job->more;
    const char *path;
    size_t len;

    if (first_holder(h, &path, &len))
        hf__buf_eat(&h->paths, sizeof len + len);
    evict_next(job);
}

/* ---- Who holds ---------------------------------------------------------- */

static void add_holder(zk_job *job, const zk_text *dir, const char *name,
                       size_t name_len)
{
    holders *h = job->more;
    size_t len = dir->len + 1 + name_len;

    hf__buf_add(&h->paths, &len, sizeof len);
    hf__buf_add(&h->paths, dir->data, dir->len);
    hf__buf_add(&h->paths, "/", 1);
    hf__buf_add(&h->paths, name, name_len);
}

/* Who has a lease holds a permit. */
static void take_leases(zk_job *job, const zk_reply *reply)
{
    const char *text;
    size_t at = 0, len;
    zk_name name;

    while (zk_next_name(reply, &at, &text, &len)) {
        if (!zk_name_parse(&name, text, len) || name.kind != ZK_KIND_LEASE)
            continue;
        add_holder(job, &job->survey.path, text, len);
        ((holders *)job->more)->permits = true;
    }
}

static void take_queue(zk_job *job, const zk_reply *reply)
{
    bool any = false, alone = false;
    int32_t first = 0, first_alone = 0;
    const char *text;
    size_t at = 0, len;
    zk_name name;

    for (; zk_next_name(reply, &at, &text, &len);) {
        if (!zk_name_parse(&name, text, len) || name.kind == ZK_KIND_LEASE)
            continue;
        if (!any || zk_seq_order(name.seq, first) < 0)
            first = name.seq;
        any = true;
        if (!zk_kind_is_shared(name.kind) &&
            (!alone || zk_seq_order(name.seq, first_alone) < 0)) {
            first_alone = name.seq;
            alone = true;
        }
    }
    for (at = 0; zk_next_name(reply, &at, &text, &len);) {
        if (!zk_name_parse(&name, text, len) || name.kind == ZK_KIND_LEASE)
            continue;
        if (zk_kind_is_shared(name.kind)
                ? !alone || zk_seq_order(name.seq, first_alone) < 0
                : name.seq == first)
            add_holder(job, &job->path, text, len);
    }
}

/* A sync, the queue, the leases. */
static void holders_take(zk_job *job, unsigned i, const zk_reply *reply)
{
    if (reply->error && reply->error != ZK_NO_NODE)
        job->error = reply->error;
    if (job->error || reply->error)
        return;
    if (i == 1)
        take_queue(job, reply);
    else if (i == 2)
        take_leases(job, reply);
}

static void holders_done(zk_job *job)
{
    holders *h = job->more;

    if (h->paths.failed)
        zk_job_no_memory(job);
    else if (job->error)
        zk_job_refused(job, job->error, job->path.data);
    else
        evict_next(job);
}

/* By a member that has caught up: a holder that it does not know of yet would
 * go on holding, and the operator would be told that nobody does. */
static void evict_list(zk_job *job)
{
    job->take = holders_take;
    job->done = holders_done;
    hf__buf_done(&((holders *)job->more)->paths);
    if (!job->op->now)
        job->op->count = 0; /* who was marked is found again, and counted */
    job->error = 0;
    zk_job_ask(job, 0, ZK_SYNC, "/", 1);
    zk_job_ask(job, 1, ZK_GET_CHILDREN, job->path.data, job->path.len);
    zk_job_ask(job, 2, ZK_GET_CHILDREN, job->survey.path.data,
               job->survey.path.len);
    zk_job_send(job, 3);
}

/* ---- One of them -------------------------------------------------------- */

static void change_take(zk_job *job, unsigned i, const zk_reply *reply)
{
    (void)i;
    job->error = reply->error;
}

static void change_done(zk_job *job)
{
    if (job->error == ZK_BAD_VERSION && ++job->tries <= 8) {
        evict_next(job); /* its owner published meanwhile: read it again */
        return;
    }
    if (job->error && job->error != ZK_NO_NODE) {
        zk_job_refused(job, job->error, job->path.data);
        return;
    }
    job->op->count += job->error == 0;
    drop_holder(job);
}

static void change_holder(zk_job *job)
{
    holders *h = job->more;
    zk_request *request;
    const char *path = "";
    size_t len = 0;

    if (job->error == ZK_NO_NODE || h->skip) {
        drop_holder(job); /* left by itself, or not the one that was meant */
        return;
    }
    if (job->error || job->code) {
        if (job->code)
            zk_job_no_memory(job);
        else
            zk_job_refused(job, job->error, job->path.data);
        return;
    }
    first_holder(h, &path, &len);
    request =
        zk_job_ask(job, 0, job->op->now ? ZK_DELETE : ZK_SET_DATA, path, len);
    if (!job->op->now) {
        request->data = job->data.data;
        request->data_len = job->data.len;
        request->version = h->version;
    }
    job->take = change_take;
    job->done = change_done;
    zk_job_send(job, 1);
}

static void read_take(zk_job *job, unsigned i, const zk_reply *reply)
{
    static const char revoke[] = "__REVOKE__";
    holders *h = job->more;
    bool good = true;
    int64_t token;
    zk_data data;

    (void)i;
    job->error = reply->error;
    if (reply->error)
        return;
    zk_data_read(&data, reply->data, reply->data_len);
    h->version = reply->stat.version;
    token = data.ours && data.number ? data.number : reply->stat.czxid;
    h->skip = job->op->token != 0 && job->op->token != (uint64_t)token;
    if (!data.ours) {
        good = zk_text_reserve(&job->data, sizeof revoke);
        if (good)
            memcpy(job->data.data, revoke, sizeof revoke - 1);
        job->data.len = sizeof revoke - 1;
    } else if (!data.broken) {
        /* Its owner may believe for as long as its own session lasts. */
        good = zk_data_mark(&job->data, reply->data, reply->data_len,
                            job->op->ttl / 1000000 > data.ttl_ms
                                ? job->op->ttl / 1000000
                                : data.ttl_ms);
    } else {
        good = zk_text_reserve(&job->data, reply->data_len);
        if (good)
            memcpy(job->data.data, reply->data, reply->data_len);
        job->data.len = reply->data_len;
    }
    if (!good)
        job->code = HF_ENOMEM;
}

/* ---- Whoever waits for a permit ----------------------------------------- */

static void tell_done(zk_job *job)
{
    if (job->error && job->error != ZK_NO_NODE)
        zk_job_refused(job, job->error, job->survey.path.data);
    else
        zk_job_ok(job);
}

/* It watches the children of `leases`, not each of them: a node comes and goes
 * there, unseen but for the event; and that there are marks to be read is
 * written on it. */
static void tell_waiters(zk_job *job)
{
    static const char name[] = "/%told";
    const zk_text *dir = &job->survey.path;
    zk_text *path = &job->members[0].whom;
    zk_request *parts = job->members[0].parts;
    zk_request *request = zk_job_ask(job, 0, ZK_MULTI, "", 0);

    if (!zk_text_reserve(path, dir->len + sizeof name)) {
        zk_job_no_memory(job);
        return;
    }
    memcpy(path->data, dir->data, dir->len);
    memcpy(path->data + dir->len, name, sizeof name);
    path->len = dir->len + sizeof name - 1;
    parts[0] = (zk_request){.op = ZK_SET_DATA,
                            .path = dir->data,
                            .path_len = dir->len,
                            .version = -1};
    parts[1] = (zk_request){.op = ZK_CREATE,
                            .path = path->data,
                            .path_len = path->len,
                            .flags = ZK_EPHEMERAL};
    parts[2] = (zk_request){.op = ZK_DELETE,
                            .path = path->data,
                            .path_len = path->len,
                            .version = -1};
    request->parts = parts;
    request->part_count = 3;
    job->take = change_take;
    job->done = tell_done;
    zk_job_send(job, 1);
}

static void evict_next(zk_job *job)
{
    const char *path;
    size_t len;

    if (!first_holder(job->more, &path, &len)) {
        if (((holders *)job->more)->permits && !job->op->now && job->op->count)
            tell_waiters(job);
        else
            zk_job_ok(job);
        return;
    }
    job->take = read_take;
    job->done = change_holder;
    zk_job_ask(job, 0, ZK_GET_DATA, path, len);
    zk_job_send(job, 1);
}

void zk_evict(hf_store *store, hf_op *op)
{
    static const char leases[] = "/leases";
    zk_job *job;
    holders *h;
    size_t room;

    if (op->text_len == 0 || op->text_len > HF_KEY_MAX) {
        zk_op_refuse(op, HF_NOT_APPLIED, HF_EINVAL,
                     "a key has 1 to 1000 bytes");
        return;
    }
    job = zk_job_new(store, op);
    if (!job)
        return;
    h = hfd_alloc(sizeof *h);
    room = ZK_PATH_ROOM(store->root_len, op->text_len);
    if (!h || !zk_text_reserve(&job->path, room) ||
        !zk_text_reserve(&job->survey.path, room + sizeof leases)) {
        hfd_free(h);
        zk_job_no_memory(job);
        return;
    }
    job->path.len = zk_path_write(job->path.data, store->root, store->root_len,
                                  op->text, op->text_len);
    memcpy(job->survey.path.data, job->path.data, job->path.len);
    memcpy(job->survey.path.data + job->path.len, leases, sizeof leases);
    job->survey.path.len = job->path.len + sizeof leases - 1;
    job->more = h;
    job->end = evict_end;
    job->redo = evict_list;
    evict_list(job);
}
