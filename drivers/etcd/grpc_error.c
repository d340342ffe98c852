/* grpc_error.c - what a refusal of etcd's means.
 *
 * One question: this call was answered with an error; was it done, and what
 * does the user need to know or to do?  Knows nothing of connections or calls.
 *
 * The table is read from the top; the first row whose number and words fit
 * counts.  HF_APPLIED, an answered no, is said only where etcd refuses before
 * it proposes, or refuses in the same way on every member when it applies.
 * What was given up on the way (timed out, leader lost, server stopped) may
 * still be done, by a leader that we do not hear: UNKNOWN.  So is what no row
 * knows. */
#include <string.h>

#include "grpc_inside.h"

enum { ANY = -1, TOLD = 1 /* the server's own words belong to the text */ };

typedef struct row {
    int grpc;        /* ANY, or the number */
    const char *has; /* NULL: anything */
    hf_outcome outcome;
    int code;
    int flags;
    const char *text;
} row;

static const row rows[] = {
    {ANY, "no leader", HF_APPLIED, HF_EUNAVAIL, 0,
     "the member has no leader: is a majority of the members up, and does it "
     "reach them?"},
    {ANY, "leader changed", HF_UNKNOWN, HF_EUNAVAIL, 0,
     "the leader changed meanwhile: again"},
    {ANY, "not leader", HF_APPLIED, HF_EUNAVAIL, 0,
     "the leader changed meanwhile: again"},
    {ANY, "previous leader failure", HF_UNKNOWN, HF_EUNAVAIL, 0,
     "the leader was lost before it answered"},
    {ANY, "possibly due to connection lost", HF_UNKNOWN, HF_EUNAVAIL, 0,
     "the member lost the connection to a majority before it answered"},
    {ANY, "request timed out", HF_UNKNOWN, HF_EUNAVAIL, 0,
     "the cluster did not answer the member in time: is a majority up, are its "
     "disks fast enough?"},
    {ANY, "raft proposal dropped", HF_APPLIED, HF_EUNAVAIL, 0,
     "the member has no leader: is a majority of the members up, and does it "
     "reach them?"},
    {ANY, "server stopped", HF_UNKNOWN, HF_EUNAVAIL, 0,
     "the member is being stopped"},
    {ANY, "unhealthy cluster", HF_APPLIED, HF_EUNAVAIL, 0,
     "the cluster is not healthy: see etcdctl endpoint health"},
    {ANY, "not capable", HF_APPLIED, HF_EUNAVAIL, 0,
     "the cluster is just starting, or too old for this call"},
    {ANY, "not supported for learner", HF_APPLIED, HF_EUNAVAIL, 0,
     "the member is a learner: leave it out of the URL"},
    {ANY, "corrupt cluster", HF_APPLIED, HF_EUNAVAIL, 0,
     "the cluster has raised the CORRUPT alarm: see etcdctl alarm list"},
    {ANY, "too many requests", HF_APPLIED, HF_EUNAVAIL, 0,
     "the cluster has too many requests under way: later"},
    {ANY, "database space exceeded", HF_APPLIED, HF_EUNAVAIL, 0,
     "the database is full (NOSPACE alarm): compact, defragment, then etcdctl "
     "alarm disarm; or raise --quota-backend-bytes"},
    {ANY, "request is too large", HF_APPLIED, HF_EINVAL, 0,
     "the request is larger than --max-request-bytes"},
    {ANY, "received message larger than max", HF_APPLIED, HF_EINVAL, 0,
     "the request is larger than --max-request-bytes"},
    {ANY, "too many operations in txn", HF_APPLIED, HF_EINVAL, 0,
     "the transaction is larger than --max-txn-ops"},
    {ANY, "has been compacted", HF_APPLIED, HF_EUNAVAIL, 0,
     "the revision has been compacted"},
    {ANY, "is a future revision", HF_APPLIED, HF_EUNAVAIL, 0,
     "the revision lies in the future: was a backup restored?"},
    {ANY, "requested lease not found", HF_APPLIED, HF_EEXPIRED, 0,
     "the lease is gone"},
    {ANY, "lease already exists", HF_APPLIED, HF_EBUSY, 0,
     "the lease exists already"},
    {ANY, "too large lease TTL", HF_APPLIED, HF_EINVAL, 0,
     "the lease is too long"},
    {ANY, "invalid auth token", HF_APPLIED, HF_EAUTH, 0,
     "the token of the login is not valid (any more)"},
    {ANY, "revision of auth store is old", HF_APPLIED, HF_EAUTH, 0,
     "users or roles were changed meanwhile: again"},
    {ANY, "revision in header is old", HF_APPLIED, HF_EAUTH, 0,
     "users or roles were changed meanwhile: again"},
    {ANY, "invalid user ID or password", HF_APPLIED, HF_EAUTH, 0,
     "etcd refused the user name or the password"},
    {ANY, "user name is empty", HF_APPLIED, HF_EAUTH, 0,
     "etcd wants a user and a password: put them into the URL "
     "(etcd://user:password@host) or into a URL file"},
    {ANY, "user name not found", HF_APPLIED, HF_EAUTH, 0,
     "etcd does not know the user"},
    {ANY, "authentication is not enabled", HF_APPLIED, HF_EAUTH, 0,
     "etcd has no authentication switched on, and the URL has a user: take it "
     "out, or give the right server"},
    {ANY, "permission denied", HF_APPLIED, HF_EPERM, 0,
     "the user may not do this: grant its role readwrite on the prefix"},
    {ANY, "permission is not granted", HF_APPLIED, HF_EPERM, 0,
     "the user may not do this: grant its role readwrite on the prefix"},
    {GRPC_PERMISSION_DENIED, NULL, HF_APPLIED, HF_EPERM, TOLD, "not permitted"},
    {GRPC_UNAUTHENTICATED, NULL, HF_APPLIED, HF_EAUTH, TOLD,
     "the login was refused"},
    {GRPC_UNIMPLEMENTED, NULL, HF_APPLIED, HF_EPROTO, TOLD,
     "the server lacks this call: is it etcd 3.4 or later?"},
    {GRPC_INVALID_ARGUMENT, "etcdserver:", HF_APPLIED, HF_EPROTO, TOLD,
     "etcd refused the request"},
    {GRPC_DEADLINE_EXCEEDED, NULL, HF_UNKNOWN, HF_EUNAVAIL, 0,
     "the member gave up at the deadline"},
    {GRPC_CANCELLED, NULL, HF_UNKNOWN, HF_EUNAVAIL, TOLD,
     "the call was cancelled"},
    {GRPC_RESOURCE_EXHAUSTED, NULL, HF_UNKNOWN, HF_EUNAVAIL, TOLD,
     "the member has no room for it"},
    {GRPC_UNAVAILABLE, NULL, HF_UNKNOWN, HF_EUNAVAIL, TOLD,
     "the member is not available"},
    {ANY, NULL, HF_UNKNOWN, HF_EPROTO, TOLD, "etcd says"},
};

bool grpc_is_stale_token(grpc_code code, const char *message)
{
    return code == GRPC_UNAUTHENTICATED ||
           strstr(message, "invalid auth token") ||
           strstr(message, "revision of auth store is old") ||
           strstr(message, "revision in header is old");
}

hf_outcome grpc_error_of(grpc_code code, const char *message, hf_error *ret)
{
    char line[GRPC_MESSAGE + 1];
    const row *at = rows;

    while ((at->grpc != ANY && at->grpc != (int)code) ||
           (at->has && !strstr(message, at->has)))
        at++;
    grpc_decode_text(line, sizeof line, message, strlen(message));
    if (at->flags & TOLD)
        hfd_error(ret, at->code, "etcd", (int)code, "%s: %s (gRPC code %d)",
                  at->text, line, (int)code);
    else
        hfd_error(ret, at->code, "etcd", (int)code, "%s", at->text);
    return at->outcome;
}
