/* errors.c - refusals: each with its own code, and nothing left behind.
 *
 * Also what belongs to no single operation: options of the URL, opening and
 * closing, the probe, and caps that contradict each other. */
#include "suite.h"

#include "base/url.h"
#include "core/registry.h"

static void join_without_a_session(void)
{
    party *a = party_open(LONG_MS);
    hf_place place = make_place("k", HF_EXCLUSIVE);
    hf_id mine = a->sid;

    a->sid = make_rid();
    EXPECT_CODE(join(a, &place), HF_EEXPIRED);
    EXPECT_CODE(try_join(a, &place), HF_EEXPIRED);
    a->sid = mine;
    EXPECT_EQ(count_entries(a), 0);
    must_hold(a, &place);
    must_leave(a, &place);
    party_close(a);
}

static void confirm_of_what_is_gone(void)
{
    party *a = party_open(LONG_MS);
    hf_place place = make_place("k", HF_EXCLUSIVE);

    place.lease = HF_MS(LONG_MS);
    EXPECT_CODE(confirm(a, &place), 0);
    EXPECT_EQ(place.verdict, HF_GONE);
    must_hold(a, &place);
    must_leave(a, &place);
    EXPECT_CODE(confirm(a, &place), 0);
    EXPECT_EQ(place.verdict, HF_GONE);
    EXPECT_EQ(count_entries(a), 0);
    party_close(a);
}

/* Several at once, some of them gone: each has its own verdict. */
static void recheck_of_a_mixture(void)
{
    party *a = party_open(LONG_MS);
    hf_place held = make_place("k", HF_EXCLUSIVE);
    hf_place waits = make_place("k", HF_EXCLUSIVE);
    hf_place left = make_place("k", HF_EXCLUSIVE);
    hf_place never = make_place("k2", HF_SHARED);
    hf_place *all[] = {&never, &held, &left, &waits};

    must_hold(a, &held);
    must_wait(a, &left);
    must_wait(a, &waits);
    EXPECT_EQ(leave(a, &left), HF_WAITS);
    EXPECT_CODE(recheck_many(a, all, 4), 0);
    EXPECT_EQ(never.verdict, HF_GONE);
    EXPECT_EQ(held.verdict, HF_GRANTED);
    EXPECT_EQ(left.verdict, HF_GONE);
    EXPECT_EQ(waits.verdict, HF_WAITS);
    EXPECT_CODE(recheck_many(a, all, 0), 0);
    party_close(a);
}

static void unknown_option_is_refused(void)
{
    hf_host host = {.ctx = NULL};
    hf_error err = {.code = 0};
    const hf_driver *driver;
    hf_store *store;
    hf_url *url;
    uint32_t caps;
    char text[300];
    const char *base = the_target->url("a");

    snprintf(text, sizeof text, "%s%cno_such_option=1", base,
             strchr(base, '?') ? '&' : '?');
    EXPECT_CODE(
        hf__registry_open(&driver, &store, &url, text, &host, &caps, &err),
        HF_EURL);
    EXPECT_HAS(err.text, "no_such_option");
    EXPECT(strchr(err.text, '\n') == NULL);
}

/* Two stores of one URL, closed and opened again: no memory of the first. */
static void open_and_close_often(void)
{
    for (int i = 0; i < 20; i++) {
        party *a = party_open(LONG_MS), *b = party_open(LONG_MS);
        hf_place place = make_place("k", HF_EXCLUSIVE);

        must_hold(i % 2 ? a : b, &place);
        party_close(a);
        party_close(b);
    }
}

static void count_finding(hf_level level, const char *name, const char *text,
                          void *user)
{
    int *count = user;

    EXPECT(level >= HF_FINE && level <= HF_FAIL);
    EXPECT(name[0] != '\0' && strpbrk(name, " \n") == NULL);
    EXPECT(text[0] != '\0' && strchr(text, '\n') == NULL);
    ++*count;
}

static void probe_finds_something(void)
{
    party *a = party_open(LONG_MS);
    int count = 0;
    hf_op op = make_op(a, HF_OP_PROBE);

    op.emit_finding = count_finding;
    op.user = &count;
    run_op(a, &op);
    EXPECT_CODE(op.error.code, 0);
    EXPECT(count > 0);
    party_close(a);
}

/* What the caps say together. */
static void caps_make_sense(void)
{
    party *a = party_open(LONG_MS);

    EXPECT(HAS_CAP(a, HF_CAP_BLOCKING) || a->driver->drive != NULL);
    EXPECT(!HAS_CAP(a, HF_CAP_RUN) || HAS_CAP(a, HF_CAP_TOKEN));
    EXPECT((a->driver->park == NULL) == (a->driver->unpark == NULL));
    EXPECT(!HAS_CAP(a, HF_CAP_PUSH) || a->driver->fd(a->store) >= 0 ||
           a->driver->park != NULL);
    EXPECT(a->driver->abi == HF_DRIVER_ABI);
    party_close(a);
}

const test_case error_tests[] = {
    TEST(join_without_a_session), TEST(confirm_of_what_is_gone),
    TEST(recheck_of_a_mixture),   TEST(unknown_option_is_refused),
    TEST(open_and_close_often),   TEST(probe_finds_something),
    TEST(caps_make_sense),        {NULL, NULL, 0}};
