/* resp_test.c - commands as the server wants them, replies of every kind, and
 * what is none: cut anywhere, too long, too deep, with numbers that lie. */
#include "harness/expect.h"
#include "harness/runner.h"

#include "resp.h"
#include "wire.h"

static void commands(void)
{
    static const char wanted[] =
        "*4\r\n$3\r\nSET\r\n$3\r\na\0b\r\n$3\r\n-70\r\n$0\r\n\r\n";
    hf__buf out = {0};

    resp_command(&out, 4);
    resp_text(&out, "SET");
    resp_word(&out, "a\0b", 3);
    resp_number(&out, -70);
    resp_text(&out, "");
    EXPECT_EQ(hf__buf_len(&out), sizeof wanted - 1);
    EXPECT(memcmp(out.data + out.start, wanted, sizeof wanted - 1) == 0);
    hf__buf_done(&out);
}

static void encode_nothing(redis_call *call, hf__buf *out,
                           const redis_server *server)
{
    (void)call;
    (void)out;
    (void)server;
}

static void scripts(void)
{
    static char long_text[201];
    redis_script one = {"one", "return 1", ""}, empty = {"empty", "", ""},
                 longer = {"longer", long_text, ""};
    redis_call call = {.encode = encode_nothing};
    hf__buf out = {0};

    redis_script_ready(&one);
    EXPECT_STR(one.sha, "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
    redis_script_ready(&empty);
    EXPECT_STR(empty.sha, "da39a3ee5e6b4b0d3255bfef95601890afd80709");
    /* Every way in which the last block can be full. */
    memset(long_text, 'a', 55);
    redis_script_ready(&longer);
    EXPECT_STR(longer.sha, "c1c8bbdc22796e28c0e15163d20899b65621d65a");
    long_text[55] = 'a';
    redis_script_ready(&longer);
    EXPECT_STR(longer.sha, "c2db330f6083854c99d4b5bfb6e8f29f201be699");
    memset(long_text, 'a', 200);
    redis_script_ready(&longer);
    EXPECT_STR(longer.sha, "e61cfffe0d9195a525fc6cf06ca2d77119c24a40");

    resp_script(&out, &call, &one, 1, 2);
    hf__buf_add(&out, "", 1);
    EXPECT_STR(out.data + out.start,
               "*5\r\n$7\r\nEVALSHA\r\n$40\r\n"
               "e0e1f9fabfc9d4800c877a703b823ac0578ff8db\r\n$1\r\n1\r\n");
    hf__buf_done(&out);
    call.by_text = true;
    resp_script(&out, &call, &one, 0, 0);
    hf__buf_add(&out, "", 1);
    EXPECT_STR(out.data + out.start,
               "*3\r\n$4\r\nEVAL\r\n$8\r\nreturn 1\r\n$1\r\n0\r\n");
    hf__buf_done(&out);
}

static const char whole[] = "*7\r\n+OK\r\n-ERR no\r\n:-12\r\n$-1\r\n*-1\r\n"
                            "*2\r\n$3\r\na\r\n\r\n*0\r\n$2\r\n42\r\n";

/* Whole it is whole, and cut anywhere it is not there yet; a scan that goes on
 * from piece to piece finds the same end. */
static void pieces(void)
{
    size_t len = sizeof whole - 1;
    resp_scan scan = {0};

    EXPECT_EQ(resp_size(whole, len), len);
    for (size_t i = 0; i < len; i++) {
        EXPECT_EQ(resp_size(whole, i), 0);
        EXPECT_EQ(resp_more(&scan, whole, i), 0);
    }
    EXPECT_EQ(resp_more(&scan, whole, len), len);
    EXPECT_EQ(resp_size("+OK\r\n+NEXT\r\n", 12), 5);
}

static void insides(void)
{
    resp all = resp_at(whole), inner, item;

    EXPECT_EQ(all.type, RESP_ARRAY);
    EXPECT_EQ(all.number, 7);
    EXPECT(all.after == whole + sizeof whole - 1);
    item = resp_item(&all, 0);
    EXPECT(item.type == RESP_STATUS && resp_is(&item, "OK"));
    EXPECT(!resp_is(&item, "O") && !resp_is(&item, "OKAY"));
    item = resp_at(item.after);
    EXPECT(item.type == RESP_ERROR && item.len == 6);
    EXPECT(!resp_is(&item, "ERR no"));
    item = resp_at(item.after);
    EXPECT_EQ(resp_int(&item, 0), -12);
    item = resp_at(item.after);
    EXPECT_EQ(item.type, RESP_NIL);
    EXPECT_EQ(resp_int(&item, 5), 5);
    item = resp_at(item.after);
    EXPECT_EQ(item.type, RESP_NIL);
    inner = resp_item(&all, 5);
    EXPECT_EQ(inner.number, 2);
    item = resp_item(&inner, 0);
    EXPECT(resp_is(&item, "a\r\n"));
    EXPECT_EQ(resp_int(&item, 7), 7);
    item = resp_item(&inner, 1);
    EXPECT(item.type == RESP_ARRAY && item.number == 0 && !item.inside);
    EXPECT(resp_item(&inner, 2).type == RESP_NIL);
    item = resp_item(&all, 6);
    EXPECT_EQ(resp_int(&item, 0), 42);
    EXPECT(resp_item(&item, 0).type == RESP_NIL);
    item = resp_at("+a\0b\r\n");
    EXPECT_EQ(item.len, 3);
}

static void nonsense(void)
{
    static const char *const bad[] = {
        "HTTP/1.1 400 Bad Request\r\n",
        "\r\n",
        ":\r\n",
        ":-\r\n",
        ":1a\r\n",
        ":+1\r\n",
        ":9223372036854775808\r\n",
        ":99999999999999999999999999999999999999",
        "$-2\r\n",
        "$ 1\r\na\r\n",
        "$1\r\nab\r\n",
        "$1\nab",
        "$67108865\r\n",
        "*67108865\r\n",
        "*-2\r\n",
        "+a\nb\r\n",
        "+a\rb",
        "*2\r\n:1\r\n!x\r\n",
        "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n",
        "%1\r\n",
    };
    static const char deep[] =
        "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n";
    char *line;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (resp_size(bad[i], strlen(bad[i])) != -1)
            FAIL_TEST("taken for a reply: %s", bad[i]);
    }
    EXPECT_EQ(resp_size("\0", 1), -1);
    EXPECT_EQ(resp_size(deep, sizeof deep - 1), sizeof deep - 1);
    EXPECT_EQ(resp_size(":9223372036854775807\r\n", 22), 22);
    /* A line without an end is not waited for for ever. */
    line = malloc(1 << 17);
    EXPECT(line != NULL);
    memset(line, '+', 1 << 17);
    EXPECT_EQ(resp_size(line, 1000), 0);
    EXPECT_EQ(resp_size(line, 1 << 17), -1);
    free(line);
}

