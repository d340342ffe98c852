/* errors.c - what an error of a reply means.
 *
 * One question: this request was answered with an error; what does the caller
 * do about it, and what does the user need to know?  Knows nothing of
 * connections or of locks: whoever has a use for "it is not there" looks at
 * the number before he asks here.
 *
 * ZooKeeper's errors are answers: the request was not done, and the server
 * says so in its place in the session's order, so none of them leaves a doubt.
 * A session that has expired or moved is over for us: nothing revives it. */
#include "wire.h"

typedef struct row {
    int32_t error;
    int code;
    const char *text;
} row;

enum {
    SYSTEM_ERROR = -1,
    CONNECTION_LOSS = -4,
    MARSHALLING = -5,
    OPERATION_TIMEOUT = -7,
    BAD_ARGUMENTS = -8,
    THROTTLED = -127
};

static const row rows[] = {
    {ZK_NO_NODE, HF_EURL,
     "it is not there: does the path at the end of the URL exist?"},
    {ZK_NO_AUTH, HF_EPERM,
     "its ACL does not allow it: put user:password into the URL, or have the "
     "ACL changed"},
    {ZK_INVALID_ACL, HF_EURL,
     "an ACL for the creator alone needs user:password in the URL"},
    {ZK_AUTH_FAILED, HF_EAUTH, "the server refused user and password"},
    {ZK_SESSION_EXPIRED, HF_EEXPIRED, "the session has expired"},
    {ZK_SESSION_MOVED, HF_EEXPIRED,
     "the session has moved to another connection"},
    {ZK_NODE_EXISTS, HF_EBUSY, "it is there already"},
    {ZK_NOT_EMPTY, HF_EBUSY, "it has children"},
    {ZK_BAD_VERSION, HF_EBUSY, "it was changed meanwhile"},
    {ZK_NO_CHILDREN_FOR_EPHEMERALS, HF_EKIND,
     "a node above it is ephemeral and can have no children: that name is in "
     "use for something else"},
    {ZK_NOT_READONLY, HF_EQUORUM,
     "the member has lost its quorum and takes no writes: later"},
    {ZK_QUOTA, HF_EFULL, "a quota of the server is used up"},
    {ZK_UNIMPLEMENTED, HF_ENOTSUP,
     "the server does not know this request: version 3.5 or later is needed, "
     "and container nodes must not be switched off"},
    {BAD_ARGUMENTS, HF_EINVAL, "the server does not take this name or value"},
    {THROTTLED, HF_EUNAVAIL, "the server has too much to do: later"},
    {OPERATION_TIMEOUT, HF_EUNAVAIL, "the server gave it up: later"},
    {CONNECTION_LOSS, HF_EUNAVAIL, "the server has lost its leader: later"},
    {MARSHALLING, HF_EPROTO, "the server cannot read the request"},
    {SYSTEM_ERROR, HF_EPROTO, "the server has met a bug: see its log"},
};

int zk_error_of(int32_t error, const char *path, hf_error *ret)
{
    const char *name = path ? path : "";

    if (error == ZK_OK)
        return 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].error == error)
            return hfd_error(ret, rows[i].code, "zookeeper", error,
                             *name ? "'%.100s': %s" : "%.100s%s", name,
                             rows[i].text);
    }
    return hfd_error(ret, HF_EPROTO, "zookeeper", error,
                     *name ? "'%.100s': the server says error %d"
                           : "%.100sthe server says error %d",
                     name, (int)error);
}
