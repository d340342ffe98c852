/* zkrecord.c - any bytes as the answer of a ZooKeeper server.
 *
 * Two ways in.  As they are: whatever somebody sends is a whole answer to the
 * request or is refused, and is never read beyond its end.  And as a recipe: an
 * answer is built from the bytes and must be read as what was put in, while no
 * beginning of it is taken.
 *
 * Promises: what is taken lies inside the body; the names of children are as
 * many as it says and fill their place without a gap; nothing is taken with a
 * byte more or less, but for errors, whose body means nothing; a request is one
 * frame; every error becomes a code and a text. */
#include "fuzz.h"

#include "../../drivers/zookeeper/wire.h"

static const zk_op ops[] = {
    ZK_DELETE,  ZK_EXISTS, ZK_GET_DATA, ZK_SET_DATA,
    ZK_GET_ACL, ZK_SYNC,   ZK_PING,     ZK_GET_CHILDREN,
    ZK_MULTI,   ZK_CREATE, ZK_WHO,      ZK_CREATE_CONTAINER,
    ZK_CLOSE,
};

/* A copy of its own, so that a byte too far is noticed. */
static char *copy_of(const void *bytes, size_t len)
{
    char *copy = malloc(len ? len : 1);

    PROMISE(copy != NULL);
    if (len)
        memcpy(copy, bytes, len);
    return copy;
}

static void check_inside(const char *part, size_t len, const char *body,
                         size_t body_len)
{
    if (part)
        PROMISE(part >= body && part + len <= body + body_len);
    else
        PROMISE(len == 0);
}

static void check_error(int32_t error)
{
    hf_error err = {0};
    int code = zk_error_of(error, "/some/path", &err);

    PROMISE((code == 0) == (error == 0));
    if (code == 0)
        return;
    PROMISE(code < 0 && err.code == code);
    PROMISE(memchr(err.text, '\0', sizeof err.text) != NULL && err.text[0]);
}

static void check_reply(const zk_reply *reply, const char *body, size_t len)
{
    const char *name;
    size_t at = 0, name_len;
    uint32_t count = 0;

    check_inside(reply->path, reply->path_len, body, len);
    check_inside(reply->data, reply->data_len, body, len);
    check_inside(reply->names, reply->names_len, body, len);
    while (zk_next_name(reply, &at, &name, &name_len)) {
        check_inside(name, name_len, reply->names, reply->names_len);
        count++;
    }
    PROMISE(count == reply->name_count);
    PROMISE(at == reply->names_len);
    check_error(reply->error);
}

static bool read_as(const uint8_t *bytes, size_t len, const zk_request *request)
{
    char *body = copy_of(bytes, len);
    zk_reply reply;
    bool taken = zk_read_reply(body, len, request, &reply);

    if (taken)
        check_reply(&reply, body, len);
    free(body);
    return taken;
}

/* Is the error in the header, so that the rest means nothing? */
static bool has_error(const uint8_t *bytes, size_t len)
{
    zk_header header;

    return zk_read_header((const char *)bytes, len, &header) &&
           header.error != 0;
}

static void check_bytes(const uint8_t *bytes, size_t len, zk_op op)
{
    zk_request request = {.op = op};
    char *body = copy_of(bytes, len);
    zk_connected connected;
    zk_header header;
    int32_t type;
    const char *path;
    size_t path_len;
    long size = zk_frame(body, len);

    PROMISE(size >= -1 && size <= (long)len);
    PROMISE(size <= 0 || size >= 4);
    PROMISE(zk_read_header(body, len, &header) == (len >= 16));
    if (zk_read_connected(body, len, &connected))
        PROMISE(connected.session == 0 || connected.timeout_ms > 0);
    if (zk_read_event(body, len, &type, &path, &path_len)) {
        check_inside(path, path_len, body, len);
        PROMISE(header.xid == ZK_XID_EVENT);
    }
    free(body);
    if (!read_as(bytes, len, &request) || has_error(bytes, len))
        return;
    for (size_t n = len; n-- > 0 && n + 16 > len;)
        PROMISE(!read_as(bytes, n, &request));
}

/* ---- By recipe ---- */

typedef struct built {
    uint8_t bytes[4096];
    size_t len;
    fuzz_input *in;
} built;

static void put(built *b, uint64_t number, unsigned size)
{
    while (size-- > 0)
        b->bytes[b->len++] = (uint8_t)(number >> (8 * size));
}

static void put_any(built *b, unsigned bytes)
{
    put(b, take_number(b->in, bytes), bytes);
}