typedef struct meaning {
    const char *text;
    hf_outcome outcome;
    int code;
    bool cut;
    const char *has;
} meaning;

static void expect_meanings(const meaning *all, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        resp reply = {.type = RESP_ERROR,
                      .text = all[i].text,
                      .len = strlen(all[i].text)};
        hf_error err = {0};
        bool cut = !all[i].cut;
        hf_outcome outcome = redis_error_of(&reply, &err, &cut);

        if (outcome != all[i].outcome || err.code != all[i].code ||
            cut != all[i].cut)
            FAIL_TEST("'%s': outcome %d, %s, cut %d", all[i].text, outcome,
                      hf_error_name(err.code), cut);
        EXPECT_HAS(err.text, all[i].has);
    }
}

/* The words are those of a real server, 7.0. */
static void errors(void)
{
#define AT                                                                     \
    " script: 67ed14c1cb086d8c2fcf91ebe13410ba087fd0f8, on @user_script:1."
    static const meaning all[] = {
        {"NOSCRIPT No matching script. Please use EVAL.", HF_NOT_APPLIED,
         HF_EUNAVAIL, false, "script"},
        {"LOADING Redis is loading the dataset in memory", HF_NOT_APPLIED,
         HF_EUNAVAIL, false, "loading"},
        {"BUSY Redis is busy running a script. You can only call SCRIPT KILL",
         HF_NOT_APPLIED, HF_EUNAVAIL, false, "busy"},
        {"READONLY You can't write against a read only replica." AT,
         HF_NOT_APPLIED, HF_EUNAVAIL, true, "replica"},
        {"OOM command not allowed when used memory > 'maxmemory'." AT,
         HF_NOT_APPLIED, HF_EUNAVAIL, false, "maxmemory"},
        {"ERR Script killed by user with SCRIPT KILL..." AT, HF_NOT_APPLIED,
         HF_EUNAVAIL, false, "killed"},
        {"ERR max number of clients reached", HF_NOT_APPLIED, HF_EUNAVAIL, true,
         "maxclients"},
        {"MOVED 3999 127.0.0.1:6381", HF_NOT_APPLIED, HF_EUNAVAIL, true,
         "another node"},
        {"ASK 3999 127.0.0.1:6381", HF_NOT_APPLIED, HF_EUNAVAIL, false,
         "moving"},
        {"CROSSSLOT Keys in request don't hash to the same slot",
         HF_NOT_APPLIED, HF_EURL, false, "redis+cluster:"},
        {"NOAUTH Authentication required.", HF_NOT_APPLIED, HF_EAUTH, true,
         "URL"},
        {"WRONGPASS invalid username-password pair or user is disabled.",
         HF_NOT_APPLIED, HF_EAUTH, true, "password"},
        {"NOPERM this user has no permissions to run the 'set' command",
         HF_NOT_APPLIED, HF_EPERM, false, "'set'"},
        {"ERR The user executing the script can't run this command or "
         "subcommand" AT,
         HF_UNKNOWN, HF_EPERM, false, "may not"},
        {"WRONGTYPE Operation against a key holding the wrong kind of value" AT,
         HF_UNKNOWN, HF_EPROTO, false, "WRONGTYPE"},
        {"UNKILLABLE Sorry the script already executed write commands",
         HF_UNKNOWN, HF_EPROTO, false, "UNKILLABLE"},
        {"ERR Unknown Redis command called from script" AT, HF_UNKNOWN,
         HF_EPROTO, false, "Unknown"},
        {"ERR unknown command 'EVALSHA', with args beginning with: 'a'",
         HF_NOT_APPLIED, HF_EPROTO, false, "EVALSHA"},
        {"odd\001bytes\033[1m", HF_UNKNOWN, HF_EPROTO, false, "odd?bytes?[1m"},
        {"", HF_UNKNOWN, HF_EPROTO, false, "says"},
    };
#undef AT

    expect_meanings(all, sizeof all / sizeof *all);
}

