/* fault_test.c - the shim fails exactly as it was told, and no more.
 *
 * On a mem: store, which never fails by itself: what is refused was not done,
 * what was done and lost shows nothing of its answer, and a second, honest
 * party sees the truth.  The parties are those of the conformance suite. */
#include "../../tests/conformance/suite.h"

#include <unistd.h>

#include "base/url.h"
#include "core/registry.h"

static char url_text[512] = "mem:a";

static const char *chosen_url(const char *which)
{
    (void)which;
    return url_text;
}

static const target fault_target = {"fault", chosen_url, {.lease_min_ms = 1}};
const target *the_target = &fault_target;

static int faults_logged;

static void count_line(hf_log_level level, const char *line, void *user)
{
    (void)level;
    (void)user;
    faults_logged += strncmp(line, "fault: ", 7) == 0;
}

/* Opens on fault+mem:a with these options, attached before they bite. */
static party *open_faulty(const char *options)
{
    party *p;

    hf_set_log(count_line, NULL, HF_LOG_INFO);
    faults_logged = 0;
    snprintf(url_text, sizeof url_text, "fault+mem:a?%s", options);
    p = party_open(LONG_MS);
    snprintf(url_text, sizeof url_text, "mem:a");
    return p;
}

static void mark_done(hf_op *op)
{
    *(int *)op->core += 1;
}

/* Runs op whatever its outcome. */
static hf_outcome run_any(party *p, hf_op *op)
{
    int done = 0;

    op->core = &done;
    op->done = mark_done;
    p->driver->start(p->store, op);
    EXPECT_EQ(done, 1);
    EXPECT(op->core == &done && op->done == mark_done);
    return op->outcome;
}

static hf_outcome run_kind(party *p, hf_op_kind kind, hf_place *place)
{
    hf_op op = make_op(p, kind);

    op.place = place;
    op.places = &place;
    op.place_count = kind == HF_OP_RECHECK;
    op.ttl = HF_MS(LONG_MS);
    if (run_any(p, &op) == HF_UNKNOWN)
        EXPECT_CODE(op.error.code, HF_EUNKNOWN);
    else if (op.outcome == HF_NOT_APPLIED)
        EXPECT_CODE(op.error.code, HF_EUNAVAIL);
    return op.outcome;
}

static void before_is_not_executed(void)
{
    party *honest = party_open(LONG_MS);
    party *p = open_faulty("fault_nth=2&fault_kind=before&fault_ops=join");
    hf_place one = make_place("k", HF_SHARED), two = make_place("k", HF_SHARED);

    EXPECT_EQ(run_kind(p, HF_OP_JOIN, &one), HF_APPLIED);
    EXPECT_EQ(faults_logged, 0);
    EXPECT(run_kind(p, HF_OP_JOIN, &two) != HF_APPLIED);
    EXPECT_EQ(faults_logged, 1);
    EXPECT_EQ(count_entries(honest), 1);
    EXPECT_EQ(run_kind(p, HF_OP_JOIN, &two), HF_APPLIED);
    EXPECT_EQ(count_entries(honest), 2);
    EXPECT_EQ(faults_logged, 1);
    party_close(p);
    party_close(honest);
}

static void after_is_executed_and_lost(void)
{
    party *honest = party_open(LONG_MS);
    party *p = open_faulty("fault_nth=1&fault_kind=after&fault_ops=join,leave");
    hf_place one = make_place("k", HF_EXCLUSIVE);

    EXPECT_EQ(run_kind(p, HF_OP_JOIN, &one), HF_UNKNOWN);
    EXPECT(one.verdict == 0 && one.num == 0 && one.token == 0);
    EXPECT_EQ(count_entries(honest), 1);
    EXPECT_EQ(run_kind(p, HF_OP_JOIN, &one), HF_APPLIED);
    EXPECT_EQ(one.verdict, HF_GRANTED);
    party_close(p);
    p = open_faulty("fault_nth=2&fault_kind=after&fault_ops=join,leave");
    one.rid = make_rid();
    must_hold(p, &one);
    EXPECT_EQ(run_kind(p, HF_OP_LEAVE, &one), HF_UNKNOWN);
    EXPECT_EQ(one.verdict, HF_GRANTED); /* as it was before */
    EXPECT_EQ(count_entries(honest), 0);
    EXPECT_EQ(leave(p, &one), HF_GONE);
    party_close(p);
    party_close(honest);
}

/* No row and no seat of a lost answer comes through. */
static void lost_answers_show_nothing(void)
{
    party *p = open_faulty("fault_kind=after&fault_rate=100&marks=no"
                           "&fault_ops=recheck,list");
    hf_place one = make_place("k", HF_EXCLUSIVE);
    listing *list = calloc(1, sizeof *list);
    hf_op op = make_op(p, HF_OP_LIST);

    must_hold(p, &one);
    one.verdict = 0;
    EXPECT_EQ(run_kind(p, HF_OP_RECHECK, &one), HF_UNKNOWN);
    EXPECT(one.verdict == 0 && one.seats == NULL);
    op.user = list;
    EXPECT_EQ(run_any(p, &op), HF_UNKNOWN);
    EXPECT(list != NULL && list->count == 0);
    free(list);
    party_close(p);
}

