/* record.c - requests as the bytes that a ZooKeeper server expects.
 *
 * One question: what are the bytes of this request?  Numbers are big-endian,
 * texts and blobs carry their length in front (-1: none), and every message
 * carries the length of all that follows; it is filled in when the end is
 * known, because only then is it known.  Knows nothing of connections.
 *
 * Out of memory: the buffer says `failed`, and whoever sends looks at it, so
 * half a request never goes out.  A password goes into the auth request alone.
 * Nothing is kept here, so two threads may write into two buffers at once. */
#include <string.h>

#include "record.h"

/* ---- Bytes ---- */

static void put_int(hf__buf *out, int32_t number)
{
    uint32_t n = (uint32_t)number;
    char bytes[4] = {(char)(n >> 24), (char)(n >> 16), (char)(n >> 8), (char)n};

    hf__buf_add(out, bytes, sizeof bytes);
}

static void put_long(hf__buf *out, int64_t number)
{
    put_int(out, (int32_t)(uint32_t)((uint64_t)number >> 32));
    put_int(out, (int32_t)(uint32_t)(uint64_t)number);
}

static void put_bool(hf__buf *out, bool yes)
{
    char byte = yes;

    hf__buf_add(out, &byte, 1);
}

static void put_blob(hf__buf *out, const void *bytes, size_t len)
{
    put_int(out, (int32_t)len);
    hf__buf_add(out, bytes, len);
}

static void put_text(hf__buf *out, const char *text)
{
    put_blob(out, text, strlen(text));
}

/* What is written from here on is a message; its length is not known yet. */
static size_t begin_frame(hf__buf *out)
{
    put_int(out, 0);
    return hf__buf_len(out);
}

static void end_frame(hf__buf *out, size_t from)
{
    uint32_t n;
    char *at;

    if (out->failed)
        return;
    n = (uint32_t)(hf__buf_len(out) - from);
    at = out->data + out->start + from - 4;
    at[0] = (char)(n >> 24);
    at[1] = (char)(n >> 16);
    at[2] = (char)(n >> 8);
    at[3] = (char)n;
}

/* ---- Requests ---- */

void zk_write_connect(hf__buf *out, const zk_connect *connect)
{
    size_t from = begin_frame(out);

    put_int(out, 0); /* version of the protocol */
    put_long(out, connect->zxid);
    put_int(out, connect->timeout_ms);
    put_long(out, connect->session);
    put_blob(out, connect->password, sizeof connect->password);
    /* No member that has lost its quorum: it could not take a lock. */
    put_bool(out, false);
    end_frame(out, from);
}

/* One right: for the world, or for whoever this connection is known as. */
static void put_acl(hf__buf *out, bool closed)
{
    put_int(out, 1);
    put_int(out, ZK_PERM_READ | ZK_PERM_WRITE | ZK_PERM_CREATE |
                     ZK_PERM_DELETE | ZK_PERM_ADMIN);
    put_text(out, closed ? "auth" : "world");
    put_text(out, closed ? "" : "anyone");
}

static void put_body(hf__buf *out, const zk_request *request)
{
    switch (request->op) {
    case ZK_CREATE:
    case ZK_CREATE_CONTAINER:
        put_blob(out, request->path, request->path_len);
        put_blob(out, request->data, request->data_len);
        put_acl(out, request->closed_acl);
        put_int(out, request->op == ZK_CREATE ? request->flags : ZK_CONTAINER);
        break;
    case ZK_DELETE:
        put_blob(out, request->path, request->path_len);
        put_int(out, request->version);
        break;
    case ZK_SET_DATA:
        put_blob(out, request->path, request->path_len);
        put_blob(out, request->data, request->data_len);
        put_int(out, request->version);
        break;
    case ZK_EXISTS:
    case ZK_GET_DATA:
    case ZK_GET_CHILDREN:
        put_blob(out, request->path, request->path_len);
        put_bool(out, request->watch);
        break;
    case ZK_SYNC:
    case ZK_GET_ACL:
        put_blob(out, request->path, request->path_len);
        break;
    case ZK_AUTH:
        put_int(out, 0);
        put_text(out, "digest");
        put_blob(out, request->data, request->data_len);
        break;
    case ZK_PING:
    case ZK_WHO:
    case ZK_CLOSE:
    case ZK_MULTI:
    case ZK_BEGIN:
        break;
    }
}

static void put_part_header(hf__buf *out, int32_t type, bool done)
{
    put_int(out, type);
    put_bool(out, done);
    put_int(out, -1);
}

void zk_write_request(hf__buf *out, int32_t xid, const zk_request *request)
{
    size_t from = begin_frame(out);

    if (request->op == ZK_PING)
        xid = ZK_XID_PING;
    else if (request->op == ZK_AUTH)
        xid = ZK_XID_AUTH;
    put_int(out, xid);
    put_int(out, (int32_t)request->op);
    put_body(out, request);
    if (request->op == ZK_MULTI) {
        for (unsigned i = 0; i < request->part_count; i++) {
            put_part_header(out, (int32_t)request->parts[i].op, false);
            put_body(out, &request->parts[i]);
        }
        put_part_header(out, -1, true);
    }
    end_frame(out, from);
}
