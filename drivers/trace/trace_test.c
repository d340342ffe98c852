/* trace_test.c - the shim tells what happened, and nothing that upsets a log.
 *
 * That everything still works behind it is the conformance suite's business
 * (its targets trace-mem and trace-sqlite); here only the lines are read. */
#include "../../tests/conformance/suite.h"

static char url_text[128] = "trace+mem:a";

static const char *chosen_url(const char *which)
{
    (void)which;
    return url_text;
}

static const target trace_target = {"trace", chosen_url, {.lease_min_ms = 1}};
const target *the_target = &trace_target;

static char told[8192];

static void keep_line(hf_log_level level, const char *line, void *user)
{
    size_t used = strlen(told);

    (void)user;
    EXPECT_EQ(level, HF_LOG_INFO);
    EXPECT(strchr(line, '\n') == NULL);
    snprintf(told + used, sizeof told - used, "%s\n", line);
}

static party *open_traced(void)
{
    hf_set_log(keep_line, NULL, HF_LOG_INFO);
    return party_open(LONG_MS);
}

static void operations_are_told(void)
{
    party *a = open_traced(), *b = party_open(LONG_MS);
    hf_place one = make_place("/invoice/7", HF_EXCLUSIVE);
    hf_place two = make_place("/invoice/7", HF_EXCLUSIVE);
    hf_place tried = make_place("/invoice/7", HF_EXCLUSIVE);

    EXPECT_HAS(told, "trace: attach: applied, ");
    must_hold(a, &one);
    EXPECT_HAS(told, "trace: join '/invoice/7': applied, granted, num 1, "
                     "token 1, ");
    must_wait(b, &two);
    EXPECT_HAS(told, "trace: join '/invoice/7': applied, waits, num 2, "
                     "token 0, ");
    EXPECT_CODE(try_join(b, &tried), HF_EBUSY);
    EXPECT_HAS(told, "trace: join '/invoice/7': applied, HF_EBUSY, ");
    must_leave(a, &one);
    EXPECT_HAS(told, "trace: leave '/invoice/7': applied, granted, ");
    EXPECT(wait_changed(b, &two.rid, PATIENCE_MS));
    EXPECT_HAS(told, "trace: pushed: granted, token 3\n");
    EXPECT_CODE(recheck(b, &two), 0);
    EXPECT_HAS(told, "trace: recheck of 1: applied, ");
    EXPECT_EQ(evict(a, "/invoice/7", 0, true, LONG_MS), 1);
    EXPECT_HAS(told, "trace: evict '/invoice/7': applied, ");
    EXPECT(wait_news(b, &two.rid, HF_EFORCED, PATIENCE_MS));
    EXPECT_HAS(told, "trace: news: HF_EFORCED\n");
    party_close(a);
    party_close(b);
    EXPECT_HAS(told, "trace: detach: applied, ");
}

/* Keys are bytes; a log is read on terminals. */
static void keys_are_made_harmless(void)
{
    party *a = open_traced();
    char long_key[HF_KEY_MAX + 1];
    hf_place evil = make_place("a\n\x1b[2J'b", HF_EXCLUSIVE);
    hf_place longest;

    memset(long_key, 'x', HF_KEY_MAX);
    long_key[HF_KEY_MAX] = '\0';
    longest = make_place(long_key, HF_EXCLUSIVE);
    must_hold(a, &evil);
    EXPECT_HAS(told, "trace: join 'a??[2J?b': applied");
    must_hold(a, &longest);
    EXPECT_HAS(told, "xxx...': applied");
    party_close(a);
}

static void ignore_done(hf_op *op)
{
    (void)op;
}

/* The outer shim tells what the inner one made of it. */
static void shims_stack(void)
{
    hf_place one = make_place("k", HF_EXCLUSIVE);
    party *a;
    hf_op op;

    snprintf(url_text, sizeof url_text, "trace+fault+mem:a?%s",
             "fault_kind=after&fault_nth=1&fault_ops=publish");
    a = open_traced();
    must_hold(a, &one);
    op = make_op(a, HF_OP_PUBLISH);
    op.place = &one;
    op.done = ignore_done;
    a->driver->start(a->store, &op);
    EXPECT_EQ(op.outcome, HF_UNKNOWN);
    EXPECT_HAS(told, "fault: publish answer lost, operation 1\n"
                     "trace: publish 'k': unknown, HF_EUNKNOWN, ");
    party_close(a);
}

static const test_case cases[] = {
    TEST(operations_are_told), TEST(keys_are_made_harmless), TEST(shims_stack)};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "trace", cases, sizeof cases / sizeof *cases);
}
