/* record_test.c - requests: their bytes.
 *
 * What is expected is written here byte by byte, by a writer of the test's own,
 * so that a mistake is not made twice; wire_test.c has the real server. */
#include "harness/expect.h"
#include "harness/runner.h"

#include "record_text.h"

static void expect_bytes(hf__buf *out, const record *want)
{
    EXPECT(!out->failed);
    EXPECT_EQ(hf__buf_len(out), want->len + 4);
    EXPECT_EQ(zk_frame(out->data + out->start, hf__buf_len(out)),
              (long)want->len + 4);
    EXPECT(memcmp(out->data + out->start + 4, want->bytes, want->len) == 0);
    hf__buf_done(out);
}

static void expect_request(const zk_request *request, const record *want)
{
    hf__buf out = {0};
    record whole = {0};

    put(&whole, 5, 4);
    put(&whole, (uint32_t)request->op, 4);
    memcpy(whole.bytes + whole.len, want->bytes, want->len);
    whole.len += want->len;
    zk_write_request(&out, 5, request);
    expect_bytes(&out, &whole);
}

static void put_acl(record *t, const char *scheme, const char *id)
{
    put(t, 1, 4);
    put(t, 31, 4);
    put_text(t, scheme);
    put_text(t, id);
}

static void requests(void)
{
    zk_request r = {.op = ZK_CREATE,
                    .path = "/a/b",
                    .path_len = 4,
                    .data = "xyz",
                    .data_len = 3,
                    .flags = ZK_EPHEMERAL | ZK_SEQUENCE,
                    .version = -1};
    record want = {0};

    put_text(&want, "/a/b");
    put_text(&want, "xyz");
    put_acl(&want, "world", "anyone");
    put(&want, 3, 4);
    expect_request(&r, &want);
    r.closed_acl = true;
    r.op = ZK_CREATE_CONTAINER;
    want.len = 0;
    put_text(&want, "/a/b");
    put_text(&want, "xyz");
    put_acl(&want, "auth", "");
    put(&want, 4, 4);
    expect_request(&r, &want);
    r.op = ZK_DELETE;
    want.len = 0;
    put_text(&want, "/a/b");
    put(&want, 0xffffffff, 4);
    expect_request(&r, &want);
    r.op = ZK_SET_DATA;
    want.len = 0;
    put_text(&want, "/a/b");
    put_text(&want, "xyz");
    put(&want, 0xffffffff, 4);
    expect_request(&r, &want);
    for (unsigned i = 0; i < 6; i++) {
        static const zk_op ops[] = {ZK_EXISTS, ZK_GET_DATA, ZK_GET_CHILDREN};

        r.op = ops[i % 3];
        r.watch = i >= 3;
        want.len = 0;
        put_text(&want, "/a/b");
        put(&want, r.watch, 1);
        expect_request(&r, &want);
    }
    want.len = 0;
    r.op = ZK_WHO;
    expect_request(&r, &want);
    r.op = ZK_CLOSE;
    expect_request(&r, &want);
}

static void own_numbers(void)
{
    zk_request ping = {.op = ZK_PING},
               auth = {.op = ZK_AUTH, .data = "u:p", .data_len = 3};
    hf__buf out = {0};
    record want = {0};

    put(&want, 0xfffffffe, 4);
    put(&want, 11, 4);
    zk_write_request(&out, 5, &ping);
    expect_bytes(&out, &want);
    want.len = 0;
    put(&want, 0xfffffffc, 4);
    put(&want, 100, 4);
    put(&want, 0, 4);
    put_text(&want, "digest");
    put_text(&want, "u:p");
    zk_write_request(&out, 5, &auth);
    expect_bytes(&out, &want);
}

static void parts_out(void)
{
    zk_request parts[2] = {
        {.op = ZK_CREATE, .path = "/n", .path_len = 2, .flags = 1},
        {.op = ZK_DELETE, .path = "/o", .path_len = 2, .version = 4}};
    zk_request multi = {.op = ZK_MULTI, .parts = parts, .part_count = 2};
    record want = {0};

    put(&want, 15, 4);
    put(&want, 0, 1);
    put(&want, 0xffffffff, 4);
    put_text(&want, "/n");
    put_text(&want, "");
    put_acl(&want, "world", "anyone");
    put(&want, 1, 4);
    put(&want, 2, 4);
    put(&want, 0, 1);
    put(&want, 0xffffffff, 4);
    put_text(&want, "/o");
    put(&want, 4, 4);
    put(&want, 0xffffffff, 4);
    put(&want, 1, 1);
    put(&want, 0xffffffff, 4);
    expect_request(&multi, &want);
}

static void connect_out(void)
{
    zk_connect ask = {.session = 0x1122334455667788,
                      .zxid = 0x99,
                      .timeout_ms = 4000,
                      .password = "0123456789abcde"};
    hf__buf out = {0};
    record want = {0};

    put(&want, 0, 4);
    put(&want, 0x99, 8);
    put(&want, 4000, 4);
    put(&want, 0x1122334455667788, 8);
    put(&want, 16, 4);
    memcpy(want.bytes + want.len, ask.password, 16);
    want.len += 16;
    put(&want, 0, 1);
    zk_write_connect(&out, &ask);
    expect_bytes(&out, &want);
}

static const test_case cases[] = {
    TEST(requests),
    TEST(own_numbers),
    TEST(parts_out),
    TEST(connect_out),
};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "record", cases, sizeof cases / sizeof *cases);
}
