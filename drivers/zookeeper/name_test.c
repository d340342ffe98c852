/* name_test.c - names of entries: ours, Curator's, kazoo's and others', and
 * what only looks like one. */
#include "name.h"

#include <stdio.h>
#include <string.h>

#include "harness/expect.h"
#include "harness/runner.h"

#define UUID4 "1e6f2d3c-0a1b-4c2d-9e8f-00112233aabb"
#define HEX4 "1e6f2d3c0a1b4c2d9e8f00112233aabb"

static zk_name parse(const char *text)
{
    zk_name name;

    EXPECT(zk_name_parse(&name, text, strlen(text)));
    return name;
}

static void ours_round_trip(void)
{
    static const int32_t numbers[] = {0,  7,          2147483647, INT32_MIN,
                                      -1, -999999999, 123456789,  1999999999};

    for (int kind = ZK_KIND_LOCK; kind <= ZK_KIND_LEASE; kind++) {
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
            char text[ZK_NAME_ROOM];
            hf_id rid, id;
            zk_name name;
            size_t len;

            hfd_random(&rid, sizeof rid);
            id = zk_name_id(&rid);
            len = zk_name_write_seq(text, &rid, (zk_kind)kind, numbers[i]);
            EXPECT(len < ZK_NAME_ROOM);
            EXPECT(zk_name_parse(&name, text, len));
            EXPECT_EQ(name.kind, kind);
            EXPECT_EQ(name.maker, ZK_OURS);
            EXPECT_EQ(name.seq, numbers[i]);
            EXPECT(memcmp(&name.id, &id, sizeof id) == 0);
        }
    }
}

static void who_made_it(void)
{
    static const struct {
        const char *text;
        zk_kind kind;
        zk_maker maker;
    } rows[] = {
        {"_c_" UUID4 "-lock-0000000001", ZK_KIND_LOCK, ZK_CURATOR},
        {"_c_" UUID4 "-__READ__0000000001", ZK_KIND_READ, ZK_CURATOR},
        {"_c_" UUID4 "-__WRIT__0000000001", ZK_KIND_WRITE, ZK_CURATOR},
        {"_c_" UUID4 "-lease-0000000001", ZK_KIND_LEASE, ZK_CURATOR},
        {HEX4 "__lock__0000000001", ZK_KIND_KAZOO, ZK_KAZOO},
        {HEX4 "__rlock__0000000001", ZK_KIND_KAZOO_READ, ZK_KAZOO},
        {"_c_" HEX4 "-lock-0000000001", ZK_KIND_LOCK, ZK_GO},
        {"lock-0000000001", ZK_KIND_LOCK, ZK_BARE},
        {"somebody-lock-0000000001", ZK_KIND_LOCK, ZK_STRANGER},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        zk_name name = parse(rows[i].text);

        EXPECT_EQ(name.kind, rows[i].kind);
        EXPECT_EQ(name.maker, rows[i].maker);
        EXPECT_EQ(name.seq, 1);
    }
}

static void what_is_no_entry(void)
{
    static const char latch[] = "_c_" UUID4 "-latch-0000000001";
    static const char *const texts[] = {
        "",
        "b",
        "lock-",
        "lock-1",
        "lock-000000001",
        "lock-00000000001",
        "lock-000000000a",
        "0000000001",
        "x-0000000001",
        "lock_0000000001",
        "lock-9999999999",
        "lock--9999999999",
        latch,
        HEX4,
        "locks",
        "leases",
    };

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        zk_name name;

        if (zk_name_parse(&name, texts[i], strlen(texts[i])))
            FAIL_TEST("'%s' was taken for an entry", texts[i]);
    }
}

/* The last number of the counter comes before the first below zero. */
static void order_wraps(void)
{
    EXPECT(zk_seq_order(1, 2) < 0 && zk_seq_order(2, 1) > 0);
    EXPECT(zk_seq_order(5, 5) == 0);
    EXPECT(zk_seq_order(INT32_MAX, INT32_MIN) < 0);
    EXPECT(zk_seq_order(INT32_MIN, INT32_MAX) > 0);
    EXPECT(zk_seq_order(-1, 0) < 0);
    EXPECT_EQ(parse("lock--000000001").seq, -1);
    EXPECT_EQ(parse("lock--2147483648").seq, INT32_MIN);
}

/* Who looks at what: a pair that is blind to each other must be refused. */
static void who_sees_whom(void)
{
    zk_name mutex = parse("_c_" UUID4 "-lock-0000000001");
    zk_name reader = parse("_c_" UUID4 "-__READ__0000000001");
    zk_name writer = parse("_c_" UUID4 "-__WRIT__0000000001");
    zk_name kazoo = parse(HEX4 "__lock__0000000001");
    zk_name bare = parse("lock-0000000001");
    zk_name go = parse("_c_" HEX4 "-lock-0000000001");

    EXPECT(zk_name_sees(&mutex, ZK_KIND_LOCK));
    EXPECT(!zk_name_sees(&mutex, ZK_KIND_READ));
    EXPECT(!zk_name_sees(&mutex, ZK_KIND_WRITE));
    EXPECT(!zk_name_sees(&mutex, ZK_KIND_KAZOO));
    EXPECT(!zk_name_sees(&reader, ZK_KIND_LOCK));
    EXPECT(!zk_name_sees(&writer, ZK_KIND_LOCK));
    EXPECT(zk_name_sees(&reader, ZK_KIND_WRITE));
    EXPECT(zk_name_sees(&writer, ZK_KIND_READ));
    EXPECT(zk_name_sees(&kazoo, ZK_KIND_KAZOO));
    EXPECT(!zk_name_sees(&kazoo, ZK_KIND_LOCK));
    EXPECT(!zk_name_sees(&bare, ZK_KIND_LOCK));
    EXPECT(zk_name_sees(&go, ZK_KIND_LOCK));
    EXPECT(zk_name_sees(&go, ZK_KIND_KAZOO));
}

static const test_case cases[] = {TEST(ours_round_trip), TEST(who_made_it),
                                  TEST(what_is_no_entry), TEST(order_wraps),
                                  TEST(who_sees_whom)};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "zookeeper names", cases,
                     sizeof cases / sizeof *cases);
}
