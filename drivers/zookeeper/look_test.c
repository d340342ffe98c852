/* look_test.c - what a list of children says about one entry.
 *
 * The lists are made here, with names as the server writes them: whom an entry
 * waits for, also when the counter passes from 2147483647 to -2147483648, and
 * what in a list counts for nothing.  No server. */
#include "harness/expect.h"
#include "harness/runner.h"

#include "record_text.h"
#include "store.h"

#define ID "1e6f2d3c-0a1b-8c2d-9e8f-0011223344"

typedef struct children {
    record names;
    zk_reply reply;
} children;

static void add_name(children *c, const char *name)
{
    put_text(&c->names, name);
    c->reply.names = (const char *)c->names.bytes;
    c->reply.names_len = c->names.len;
    c->reply.name_count++;
}

/* Entry number `which` of ours. */
static void add_ours(children *c, int which, const char *kind, int seq)
{
    char name[100];

    snprintf(name, sizeof name, "_c_" ID "%02x-%s%010d", which, kind, seq);
    add_name(c, name);
}

static hf_id id_of(int which)
{
    zk_name name;
    char text[100];

    snprintf(text, sizeof text, "_c_" ID "%02x-lock-0000000000", which);
    EXPECT(zk_name_parse(&name, text, strlen(text)));
    return name.id;
}

static zk_look look_at(const children *c, int which, zk_kind kind, int seq)
{
    hf_id id = id_of(which);
    zk_look look;

    zk_look_read(&look, &c->reply, &id, kind, true, seq);
    return look;
}

static void expect_whom(const zk_look *look, size_t ahead, int whom)
{
    char text[100];

    snprintf(text, sizeof text, "_c_" ID "%02x-", whom);
    EXPECT(look->found);
    EXPECT_EQ(look->ahead, ahead);
    EXPECT(look->whom_len > strlen(text));
    EXPECT(memcmp(look->whom, text, strlen(text)) == 0);
}

static void order_is_of_numbers(void)
{
    children c = {0};
    zk_look look;

    add_ours(&c, 3, "lock-", 12);
    add_ours(&c, 1, "lock-", 9);
    add_ours(&c, 2, "lock-", 10);
    look = look_at(&c, 1, ZK_KIND_LOCK, 9);
    EXPECT(look.found && look.ahead == 0);
    look = look_at(&c, 2, ZK_KIND_LOCK, 10);
    expect_whom(&look, 1, 1);
    look = look_at(&c, 3, ZK_KIND_LOCK, 12);
    expect_whom(&look, 2, 2);
    look = look_at(&c, 4, ZK_KIND_LOCK, 11);
    EXPECT(!look.found);
}

/* The server's counter has 32 bits with a sign: what comes after the largest
 * number is the smallest one, and stands behind it. */
static void order_over_the_end(void)
{
    children c = {0};
    zk_look look;

    add_ours(&c, 3, "lock-", INT32_MIN + 1);
    add_ours(&c, 1, "lock-", INT32_MAX);
    add_ours(&c, 2, "lock-", INT32_MIN);
    look = look_at(&c, 1, ZK_KIND_LOCK, INT32_MAX);
    EXPECT(look.found && look.ahead == 0);
    look = look_at(&c, 2, ZK_KIND_LOCK, INT32_MIN);
    expect_whom(&look, 1, 1);
    look = look_at(&c, 3, ZK_KIND_LOCK, INT32_MIN + 1);
    expect_whom(&look, 2, 2);
}

static void readers_wait_for_writers(void)
{
    children c = {0};
    zk_look look;

    add_ours(&c, 1, "__READ__", 1);
    add_ours(&c, 2, "__WRIT__", 2);
    add_ours(&c, 3, "__READ__", 3);
    add_ours(&c, 4, "__WRIT__", 4);
    add_ours(&c, 5, "__READ__", 5);
    look = look_at(&c, 1, ZK_KIND_READ, 1);
    EXPECT(look.found && look.ahead == 0);
    look = look_at(&c, 3, ZK_KIND_READ, 3);
    expect_whom(&look, 1, 2);
    look = look_at(&c, 4, ZK_KIND_WRITE, 4);
    expect_whom(&look, 3, 3);
    look = look_at(&c, 5, ZK_KIND_READ, 5);
    expect_whom(&look, 2, 4);
}

/* Keys below this one, strangers' nodes, leases; the insides of a semaphore are
 * told, and wait for nobody either. */
static void what_counts_for_nothing(void)
{
    children c = {0};
    zk_look look;

    add_name(&c, "nightly");
    add_name(&c, "x-12345-0000000000");
    add_ours(&c, 7, "lease-", 0);
    add_ours(&c, 1, "lock-", 5);
    look = look_at(&c, 1, ZK_KIND_LOCK, 5);
    EXPECT(look.found && look.ahead == 0 && !look.blind && !look.inside);
    add_name(&c, "leases");
    look = look_at(&c, 1, ZK_KIND_LOCK, 5);
    EXPECT(look.found && look.ahead == 0 && look.inside);
    EXPECT_EQ(zk_permit_count(&c.reply), 1);
}

static const test_case cases[] = {
    TEST(order_is_of_numbers), TEST(order_over_the_end),
    TEST(readers_wait_for_writers), TEST(what_counts_for_nothing)};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "look", cases, sizeof cases / sizeof *cases);
}
