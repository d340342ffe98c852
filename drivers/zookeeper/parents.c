/* parents.c - the nodes above a node, made where they are missing.
 *
 * As containers, which the server removes once they are empty, so that a
 * million keys leave nothing behind; on a server that has none, as plain
 * nodes.  From the top down, a few in a flight: one that is there already is
 * as good as made.  One that may not be made (its ACL) may still be there; the
 * creation that follows says so.  A container that is removed between two of
 * our requests is made again by the caller, who begins anew. */
#include <string.h>

#include "store.h"

/* How long the path of the node above is; 0: it is the top. */
static size_t parent_len(const char *path, size_t len)
{
    while (len > 0 && path[len - 1] != '/')
        len--;
    return len > 0 ? len - 1 : 0;
}

/* The end of the name that follows; len: the path's. */
static size_t name_end(const char *path, size_t len, size_t from)
{
    while (from < len && path[from] != '/')
        from++;
    return from;
}

void zk_parents_ask(zk_job *job, unsigned i, const char *path, size_t len)
{
    zk_request *request = zk_job_ask(
        job, i, job->store->plain_parents ? ZK_CREATE : ZK_CREATE_CONTAINER,
        path, len);

    request->flags = job->store->plain_parents ? 0 : ZK_CONTAINER;
    request->closed_acl = job->store->closed_acl;
}

static void send_some(zk_job *job);

static void parents_take(zk_job *job, unsigned i, const zk_reply *reply)
{
    (void)i;
    if (reply->error == ZK_UNIMPLEMENTED && !job->store->plain_parents) {
        job->store->plain_parents = true;
        job->at = 0; /* once more, as plain nodes */
    } else if (reply->error && reply->error != ZK_NODE_EXISTS &&
               reply->error != ZK_NO_AUTH && reply->error != ZK_NO_NODE) {
        job->error = reply->error;
    }
}

static void parents_done(zk_job *job)
{
    if (job->error)
        zk_job_refused(job, job->error, job->above);
    else
        send_some(job);
}

static void send_some(zk_job *job)
{
    size_t end = parent_len(job->above, job->above_len);
    unsigned n = 0;

    while (n < ZK_MOST_REQUESTS && job->at < end) {
        job->at = name_end(job->above, end, job->at + 1);
        zk_parents_ask(job, n++, job->above, job->at);
    }
    if (n == 0) {
        job->at = 0;
        job->ready(job);
        return;
    }
    job->error = 0;
    job->take = parents_take;
    job->done = parents_done;
    zk_job_send(job, n);
}

void zk_parents_go(zk_job *job, const char *path, size_t len,
                   void (*ready)(zk_job *job))
{
    job->above = path;
    job->above_len = len;
    job->ready = ready;
    job->at = 0;
    send_some(job);
}
