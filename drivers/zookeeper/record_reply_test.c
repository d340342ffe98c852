/* record_reply_test.c - answers: what is read and what is refused.
 *
 * Answers are written here byte by byte, cut off at every length, and their
 * lengths are made to lie: nothing but the whole of one is taken, and nothing
 * outside of it is ever touched (the sanitizer looks at that). */
#include "harness/expect.h"
#include "harness/runner.h"

#include "record_text.h"

/* In memory of its own, so that a byte too far is noticed. */
static bool read_exact(const record *t, size_t len, const zk_request *request,
                       zk_reply *ret)
{
    static char *kept;

    free(kept);
    kept = malloc(len ? len : 1);
    EXPECT(kept);
    memcpy(kept, t->bytes, len);
    return zk_read_reply(kept, len, request, ret);
}

/* The whole is taken, no beginning of it is, and nothing longer. */
static zk_reply expect_whole(record *t, zk_op op)
{
    zk_request request = {.op = op};
    zk_reply reply = {.zxid = -7};

    for (size_t len = 0; len < t->len; len++) {
        if (read_exact(t, len, &request, &reply))
            FAIL_TEST("op %d: %zu of %zu bytes were taken", op, len, t->len);
        EXPECT_EQ(reply.zxid, -7); /* untouched */
    }
    t->bytes[t->len] = 0;
    EXPECT(!read_exact(t, t->len + 1, &request, &reply));
    EXPECT(read_exact(t, t->len, &request, &reply));
    EXPECT_EQ(reply.zxid, 77);
    return reply;
}

/* ---- Replies ---- */

static void replies(void)
{
    record t = {0};
    zk_reply got;

    put_header(&t, 5, 77, 0);
    put_text(&t, "/a/b0000000001");
    put_stat(&t);
    got = expect_whole(&t, ZK_CREATE);
    EXPECT_EQ(got.path_len, 14);
    EXPECT(memcmp(got.path, "/a/b0000000001", 14) == 0);
    expect_stat(&got.stat);
    t.len = 0;
    put_header(&t, 5, 77, 0);
    put_stat(&t);
    got = expect_whole(&t, ZK_EXISTS);
    expect_stat(&got.stat);
    got = expect_whole(&t, ZK_SET_DATA);
    expect_stat(&got.stat);
    t.len = 0;
    put_header(&t, 5, 77, 0);
    put_text(&t, "some data");
    put_stat(&t);
    got = expect_whole(&t, ZK_GET_DATA);
    EXPECT_EQ(got.data_len, 9);
    EXPECT(memcmp(got.data, "some data", 9) == 0);
    expect_stat(&got.stat);
    t.len = 0;
    put_header(&t, 5, 77, 0);
    put_text(&t, "/");
    got = expect_whole(&t, ZK_SYNC);
    t.len = 0;
    put_header(&t, 5, 77, 0);
    expect_whole(&t, ZK_DELETE);
    expect_whole(&t, ZK_CLOSE);
}

static void names(void)
{
    static const char *const want[] = {"a", "", "ccc"};
    record t = {0};
    zk_reply got;
    const char *name;
    size_t at = 0, len, n = 0;

    put_header(&t, 5, 77, 0);
    put(&t, 3, 4);
    for (unsigned i = 0; i < 3; i++)
        put_text(&t, want[i]);
    put_stat(&t);
    got = expect_whole(&t, ZK_GET_CHILDREN);
    expect_stat(&got.stat);
    EXPECT_EQ(got.name_count, 3);
    while (zk_next_name(&got, &at, &name, &len)) {
        EXPECT_EQ(len, strlen(want[n]));
        EXPECT(memcmp(name, want[n], len) == 0);
        n++;
    }
    EXPECT_EQ(n, 3);
    /* None at all, said in both ways. */
    for (int i = 0; i < 2; i++) {
        t.len = 0;
        put_header(&t, 5, 77, 0);
        put(&t, i ? 0xffffffff : 0, 4);
        put_stat(&t);
        got = expect_whole(&t, ZK_GET_CHILDREN);
        at = 0;
        EXPECT_EQ(got.name_count, 0);
        EXPECT(!zk_next_name(&got, &at, &name, &len));
    }
    /* Who we are: pairs. */
    t.len = 0;
    put_header(&t, 5, 77, 0);
    put(&t, 1, 4);
    put_text(&t, "digest");
    put_text(&t, "bob");
    got = expect_whole(&t, ZK_WHO);
    EXPECT_EQ(got.name_count, 2);
}