/* The same from inside a script of 5.0 to 6.2. */
static void wrapped_errors(void)
{
#define OLD                                                                    \
    "ERR Error running script (call to "                                       \
    "f_67ed14c1cb086d8c2fcf91ebe13410ba087fd0f8): @user_script:21: "           \
    "@user_script: 21: "
    static const meaning all[] = {
        {OLD "-READONLY You can't write against a read only replica.",
         HF_NOT_APPLIED, HF_EUNAVAIL, true, "replica"},
        {OLD "-OOM command not allowed when used memory > 'maxmemory'.",
         HF_NOT_APPLIED, HF_EUNAVAIL, false, "maxmemory"},
        {OLD "-MISCONF Redis is configured to save RDB snapshots, but it is",
         HF_NOT_APPLIED, HF_EUNAVAIL, false, "MISCONF"},
        {OLD "The user executing the script can't run this command", HF_UNKNOWN,
         HF_EPERM, false, "may not"},
        {OLD "WRONGTYPE Operation against a key", HF_UNKNOWN, HF_EPROTO, false,
         "says"},
    };
#undef OLD

    expect_meanings(all, sizeof all / sizeof *all);
}

static const test_case cases[] = {
    TEST(commands), TEST(scripts), TEST(pieces),         TEST(insides),
    TEST(nonsense), TEST(errors),  TEST(wrapped_errors),
};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "resp", cases, sizeof cases / sizeof *cases);
}
