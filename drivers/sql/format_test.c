/* format_test.c - names and digests of the peers' formats, without a server.
 *
 * The vectors of names are what the peers' own code answers (a JVM's UUID,
 * .NET's DistributedLock); those of digests are their standards'. */
#include "harness/expect.h"
#include "harness/runner.h"

#include "format.h"

static void expect_hex(const uint8_t *digest, size_t n, const char *expected)
{
    char hex[129];

    sql_put_hex(hex, digest, n);
    EXPECT_STR(hex, expected);
}

static void digests_are_right(void)
{
    static const char text[] =
        "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    static const char long_text[] =
        "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
        "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu";
    uint8_t d[64];

    sql_md5("", 0, d);
    expect_hex(d, 16, "d41d8cd98f00b204e9800998ecf8427e");
    sql_md5("message digest", 14, d);
    expect_hex(d, 16, "f96b697d7cb7938d525a2f31aaf161d0");
    sql_md5("1234567890123456789012345678901234567890123456789012345678901234"
            "5678901234567890",
            80, d);
    expect_hex(d, 16, "57edf4a22be3c955ac49da2e2107b67a");
    sql_sha1("abc", 3, d);
    expect_hex(d, 20, "a9993e364706816aba3e25717850c26c9cd0d89d");
    sql_sha1(text, strlen(text), d);
    expect_hex(d, 20, "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
    sql_sha512("abc", 3, d);
    expect_hex(d, 64,
               "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d3"
               "9a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54c"
               "a49f");
    sql_sha512(long_text, strlen(long_text), d);
    expect_hex(d, 64,
               "8e959b75dae313da8cf4f72814fc143f8f7779c6eb9f7fa17299aeadb68890"
               "18501d289e4900f7e4331b99dec4b5433ac7d329eeb6dd26545e96e55b874b"
               "e909");
}

static void spring_keys(void)
{
    static const struct {
        const char *name, *key;
    } rows[] = {
        {"foo", "acbd18db-4cc2-385c-adef-654fccc4a4d8"},
        {"my-lock", "eda23b8c-64b2-3f01-8c10-660455d15168"},
        {"order:42", "d978d567-2fe1-37dc-b580-4df0b784b958"},
        {"\xc3\xa9", "66ddcd97-cfde-3bb2-b6fb-8a999b4bc76f"},
        {"", "d41d8cd9-8f00-3204-a980-0998ecf8427e"},
        {"ABCDEF01-2345-6789-ABCD-EF0123456789",
         "abcdef01-2345-6789-abcd-ef0123456789"},
    };
    char key[37];

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sql_spring_key(rows[i].name, strlen(rows[i].name), key);
        EXPECT_STR(key, rows[i].key);
    }
    /* Five groups of digits are a name like any other. */
    sql_spring_key("1-1-1-1-1", 9, key);
    EXPECT(strcmp(key, "00000001-0001-0001-0001-000000000001") != 0);
}

static void expect_pair(const char *name, int32_t high, int32_t low)
{
    sql_advisory_key key;

    sql_advisory_madelson(name, strlen(name), &key);
    EXPECT(key.pair);
    EXPECT_EQ(key.high, high);
    EXPECT_EQ(key.low, low);
}

static void expect_number(const char *name, int64_t number)
{
    sql_advisory_key key;

    sql_advisory_madelson(name, strlen(name), &key);
    EXPECT(!key.pair);
    EXPECT_EQ(key.number, number);
}

static void advisory_keys(void)
{
    sql_advisory_key key;

    expect_pair("my-lock", -605720883, -118112257);
    expect_pair("a", -1023410177, -1);
    expect_pair("123456789", 1657379654, -1382303630);
    expect_pair("", 2147483647, -1);
    expect_number("order-processing", INT64_C(8898162508575848333));
    expect_number("MyLockName-long", INT64_C(-1259910332256179087));
    expect_number("0123456789abcdef", INT64_C(0x0123456789abcdef));
    expect_pair("00000001,ffffffff", 1, -1);
    /* What SQL says: ('x' || left(md5('job'), 16))::bit(64)::bigint */
    sql_advisory_holdfast("job", 3, &key);
    EXPECT(!key.pair);
    EXPECT_EQ(key.number, INT64_C(-7071260758707571268));
}

static void expect_getlock(const char *name, const char *expected)
{
    char ret[SQL_GETLOCK_MAX + 1];

    EXPECT(sql_getlock_madelson(name, strlen(name), ret));
    EXPECT_STR(ret, expected);
}