static void acls(void)
{
    record t = {0};
    zk_reply got;

    put_header(&t, 5, 77, 0);
    put(&t, 3, 4);
    put(&t, 31, 4);
    put_text(&t, "digest");
    put_text(&t, "bob:hash");
    put(&t, ZK_PERM_READ, 4);
    put_text(&t, "world");
    put_text(&t, "anyone");
    put(&t, ZK_PERM_CREATE, 4);
    put_text(&t, "world");
    put_text(&t, "anyone");
    put_stat(&t);
    got = expect_whole(&t, ZK_GET_ACL);
    EXPECT_EQ(got.world, ZK_PERM_READ | ZK_PERM_CREATE);
    expect_stat(&got.stat);
}

static void put_part(record *t, int32_t type, bool done, int32_t error)
{
    put(t, (uint32_t)type, 4);
    put(t, done, 1);
    put(t, (uint32_t)error, 4);
}

static void parts_in(void)
{
    record t = {0};
    zk_reply got;

    put_header(&t, 5, 77, 0);
    put_part(&t, ZK_DELETE, false, 0);
    put_part(&t, ZK_CREATE, false, 0);
    put_text(&t, "/made");
    put_stat(&t);
    put_part(&t, ZK_SET_DATA, false, 0);
    put_stat(&t);
    put_part(&t, -1, true, -1);
    got = expect_whole(&t, ZK_MULTI);
    EXPECT_EQ(got.error, 0);
    EXPECT_EQ(got.path_len, 5);
    expect_stat(&got.stat);
    /* The second failed; the first is undone, the third was not tried. */
    t.len = 0;
    put_header(&t, 5, 77, 0);
    for (unsigned i = 0; i < 3; i++) {
        static const int32_t errors[] = {0, ZK_NODE_EXISTS, -2};

        put_part(&t, -1, false, errors[i]);
        put(&t, (uint32_t)errors[i], 4);
    }
    put_part(&t, -1, true, -1);
    got = expect_whole(&t, ZK_MULTI);
    EXPECT_EQ(got.error, ZK_NODE_EXISTS);
    EXPECT(!got.path);
}

/* An error has no body that counts, but a whole header. */
static void errors(void)
{
    zk_request request = {.op = ZK_CREATE};
    record t = {0};
    zk_reply got;

    put_header(&t, 5, 77, ZK_NO_NODE);
    for (size_t len = 0; len < t.len; len++)
        EXPECT(!read_exact(&t, len, &request, &got));
    EXPECT(read_exact(&t, t.len, &request, &got));
    EXPECT_EQ(got.error, ZK_NO_NODE);
    EXPECT(!got.path && !got.names && !got.data);
    put(&t, 0xdeadbeef, 4);
    EXPECT(read_exact(&t, t.len, &request, &got));
    EXPECT_EQ(got.error, ZK_NO_NODE);
}

/* ---- Lies ---- */

/* Each of the four-byte places of an answer says something huge or negative;
 * what is taken then must still lie inside. */
static void lying_lengths(void)
{
    static const uint32_t lies[] = {0xffffffff, 0xfffffffe, 0x80000000,
                                    0x7fffffff, 0x00ffffff, 1000};
    static const zk_op ops[] = {ZK_CREATE,  ZK_GET_DATA, ZK_GET_CHILDREN,
                                ZK_GET_ACL, ZK_WHO,      ZK_MULTI};
    record good = {0};

    put_header(&good, 5, 77, 0);
    put(&good, 2, 4);
    put_text(&good, "a");
    put_text(&good, "bb");
    put_stat(&good);
    for (size_t at = 16; at + 4 <= good.len; at++) {
        for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
            for (size_t k = 0; k < sizeof ops / sizeof *ops; k++) {
                zk_request request = {.op = ops[k]};
                record t = good;
                zk_reply got;

                t.len = at;
                put(&t, lies[i], 4);
                t.len = good.len;
                if (!read_exact(&t, t.len, &request, &got))
                    continue;
                EXPECT(got.path_len <= t.len && got.data_len <= t.len);
                EXPECT(got.names_len <= t.len);
            }
        }
    }
}

