/* abi_test.c - programs and drivers of another version meet this library.
 *
 * Option structs of an older program (shorter) and of a newer one (longer),
 * drivers that are missing, older, of another kind, or no driver at all: each
 * works or is refused with its code and a sentence that says what to do.  The
 * odd drivers lie in the folder that HOLDFAST_DRIVER_PATH names. */
#include <stddef.h>
#include <unistd.h>

#include "harness/expect.h"
#include "harness/runner.h"

/* One line that names the thing. */
static void expect_refused(const char *url, int code, const char *part)
{
    hf_session *s = (hf_session *)1;
    hf_error err = {.code = 1};

    EXPECT_CODE(hf_open(&s, url, NULL, &err), code);
    EXPECT(s == (hf_session *)1); /* outputs are written on success only */
    EXPECT_EQ(err.code, code);
    EXPECT_HAS(err.text, part);
    EXPECT(strchr(err.text, '\n') == NULL);
}

static void missing_driver(void)
{
    expect_refused("postgres://h/db", HF_EDRIVER, "install holdfast-postgres");
    expect_refused("mariadb://h/db", HF_EDRIVER, "install holdfast-mariadb");
    expect_refused("trace+postgres://h/db", HF_EDRIVER, "install holdfast-");
}

static void unknown_scheme(void)
{
    hf_session *s;
    hf_error err;
    int code = hf_open(&s, "nosuchstore:x", NULL, &err);

    EXPECT(code == HF_EURL || code == HF_EDRIVER);
    EXPECT_HAS(err.text, "nosuchstore");
    EXPECT_HAS(err.text, "sqlite");
}

static void old_abi(void)
{
    expect_refused("redis://h", HF_EDRIVER, "ABI");
    expect_refused("redis://h", HF_EDRIVER, "holdfast-redis.so");
}

static void short_struct(void)
{
    expect_refused("etcd://h", HF_EDRIVER, "holdfast-etcd.so");
}

static void no_entry(void)
{
    expect_refused("odbc:x", HF_EDRIVER, "not a holdfast driver");
}

static void not_an_object(void)
{
    expect_refused("zookeeper://h", HF_EDRIVER, "holdfast-zookeeper.so");
}

/* A driver that was asked for and does not know the scheme; again and again,
 * since a refused object must not fill a table. */
static void other_scheme(void)
{
    for (int i = 0; i < 100; i++)
        expect_refused("rediss://h", HF_EDRIVER, "holdfast-redis");
}

static void take_no_line(const char *line, void *user)
{
    (void)user;
    EXPECT_STR(line, "no line at all");
}

/* Accepted, and what its size does not cover is taken for not there. */
static void older_driver(void)
{
    hf_error err;

    EXPECT_CODE(hf_ddl("redis:", false, take_no_line, NULL, &err), HF_ENOTSUP);
    EXPECT_HAS(err.text, "redis");
    EXPECT_CODE(hf_ddl("sqlite:", true, take_no_line, NULL, &err), HF_ENOTSUP);
    EXPECT_CODE(hf_ddl("redis:", false, NULL, NULL, &err), HF_EINVAL);
    EXPECT_CODE(hf_ddl("redis:?x=1", false, take_no_line, NULL, &err), HF_EURL);
}

static hf_session *open_mem(void)
{
    hf_session *s;
    hf_error err;

    EXPECT_OK(hf_open(&s, "mem:", NULL, &err), err);
    return s;
}

/* A program from the days when the struct ended after `lease_ms`: what lies
 * behind it is the program's own and must not be read. */
static void older_lock_options(void)
{
    hf_session *s = open_mem();
    hf_lock_options opt;
    hf_hold *hold;
    hf_error err;

    memset(&opt, 0xee, sizeof opt);
    opt.size = offsetof(hf_lock_options, lease_ms);
    opt.wait_ms = 0;
    opt.mode = HF_EXCLUSIVE;
    opt.places = 0;
    EXPECT_OK(hf_lock(s, "k", &opt, &hold, &err), err);
    EXPECT_OK(hf_release(hold, &err), err);
    hf_close(s);
}

