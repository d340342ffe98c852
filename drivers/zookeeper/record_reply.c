/* record_reply.c - what a ZooKeeper server answered, from bytes that anybody
 * may have sent.
 *
 * One question: is this body a whole and sane answer to that request, and what
 * does it say?  Every number is read through take_bytes, which looks at what
 * is left first; a length is believed only after it was compared with that.
 * What is left over at the end is not sane either: then we have misread, and
 * everything behind it would be misread, too.  Knows nothing of connections.
 *
 * A reply with an error has no body that counts (a server may send one).  The
 * names of children are walked once here, so that zk_next_name can walk them
 * again without asking.  Nothing is copied and nothing kept. */
#include <string.h>

#include "record.h"

typedef struct reader {
    const char *at, *end;
    bool bad;
} reader;

/* ---- Bytes ---- */

static const char *take_bytes(reader *in, size_t n)
{
    const char *at = in->at;

    if (in->bad || (size_t)(in->end - at) < n) {
        in->bad = true;
        return NULL;
    }
    in->at += n;
    return at;
}

static uint64_t take_number(reader *in, size_t size)
{
    const char *at = take_bytes(in, size);
    uint64_t number = 0;

    for (size_t i = 0; at && i < size; i++)
        number = number << 8 | (uint8_t)at[i];
    return number;
}

static int32_t take_int(reader *in)
{
    return (int32_t)(uint32_t)take_number(in, 4);
}

static int64_t take_long(reader *in)
{
    return (int64_t)take_number(in, 8);
}

/* A length of -1 is "none" and as good as empty. */
static const char *take_blob(reader *in, size_t *ret_len)
{
    int32_t len = take_int(in);
    const char *at;

    *ret_len = 0;
    if (len < -1)
        in->bad = true;
    at = take_bytes(in, len > 0 ? (size_t)len : 0);
    if (at && len > 0)
        *ret_len = (size_t)len;
    return at;
}

static bool is_done(const reader *in)
{
    return !in->bad && in->at == in->end;
}

/* ---- Parts of a reply ---- */

static void take_header(reader *in, zk_header *ret)
{
    ret->xid = take_int(in);
    ret->zxid = take_long(in);
    ret->error = take_int(in);
}

static void take_stat(reader *in, zk_stat *ret)
{
    ret->czxid = take_long(in);
    ret->mzxid = take_long(in);
    ret->ctime = take_long(in);
    ret->mtime = take_long(in);
    ret->version = take_int(in);
    ret->cversion = take_int(in);
    ret->aversion = take_int(in);
    ret->ephemeral_owner = take_long(in);
    ret->data_length = take_int(in);
    ret->children = take_int(in);
    ret->pzxid = take_long(in);
}

/* A vector of `each` texts per element. */
static void take_names(reader *in, unsigned each, zk_reply *ret)
{
    int32_t count = take_int(in);
    size_t len;

    ret->names = in->at;
    if (count < -1 || (count > 0 && (size_t)count > SIZE_MAX / each))
        in->bad = true;
    /* Each has at least its length, so a count that lies ends soon. */
    for (size_t i = 0; count > 0 && i < (size_t)count * each && !in->bad; i++) {
        take_blob(in, &len);
        ret->name_count++;
    }
    ret->names_len = (size_t)(in->at - ret->names);
}

static bool is_text(const char *at, size_t len, const char *text)
{
    return at && len == strlen(text) && memcmp(at, text, len) == 0;
}

static void take_acl(reader *in, zk_reply *ret)
{
    int32_t count = take_int(in);

    if (count < -1)
        in->bad = true;
    for (int32_t i = 0; i < count && !in->bad; i++) {
        int32_t bits = take_int(in);
        size_t scheme_len, id_len;
        const char *scheme = take_blob(in, &scheme_len);
        const char *id = take_blob(in, &id_len);

        if (is_text(scheme, scheme_len, "world") &&
            is_text(id, id_len, "anyone"))
            ret->world |= bits;
    }
}

/* The results of the parts, or of all of them an error: the first one that is
 * not 0 is the reason, those behind it were not tried. */
static void take_parts(reader *in, zk_reply *ret)
{
    enum { CREATE1 = 1, ERROR_PART = -1 };
    bool first = true;

    for (;;) {
        int32_t type = take_int(in);
        bool done = take_number(in, 1) != 0;
        int32_t error = take_int(in);
        zk_reply part = {0};

        if (in->bad || done)
            return;
        if (type == ERROR_PART)
            error = take_int(in);
        else if (type == CREATE1 || type == ZK_CREATE ||
                 type == ZK_CREATE_CONTAINER)
            part.path = take_blob(in, &part.path_len);
        else if (type != ZK_DELETE && type != ZK_SET_DATA)
            in->bad = true;
        if (type == ZK_CREATE || type == ZK_CREATE_CONTAINER ||
            type == ZK_SET_DATA)
            take_stat(in, &part.stat);
        if (ret->error == 0)
            ret->error = error;
        if (first && part.path && !in->bad) {
            ret->path = part.path;
            ret->path_len = part.path_len;
            ret->stat = part.stat;
            first = false;
        }
    }
}