static void frames(void)
{
    char bytes[8] = {0, 0, 0, 3, 'a', 'b', 'c', 'd'};

    for (size_t len = 0; len < 7; len++)
        EXPECT_EQ(zk_frame(bytes, len), 0);
    EXPECT_EQ(zk_frame(bytes, 7), 7);
    EXPECT_EQ(zk_frame(bytes, 8), 7);
    bytes[0] = 'H'; /* as in HTTP */
    EXPECT_EQ(zk_frame(bytes, 8), -1);
    bytes[0] = (char)0xff;
    EXPECT_EQ(zk_frame(bytes, 8), -1);
}

/* ---- The handshake, and events ---- */

static void connected(void)
{
    zk_connected got = {0};
    record t = {0};

    put(&t, 0, 4);
    put(&t, 4000, 4);
    put(&t, 0x1234, 8);
    put_text(&t, "0123456789abcdef");
    for (size_t len = 0; len < t.len; len++)
        EXPECT(!zk_read_connected((char *)t.bytes, len, &got));
    EXPECT(zk_read_connected((char *)t.bytes, t.len, &got));
    EXPECT(!got.read_only);
    put(&t, 1, 1);
    EXPECT(zk_read_connected((char *)t.bytes, t.len, &got));
    EXPECT_EQ(got.session, 0x1234);
    EXPECT_EQ(got.timeout_ms, 4000);
    EXPECT(memcmp(got.password, "0123456789abcdef", 16) == 0);
    EXPECT(got.read_only);
    put(&t, 0, 1);
    EXPECT(!zk_read_connected((char *)t.bytes, t.len, &got));
    /* Over: no timeout means no session, whatever id is told. */
    t.len = 0;
    put(&t, 0, 4);
    put(&t, 0, 4);
    put(&t, 0x1234, 8);
    put_text(&t, "0123456789abcdef");
    EXPECT(zk_read_connected((char *)t.bytes, t.len, &got));
    EXPECT_EQ(got.session, 0);
    /* A password that is too long, another version of the protocol. */
    t.len = 16;
    put_text(&t, "0123456789abcdefg");
    EXPECT(!zk_read_connected((char *)t.bytes, t.len, &got));
    t.len = 0;
    put(&t, 1, 4);
    put(&t, 4000, 4);
    put(&t, 0x1234, 8);
    put_text(&t, "");
    EXPECT(!zk_read_connected((char *)t.bytes, t.len, &got));
}

static void events(void)
{
    record t = {0};
    int32_t type;
    const char *path;
    size_t len;

    put_header(&t, ZK_XID_EVENT, -1, 0);
    put(&t, ZK_EVENT_DELETED, 4);
    put(&t, 3, 4);
    put_text(&t, "/a/b");
    for (size_t n = 0; n < t.len; n++)
        EXPECT(!zk_read_event((char *)t.bytes, n, &type, &path, &len));
    EXPECT(zk_read_event((char *)t.bytes, t.len, &type, &path, &len));
    EXPECT_EQ(type, ZK_EVENT_DELETED);
    EXPECT_EQ(len, 4);
    EXPECT(memcmp(path, "/a/b", 4) == 0);
    t.bytes[3] = 7; /* it is a reply */
    EXPECT(!zk_read_event((char *)t.bytes, t.len, &type, &path, &len));
}

static const test_case cases[] = {
    TEST(replies),   TEST(names),  TEST(acls),
    TEST(parts_in),  TEST(errors), TEST(lying_lengths),
    TEST(connected), TEST(events), TEST(frames),
};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "record_reply", cases,
                     sizeof cases / sizeof *cases);
}
