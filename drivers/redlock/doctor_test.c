/* doctor_test.c - what doctor thinks of servers that are made up: each
 * table has one thing wrong, and the finding about it names the server. */
#include <string.h>

#include "harness/expect.h"
#include "harness/runner.h"

#include "probe.h"

enum { SERVERS = 3 };

typedef struct findings {
    char text[4096];
    size_t len;
} findings;

static void note(hf_level level, const char *name, const char *text, void *user)
{
    findings *all = user;

    all->len +=
        (size_t)snprintf(all->text + all->len, sizeof all->text - all->len,
                         "%d %s: %s\n", (int)level, name, text);
    EXPECT(all->len < sizeof all->text);
}

static void make_fit(redlock_facts facts[SERVERS])
{
    for (int i = 0; i < SERVERS; i++) {
        redlock_facts *f = &facts[i];

        redlock_facts_init(f);
        snprintf(f->where, sizeof f->where, "s%d:6379", i);
        snprintf(f->run_id, sizeof f->run_id, "%040d", i);
        snprintf(f->role, sizeof f->role, "master");
        snprintf(f->policy, sizeof f->policy, "noeviction");
        f->answers = true;
        f->uptime_s = 9999;
        f->replicas = f->memory_limit = 0;
        f->log_on = 1;
        f->trip = HF_MS(1);
    }
}

static const char *judge(const redlock_facts *facts, const redlock_use *use)
{
    static findings all;

    memset(&all, 0, sizeof all);
    redlock_judge(facts, SERVERS, use, note, &all);
    return all.text;
}

static bool has_trouble(const char *text)
{
    char warn[4], fail[4];

    snprintf(warn, sizeof warn, "%d ", (int)HF_WARN);
    snprintf(fail, sizeof fail, "%d ", (int)HF_FAIL);
    for (const char *at = text; at && *at; at = strchr(at, '\n')) {
        at += *at == '\n';
        if (strncmp(at, warn, 2) == 0 || strncmp(at, fail, 2) == 0)
            return true;
    }
    return false;
}

static const redlock_use usual = {.lease = HF_MS(30000), .tokens = true};

static void fit_servers(void)
{
    redlock_facts facts[SERVERS];

    make_fit(facts);
    EXPECT(!has_trouble(judge(facts, &usual)));
}

static void one_thing_wrong(void)
{
    redlock_facts facts[SERVERS];

    make_fit(facts);
    memcpy(facts[1].run_id, facts[0].run_id, sizeof facts[1].run_id);
    EXPECT_HAS(judge(facts, &usual), "s0:6379, s1:6379 are one server");
    make_fit(facts);
    facts[2].replicas = 1;
    EXPECT_HAS(judge(facts, &usual), "s2:6379 is replicated");
    make_fit(facts);
    facts[1].memory_limit = 1000;
    facts[1].policy[0] = 'x';
    EXPECT_HAS(judge(facts, &usual), "s1:6379 evicts keys");
    make_fit(facts);
    facts[0].memory_limit = -1;
    EXPECT_HAS(judge(facts, &usual), "s0:6379 refuses INFO");
    make_fit(facts);
    facts[2].uptime_s = 30;
    EXPECT_HAS(judge(facts, &usual), "s2:6379 was started less than a lease");
    make_fit(facts);
    facts[0].log_on = 0;
    EXPECT_HAS(judge(facts, &usual), "s0:6379 keeps nothing");
    make_fit(facts);
    facts[0].offset_us = 3000000;
    EXPECT_HAS(judge(facts, &usual), "clocks are 3.0 s apart");
    make_fit(facts);
    facts[0].trip = HF_MS(2000);
    EXPECT_HAS(judge(facts, &usual), "the slowest server takes 2000.0 ms");
}

static void silent_servers(void)
{
    redlock_facts facts[SERVERS];

    make_fit(facts);
    facts[1].answers = false;
    snprintf(facts[1].why, sizeof facts[1].why, "s1:6379: refused");
    EXPECT_HAS(judge(facts, &usual), "no answer: s1:6379: refused");
    EXPECT_HAS(judge(facts, &usual),
               "2 of 3 servers answer: locks work, and 0");
    facts[0].answers = false;
    EXPECT_HAS(judge(facts, &usual), "1 of 3 servers answer and 2 are needed");
}

static void other_uses(void)
{
    redlock_facts facts[SERVERS];
    redlock_use use = {
        .lease = HF_MS(30000), .settled = HF_MS(60000), .exposed = true};

    make_fit(facts);
    facts[0].uptime_s = 50;
    EXPECT_HAS(judge(facts, &use), "its votes do not count until then");
    EXPECT_HAS(judge(facts, &use), "token=no");
    EXPECT_HAS(judge(facts, &use), "plain TCP");
}

static const test_case cases[] = {TEST(fit_servers), TEST(one_thing_wrong),
                                  TEST(silent_servers), TEST(other_uses)};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "doctor", cases, sizeof cases / sizeof *cases);
}