static void put_blob(built *b)
{
    unsigned n = take_byte(b->in) % 20;

    if (n == 19) {
        put(b, 0xffffffff, 4);
        return;
    }
    put(b, n, 4);
    while (n-- > 0)
        put_any(b, 1);
}

static void put_stat(built *b)
{
    for (unsigned i = 0; i < 17; i++)
        put_any(b, 4);
}

static uint32_t put_vector(built *b, unsigned each, bool numbers)
{
    unsigned n = take_byte(b->in) % 30;

    put(b, n, 4);
    for (unsigned i = 0; i < n; i++) {
        if (numbers)
            put_any(b, 4);
        for (unsigned k = 0; k < each; k++)
            put_blob(b);
    }
    return n * each;
}

static void put_parts(built *b)
{
    static const int32_t types[] = {ZK_DELETE, ZK_CREATE, 1, ZK_SET_DATA, -1};
    unsigned n = take_byte(b->in) % 8;

    while (n-- > 0) {
        int32_t type = types[take_byte(b->in) % 5];

        put(b, (uint32_t)type, 4);
        put(b, 0, 1);
        put_any(b, 4);
        if (type == -1)
            put_any(b, 4);
        if (type == 1 || type == ZK_CREATE)
            put_blob(b);
        if (type == ZK_CREATE || type == ZK_SET_DATA)
            put_stat(b);
    }
    put(b, 0xffffffff, 4);
    put(b, 1, 1);
    put(b, 0xffffffff, 4);
}

static void build(built *b, zk_op op, uint32_t *ret_names)
{
    put_any(b, 4);
    put_any(b, 8);
    put(b, 0, 4);
    *ret_names = 0;
    if (op == ZK_CREATE || op == ZK_CREATE_CONTAINER || op == ZK_GET_DATA ||
        op == ZK_SYNC)
        put_blob(b);
    else if (op == ZK_GET_CHILDREN)
        *ret_names = put_vector(b, 1, false);
    else if (op == ZK_WHO)
        *ret_names = put_vector(b, 2, false);
    else if (op == ZK_GET_ACL)
        put_vector(b, 2, true);
    else if (op == ZK_MULTI)
        put_parts(b);
    if (op == ZK_CREATE || op == ZK_CREATE_CONTAINER || op == ZK_GET_DATA ||
        op == ZK_GET_CHILDREN || op == ZK_GET_ACL || op == ZK_EXISTS ||
        op == ZK_SET_DATA)
        put_stat(b);
}

static void check_built(fuzz_input *in, zk_op op)
{
    zk_request request = {.op = op};
    built b = {.in = in};
    uint32_t names;
    zk_reply reply;

    build(&b, op, &names);
    PROMISE(read_as(b.bytes, b.len, &request));
    PROMISE(zk_read_reply((const char *)b.bytes, b.len, &request, &reply));
    PROMISE(reply.name_count == names);
    for (size_t n = 0; n < b.len; n += 1 + b.len / 32)
        PROMISE(!read_as(b.bytes, n, &request));
    PROMISE(!read_as(b.bytes, b.len - 1, &request));
    b.bytes[b.len] = 0;
    PROMISE(!read_as(b.bytes, b.len + 1, &request));
}

/* ---- Requests ---- */

static void check_request(fuzz_input *in)
{
    zk_request part = {.op = take_byte(in) & 1 ? ZK_CREATE : ZK_DELETE,
                       .path = (const char *)in->at,
                       .path_len = (size_t)(in->end - in->at) / 2,
                       .data = in->at,
                       .data_len = (size_t)(in->end - in->at)};
    zk_request parts[3] = {part, part, part}, request = part;
    hf__buf out = {0};
    size_t first;

    request.op = ops[take_byte(in) % (sizeof ops / sizeof *ops)];
    request.parts = parts;
    request.part_count = take_byte(in) % 4;
    zk_write_request(&out, 7, &request);
    first = hf__buf_len(&out);
    zk_write_request(&out, 8, &part);
    PROMISE(!out.failed);
    PROMISE(zk_frame(out.data + out.start, hf__buf_len(&out)) == (long)first);
    PROMISE(zk_frame(out.data + out.start, first - 1) == 0);
    hf__buf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, data + size};
    zk_op op = ops[take_byte(&in) % (sizeof ops / sizeof *ops)];
    fuzz_input again = in;

    check_bytes(in.at, (size_t)(in.end - in.at), op);
    check_built(&again, op);
    check_request(&in);
    return 0;
}