static void take_body(reader *in, const zk_request *request, zk_reply *ret)
{
    switch (request->op) {
    case ZK_CREATE:
    case ZK_CREATE_CONTAINER:
        ret->path = take_blob(in, &ret->path_len);
        take_stat(in, &ret->stat);
        break;
    case ZK_EXISTS:
    case ZK_SET_DATA:
        take_stat(in, &ret->stat);
        break;
    case ZK_GET_DATA:
        ret->data = take_blob(in, &ret->data_len);
        take_stat(in, &ret->stat);
        break;
    case ZK_GET_CHILDREN:
        take_names(in, 1, ret);
        take_stat(in, &ret->stat);
        break;
    case ZK_GET_ACL:
        take_acl(in, ret);
        take_stat(in, &ret->stat);
        break;
    case ZK_SYNC:
        ret->path = take_blob(in, &ret->path_len);
        break;
    case ZK_WHO:
        take_names(in, 2, ret);
        break;
    case ZK_MULTI:
        take_parts(in, ret);
        break;
    case ZK_DELETE:
    case ZK_PING:
    case ZK_AUTH:
    case ZK_CLOSE:
    case ZK_BEGIN:
        break;
    }
}

/* ---- Messages ---- */

long zk_frame(const char *bytes, size_t len)
{
    reader in = {bytes, bytes + len, false};
    int32_t size;

    if (len < 4)
        return 0;
    size = take_int(&in);
    if (size < 0 || size > ZK_FRAME_MAX)
        return -1;
    return (size_t)size > len - 4 ? 0 : (long)size + 4;
}

bool zk_read_connected(const char *body, size_t len, zk_connected *ret)
{
    reader in = {body, body + len, false};
    zk_connected got = {0};
    int32_t version = take_int(&in);
    const char *password;
    size_t password_len;

    got.timeout_ms = take_int(&in);
    got.session = take_long(&in);
    password = take_blob(&in, &password_len);
    if (version != 0 || in.bad || password_len > sizeof got.password)
        return false;
    if (password_len > 0)
        memcpy(got.password, password, password_len);
    /* Servers before 3.4 did not say it. */
    if (in.at < in.end)
        got.read_only = take_number(&in, 1) != 0;
    /* One that is over has neither id nor timeout. */
    if (got.timeout_ms <= 0)
        got.session = 0;
    if (!is_done(&in))
        return false;
    *ret = got;
    return true;
}

bool zk_read_header(const char *body, size_t len, zk_header *ret)
{
    reader in = {body, body + len, false};
    zk_header got;

    take_header(&in, &got);
    if (in.bad)
        return false;
    *ret = got;
    return true;
}

bool zk_read_reply(const char *body, size_t len, const zk_request *request,
                   zk_reply *ret)
{
    reader in = {body, body + len, false};
    zk_header header;
    zk_reply got = {0};

    take_header(&in, &header);
    got.zxid = header.zxid;
    got.error = header.error;
    if (header.error == 0)
        take_body(&in, request, &got);
    else
        in.at = in.bad ? in.at : in.end;
    if (!is_done(&in))
        return false;
    *ret = got;
    return true;
}

bool zk_read_event(const char *body, size_t len, int32_t *ret_type,
                   const char **ret_path, size_t *ret_len)
{
    reader in = {body, body + len, false};
    zk_header header;
    int32_t type;
    const char *path;
    size_t path_len;

    take_header(&in, &header);
    type = take_int(&in);
    take_int(&in); /* the state of the connection, which we know better */
    path = take_blob(&in, &path_len);
    if (!is_done(&in) || header.xid != ZK_XID_EVENT)
        return false;
    *ret_type = type;
    *ret_path = path;
    *ret_len = path_len;
    return true;
}

bool zk_next_name(const zk_reply *reply, size_t *at, const char **ret,
                  size_t *ret_len)
{
    reader in = {0};

    if (!reply->names || *at >= reply->names_len)
        return false;
    in.at = reply->names + *at;
    in.end = reply->names + reply->names_len;
    *ret = take_blob(&in, ret_len);
    *at = (size_t)(in.at - reply->names);
    return !in.bad;
}