static void newer_lock_options(void)
{
    struct {
        hf_lock_options known;
        uint64_t news[4];
    } opt = {.known = {.size = sizeof opt}};
    hf_session *s = open_mem();
    hf_hold *hold;
    hf_error err;

    EXPECT_OK(hf_lock(s, "k", &opt.known, &hold, &err), err);
    EXPECT_OK(hf_release(hold, &err), err);
    opt.news[3] = 1;
    EXPECT_CODE(hf_lock(s, "k", &opt.known, &hold, &err), HF_EINVAL);
    EXPECT_HAS(err.text, "hf_lock_options");
    hf_close(s);
}

/* Forgotten: zero, or whatever was on the stack. */
static void options_without_size(void)
{
    static const size_t sizes[] = {0, 1, 7, SIZE_MAX, SIZE_MAX / 2, 1 << 30};
    hf_session *s = open_mem();
    hf_lock_options opt = {.wait_ms = 0};
    hf_break_options breaking = {.token = 0};
    hf_hold *hold;
    hf_error err;

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        opt.size = breaking.size = sizes[i];
        EXPECT_CODE(hf_lock(s, "k", &opt, &hold, &err), HF_EINVAL);
        EXPECT_HAS(err.text, "size");
        EXPECT_CODE(hf_break(s, "k", &breaking, NULL, &err), HF_EINVAL);
    }
    hf_close(s);
}

static void older_open_options(void)
{
    hf_open_options opt;
    hf_session *s;
    hf_error err;

    memset(&opt, 0xee, sizeof opt);
    opt.size = offsetof(hf_open_options, name);
    opt.lease_ms = 5000;
    EXPECT_OK(hf_open(&s, "mem:", &opt, &err), err);
    hf_close(s);
    opt.size = 0;
    EXPECT_CODE(hf_open(&s, "mem:", &opt, &err), HF_EINVAL);
}

static void older_break_options(void)
{
    hf_session *s = open_mem();
    hf_break_options opt;
    uint32_t broken = 9;
    hf_error err;

    memset(&opt, 0xee, sizeof opt);
    opt.size = offsetof(hf_break_options, now);
    opt.token = 0;
    EXPECT_OK(hf_break(s, "k", &opt, &broken, &err), err);
    EXPECT_EQ(broken, 0);
    hf_close(s);
}

/* What others were compiled with does not change under them. */
static void numbers_and_sizes(void)
{
    EXPECT_EQ(HF_EBUSY, -1);
    EXPECT_EQ(HF_EEXPIRED, -10);
    EXPECT_EQ(HF_EUNKNOWN, -20);
    EXPECT_EQ(HF_EUNAVAIL, -30);
    EXPECT_EQ(HF_EINVAL, -40);
    EXPECT_EQ(HF_EURL, -50);
    EXPECT_EQ(HF_EINTERNAL, -61);
    EXPECT_EQ(sizeof(hf_error), 256);
    EXPECT_EQ(offsetof(hf_lock_options, size), 0);
    EXPECT_EQ(offsetof(hf_open_options, size), 0);
    EXPECT_EQ(offsetof(hf_break_options, size), 0);
    EXPECT_EQ(offsetof(hf_lock_options, wait_ms), 8);
    EXPECT_EQ(HF_CAP_CRASH_AT_ONCE, 1 << 10);
    EXPECT_STR(hf_version(), HF_VERSION_TEXT);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        TEST(missing_driver),
        TEST(unknown_scheme),
        TEST(old_abi),
        TEST(short_struct),
        TEST(no_entry),
        TEST(not_an_object),
        TEST(other_scheme),
        TEST(older_driver),
        TEST(older_lock_options),
        TEST(newer_lock_options),
        TEST(options_without_size),
        TEST(older_open_options),
        TEST(older_break_options),
        TEST(numbers_and_sizes),
    };

    return run_tests(argc, argv, "abi", cases, sizeof cases / sizeof *cases);
}
