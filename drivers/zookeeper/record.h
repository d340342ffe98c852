/* record.h - ZooKeeper's records as bytes: requests out, replies in.
 *
 * Knows the wire format and nothing of connections or locks.  A decoder never
 * reads past what it was given, never trusts a length, and answers false for
 * anything that is not whole and sane: that ends the connection. */
#ifndef HF_DRIVERS_ZOOKEEPER_RECORD_H
#define HF_DRIVERS_ZOOKEEPER_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "net/buf.h"

typedef enum zk_op {
    ZK_DELETE = 2,
    ZK_EXISTS = 3,
    ZK_GET_DATA = 4,
    ZK_SET_DATA = 5,
    ZK_GET_ACL = 6,
    ZK_SYNC = 9,
    ZK_PING = 11,
    ZK_GET_CHILDREN = 12, /* getChildren2: with the parent's stat */
    ZK_MULTI = 14,        /* creates and deletes of `parts` */
    ZK_CREATE = 15,       /* create2: with the node's stat */
    ZK_CREATE_CONTAINER = 19,
    ZK_AUTH = 100,
    ZK_WHO = 107, /* whoAmI, 3.7 */
    ZK_CLOSE = -11,
    ZK_BEGIN = -100 /* the wire's: connect and begin a session */
} zk_op;

typedef enum zk_error {
    ZK_OK = 0,
    ZK_UNIMPLEMENTED = -6,
    ZK_NO_NODE = -101,
    ZK_NO_AUTH = -102,
    ZK_BAD_VERSION = -103,
    ZK_NO_CHILDREN_FOR_EPHEMERALS = -108,
    ZK_NODE_EXISTS = -110,
    ZK_NOT_EMPTY = -111,
    ZK_SESSION_EXPIRED = -112,
    ZK_INVALID_ACL = -114,
    ZK_AUTH_FAILED = -115,
    ZK_SESSION_MOVED = -118,
    ZK_NOT_READONLY = -119,
    ZK_QUOTA = -125
} zk_error;

enum zk_perm {
    ZK_PERM_READ = 1,
    ZK_PERM_WRITE = 2,
    ZK_PERM_CREATE = 4,
    ZK_PERM_DELETE = 8,
    ZK_PERM_ADMIN = 16
};

enum { ZK_EPHEMERAL = 1, ZK_SEQUENCE = 2, ZK_CONTAINER = 4 };
typedef enum zk_event {
    ZK_EVENT_CREATED = 1,
    ZK_EVENT_DELETED = 2,
    ZK_EVENT_CHANGED = 3,
    ZK_EVENT_CHILD = 4
} zk_event;

typedef struct zk_request {
    zk_op op;
    const char *path;
    size_t path_len;
    const void *data; /* create, setData */
    size_t data_len;
    int32_t flags;   /* create */
    int32_t version; /* delete, setData: -1 any; ZK_BEGIN: timeout in ms */
    bool watch;      /* exists, getData, getChildren */
    bool closed_acl; /* create: for the creator alone (auth), not the world */
    const struct zk_request *parts; /* multi */
    unsigned part_count;
} zk_request;

typedef struct zk_stat {
    int64_t czxid, mzxid, ctime, mtime;
    int32_t version, cversion, aversion;
    int64_t ephemeral_owner;
    int32_t data_length, children;
    int64_t pzxid;
} zk_stat;

typedef struct zk_reply {
    int32_t error; /* zk_error */
    int64_t zxid;
    const char *path; /* create: the name that was given */
    size_t path_len;
    zk_stat stat;
    const char *data; /* getData */
    size_t data_len;
    const char *names; /* getChildren: zk_next_name walks */
    size_t names_len;
    uint32_t name_count; /* whoAmI: scheme, user, scheme, user ... */
    int32_t world;       /* getACL: what anybody may do, bits of zk_perm */
    int64_t session;     /* ZK_BEGIN */
    int32_t timeout_ms;  /* ZK_BEGIN */
} zk_reply;

/* ---- Out; a buffer that ran out of memory says so by itself ---- */

typedef struct zk_connect {
    int64_t session; /* 0: a new one */
    int64_t zxid;    /* the last one seen */
    int32_t timeout_ms;
    char password[16];
} zk_connect;
void zk_write_connect(hf__buf *out, const zk_connect *connect);
/* With its header and its length; ZK_PING and ZK_AUTH have xids of their own
 * (auth: `data` is "user:password"). */
void zk_write_request(hf__buf *out, int32_t xid, const zk_request *request);

/* ---- In ---- */

enum { ZK_XID_EVENT = -1, ZK_XID_PING = -2, ZK_XID_AUTH = -4 };
enum { ZK_FRAME_MAX = 16 * 1024 * 1024 };

typedef struct zk_header {
    int32_t xid;
    int64_t zxid;
    int32_t error;
} zk_header;

typedef struct zk_connected {
    int64_t session; /* 0: it is over */
    int32_t timeout_ms;
    char password[16];
    bool read_only;
} zk_connected;

/* How long the frame at the front is, with its length: 0: more is to come,
 * -1: no frame of ZooKeeper's.  The readers below take what is behind the
 * length, the body of one frame. */
long zk_frame(const char *bytes, size_t len);
bool zk_read_connected(const char *body, size_t len, zk_connected *ret);
bool zk_read_header(const char *body, size_t len, zk_header *ret);
/* The whole body, header included, as the answer to this request; ret->path
 * and the others point into it. */
bool zk_read_reply(const char *body, size_t len, const zk_request *request,
                   zk_reply *ret);
bool zk_read_event(const char *body, size_t len, int32_t *ret_type,
                   const char **ret_path, size_t *ret_len);

/* Walks the children of a reply that was decoded (and so is sane): *at begins
 * at 0; false: that was the last one. */
bool zk_next_name(const zk_reply *reply, size_t *at, const char **ret,
                  size_t *ret_len);

#endif