static void getlock_names(void)
{
    char long_name[71], expected[65], ret[SQL_GETLOCK_MAX + 1];

    expect_getlock("order", "order");
    expect_getlock("Order", "order4s65ovszwqjcgaagugrf7tgas6kh27jw");
    expect_getlock("", "__empty__p6ad62yppho33ytkibum5wbqhqvbcsxa");
    memset(long_name, 'x', 70);
    long_name[70] = '\0';
    memset(expected, 'x', 32);
    memcpy(expected + 32, "a2c43imllfpmlp6d4lwcyytrulj2ticu", 33);
    expect_getlock(long_name, expected);
    EXPECT(!sql_getlock_madelson("\xc3\x84", 2, ret));

    EXPECT(sql_getlock_holdfast("order:42", 8, ret));
    EXPECT_STR(ret, "order:42");
    EXPECT(sql_getlock_holdfast("Order", 5, ret));
    EXPECT_EQ(strlen(ret), 35);
    EXPECT(sql_getlock_holdfast(ret, 35, long_name));
    EXPECT(strcmp(ret, long_name) != 0); /* no name looks like a hash */
    EXPECT(sql_getlock_holdfast(expected, 64, ret));
    EXPECT_STR(ret, expected);
}

static void names_of_columns(void)
{
    static const char *const bad[] = {"",
                                      "a ",
                                      "a\n",
                                      "\xe4",
                                      "a\xc3",
                                      "\xc0\xaf",
                                      "\xed\xa0\x80",
                                      "\xf5\x80\x80\x80",
                                      "\xe0\x80\xaf",
                                      "\xf4\x90\x80\x80"};
    char text[130];

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        EXPECT(!sql_is_name(bad[i], strlen(bad[i]), 64));
    EXPECT(!sql_is_name("a\0b", 3, 64));
    EXPECT(sql_is_name("job", 3, 64));
    EXPECT(sql_is_name("\xf0\x9f\x94\x92", 4, 1));
    for (size_t i = 0; i < 128; i += 2)
        memcpy(text + i, "\xc3\xa4", 2);
    EXPECT(sql_is_name(text, 128, 64)); /* characters, not bytes */
    EXPECT(!sql_is_name(text, 128, 63));
}

static void times_of_texts(void)
{
    char text[SQL_TIME_LEN];

    sql_time_text(0, text);
    EXPECT_STR(text, "1970-01-01 00:00:00.000000");
    sql_time_text(INT64_C(951782399999999), text);
    EXPECT_STR(text, "2000-02-28 23:59:59.999999");
    sql_time_text(INT64_C(951868799000001), text);
    EXPECT_STR(text, "2000-02-29 23:59:59.000001");
    sql_time_text(INT64_C(4107542400000000), text);
    EXPECT_STR(text, "2100-03-01 00:00:00.000000");
    sql_time_text(-1, text);
    EXPECT_STR(text, "1969-12-31 23:59:59.999999");
}

static void statements_in_both_ways(void)
{
    static const sql_word words[] = {
        {"table", "t"}, {"end", "@now + ?2"}, {"now", "f(?3)"}, {NULL, NULL}};
    static const char template[] =
        "UPDATE @table SET a = @end, b = @now WHERE k IN (@keys) AND o IN"
        " (@owners)";
    sql_dialect numbered = {.name = "x", .numbered = true};
    sql_dialect plain = {.name = "y"};
    hf_error err = {.code = 0};
    static sql_text text;

    EXPECT_OK(sql_peer_render(&text, &numbered, words, template, 2, &err), err);
    EXPECT_STR(text.text, "UPDATE t SET a = f($1) + $2, b = f($1) WHERE k IN"
                          " ($3, $4) AND o IN ($5, $6)");
    EXPECT_EQ(text.count, 6);
    EXPECT_EQ(text.order[0], 2);
    EXPECT_EQ(text.order[1], 1);
    EXPECT_EQ(text.order[2], SQL_PEER_FIXED);
    EXPECT_EQ(text.order[5], SQL_PEER_FIXED + 3);
    EXPECT(text.writes && text.id == SQL_COUNT);
    EXPECT_OK(sql_peer_render(&text, &plain, words, template, 1, &err), err);
    EXPECT_STR(text.text, "UPDATE t SET a = f(?) + ?, b = f(?) WHERE k IN (?)"
                          " AND o IN (?)");
    EXPECT_EQ(text.count, 5);
    EXPECT_EQ(text.order[2], 2);
    EXPECT_CODE(
        sql_peer_render(&text, &plain, words, "SELECT @nothing", 1, &err),
        HF_EINTERNAL);
}

static const test_case cases[] = {
    TEST(digests_are_right),      TEST(spring_keys),      TEST(advisory_keys),
    TEST(getlock_names),          TEST(names_of_columns), TEST(times_of_texts),
    TEST(statements_in_both_ways)};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "format", cases, sizeof cases / sizeof *cases);
}