static void seed_repeats_exactly(void)
{
    char runs[3][64];

    for (int run = 0; run < 3; run++) {
        party *p = open_faulty(run < 2 ? "fault_seed=7&fault_rate=50"
                                         "&fault_kind=both&fault_ops=renew"
                                       : "fault_seed=8&fault_rate=50"
                                         "&fault_kind=both&fault_ops=renew");

        for (int i = 0; i < 64; i++)
            runs[run][i] = (char)run_kind(p, HF_OP_RENEW, NULL);
        EXPECT(faults_logged > 10 && faults_logged < 54);
        EXPECT(memchr(runs[run], HF_UNKNOWN, 64) != NULL);
        EXPECT(memchr(runs[run], HF_NOT_APPLIED, 64) != NULL);
        party_close(p);
    }
    EXPECT(memcmp(runs[0], runs[1], 64) == 0);
    EXPECT(memcmp(runs[0], runs[2], 64) != 0);
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    EXPECT(file != NULL);
    fputs(text, file);
    fclose(file);
}

static void file_switches_live(void)
{
    char path[200], options[256];
    party *p;

    snprintf(path, sizeof path, "%s/faults", test_folder());
    snprintf(options, sizeof options, "fault_file=%s", path);
    p = open_faulty(options);
    EXPECT_EQ(run_kind(p, HF_OP_RENEW, NULL), HF_APPLIED);
    write_file(path, "rate=100 kind=before\nops=renew\n");
    EXPECT(run_kind(p, HF_OP_RENEW, NULL) != HF_APPLIED);
    EXPECT(run_kind(p, HF_OP_RENEW, NULL) != HF_APPLIED);
    write_file(path, "kind=after nth=2 nonsense=1");
    EXPECT_EQ(run_kind(p, HF_OP_RENEW, NULL), HF_APPLIED);
    EXPECT_EQ(run_kind(p, HF_OP_RENEW, NULL), HF_UNKNOWN);
    EXPECT_EQ(run_kind(p, HF_OP_RENEW, NULL), HF_APPLIED);
    write_file(path, "rate=100");
    EXPECT(run_kind(p, HF_OP_RENEW, NULL) != HF_APPLIED);
    EXPECT_EQ(unlink(path), 0);
    EXPECT_EQ(run_kind(p, HF_OP_RENEW, NULL), HF_APPLIED);
    party_close(p);
}

static void pushes_are_dropped(void)
{
    party *honest = party_open(LONG_MS);
    party *p = open_faulty("fault_drop_push=100");
    hf_place one = make_place("k", HF_EXCLUSIVE);
    hf_place two = make_place("k", HF_EXCLUSIVE);

    must_hold(honest, &one);
    must_wait(p, &two);
    must_leave(honest, &one);
    EXPECT(!wait_changed(p, &two.rid, 100));
    EXPECT_EQ(faults_logged, 1);
    await_verdict(p, &two, HF_GRANTED);
    party_close(p);
    party_close(honest);
}

static void slow_is_late_and_done(void)
{
    party *p = open_faulty(
        "fault_kind=slow&fault_nth=1&fault_delay_ms=80&fault_ops=join");
    hf_place one = make_place("k", HF_EXCLUSIVE);
    long long began = test_now_ms();

    must_hold(p, &one);
    EXPECT(test_now_ms() - began >= 79);
    EXPECT_EQ(faults_logged, 1);
    party_close(p);
}

static void expect_refused(const char *options, const char *names)
{
    hf_host host = {.ctx = NULL};
    hf_error err = {.code = 0};
    const hf_driver *driver;
    hf_store *store;
    hf_url *url;
    uint32_t caps;
    char text[200];

    snprintf(text, sizeof text, "fault+mem:a?%s", options);
    EXPECT_CODE(
        hf__registry_open(&driver, &store, &url, text, &host, &caps, &err),
        HF_EURL);
    EXPECT_HAS(err.text, names);
}

static void nonsense_is_refused(void)
{
    expect_refused("fault_kind=sometimes", "fault_kind=sometimes");
    expect_refused("fault_rate=101", "fault_rate=101");
    expect_refused("fault_rate=-1", "fault_rate=-1");
    expect_refused("fault_nth=x", "fault_nth=x");
    expect_refused("fault_ops=join,dance", "fault_ops=join,dance");
    expect_refused("fault_seed=x", "fault_seed");
    expect_refused("fault_no=1", "fault_no");
}

static const test_case cases[] = {
    TEST(before_is_not_executed),    TEST(after_is_executed_and_lost),
    TEST(lost_answers_show_nothing), TEST(seed_repeats_exactly),
    TEST(file_switches_live),        TEST(pushes_are_dropped),
    TEST(slow_is_late_and_done),     TEST(nonsense_is_refused)};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "fault", cases, sizeof cases / sizeof *cases);
}
