/* probe_test.c - what doctor makes of an ensemble: facts in, findings out, and
 * the words of a server as it says them. */
#include "probe.h"

#include <stdio.h>
#include <string.h>

#include "harness/expect.h"
#include "harness/runner.h"
#include "record.h"

typedef struct found {
    char text[32][700];
    size_t count;
} found;

static void note(hf_level level, const char *name, const char *text, void *user)
{
    static const char *const levels[] = {"fine", "warn", "fail"};
    found *f = user;

    EXPECT(f->count < 32);
    EXPECT(strchr(text, '\n') == NULL);
    snprintf(f->text[f->count++], sizeof f->text[0], "%s %s: %s", levels[level],
             name, text);
}

/* How many findings begin like this? */
static size_t count(const zk_facts *facts, const char *head)
{
    found f = {.count = 0};
    size_t n = 0;

    zk_judge(facts, note, &f);
    for (size_t i = 0; i < f.count; i++)
        n += strncmp(f.text[i], head, strlen(head)) == 0;
    return n;
}

/* Three members, nothing to say against them. */
static zk_facts good(void)
{
    zk_facts f = {.lease = HF_MS(30000),
                  .tick = HF_MS(2000),
                  .closed_acl = true,
                  .root = "/app",
                  .member_count = 3,
                  .root_exists = true,
                  .acl_known = true,
                  .samples = 8,
                  .trip_best = HF_MS(1),
                  .trip_worst = HF_MS(3)};
    static const char *const modes[] = {"follower", "leader", "follower"};

    for (size_t i = 0; i < 3; i++) {
        zk_probed *m = &f.members[i];

        snprintf(m->name, sizeof m->name, "zk%zu:2181", i);
        snprintf(m->version, sizeof m->version, "3.8.0");
        snprintf(m->mode, sizeof m->mode, "%s", modes[i]);
        m->reached = true;
        m->tick_ms = 2000;
        m->min_ms = 4000;
        m->max_ms = 40000;
        m->voters = 3;
    }
    return f;
}

static void good_is_fine(void)
{
    zk_facts f = good();

    EXPECT_EQ(count(&f, "fail"), 0);
    EXPECT_EQ(count(&f, "warn"), 0);
    EXPECT_EQ(count(&f, "fine quorum: 3 voting"), 1);
    EXPECT_EQ(count(&f, "fine version"), 3);
}

static void each_fault_is_found(void)
{
    zk_facts f = good();

    f.members[0].tick_ms = f.members[1].tick_ms = f.members[2].tick_ms = 3000;
    EXPECT_EQ(count(&f, "fail tick"), 1);
    f.members[0].tick_ms = f.members[1].tick_ms = f.members[2].tick_ms = -1;
    EXPECT_EQ(count(&f, "warn tick"), 1);
    f = good();
    f.members[2].reached = false;
    f.members[2].mode[0] = f.members[2].version[0] = '\0';
    EXPECT_EQ(count(&f, "warn member: 'zk2:2181'"), 1);
    f = good();
    snprintf(f.members[0].mode, sizeof f.members[0].mode, "leader");
    EXPECT_EQ(count(&f, "fail quorum: two members"), 1);
    f = good();
    f.read_only = true;
    EXPECT_EQ(count(&f, "fail quorum"), 1);
    f = good();
    snprintf(f.members[1].version, sizeof f.members[1].version, "3.4.14");
    EXPECT_EQ(count(&f, "warn version: 'zk1:2181'"), 1);
    f = good();
    f.lease = HF_MS(60000);
    EXPECT_EQ(count(&f, "warn session"), 1);
    f.attached = true;
    f.timeout_ms = 40000;
    EXPECT_EQ(count(&f, "warn session"), 1);
    f = good();
    f.lease = HF_MS(3000);
    EXPECT_EQ(count(&f, "warn session"), 1);
    f = good();
    f.world = 31;
    EXPECT_EQ(count(&f, "warn acl"), 1);
    f.world = ZK_PERM_READ;
    EXPECT_EQ(count(&f, "fine acl"), 1);
    f = good();
    f.exposed = true;
    EXPECT_EQ(count(&f, "warn network"), 1);
    f = good();
    f.trip_worst = HF_MS(1900);
    EXPECT_EQ(count(&f, "warn trip"), 1);
    f = good();
    f.plain_parents = true;
    EXPECT_EQ(count(&f, "warn containers"), 1);
    f = good();
    f.member_count = 1;
    snprintf(f.members[0].mode, sizeof f.members[0].mode, "standalone");
    EXPECT_EQ(count(&f, "warn quorum: one server"), 1);
    f = good();
    f.members[0].voters = f.members[1].voters = f.members[2].voters = 2;
    EXPECT_EQ(count(&f, "warn quorum: two voting"), 1);
}

/* As Debian's 3.8.0 answers. */
static void words_of_a_server(void)
{
    zk_probed m = {.tick_ms = 0};

    zk_probed_srvr(&m, "Zookeeper version: 3.8.0-${mvngit.commit.id}, built on "
                       "2024-12-29 17:54 UTC\nLatency min/avg/max: 0/0.0/0\n"
                       "Zxid: 0x0\nMode: follower\nNode count: 5\n");
    EXPECT_STR(m.version, "3.8.0");
    EXPECT_STR(m.mode, "follower");
    zk_probed_conf(&m, "clientPort=2181\ntickTime=2000\nmaxClientCnxns=0\n"
                       "minSessionTimeout=4000\nmaxSessionTimeout=40000\n"
                       "membership: \nserver.1=a:2888:3888:participant\n"
                       "server.2=b:2888:3888:participant\n"
                       "server.3=c:2888:3888:observer\nversion=0");
    EXPECT_EQ(m.tick_ms, 2000);
    EXPECT_EQ(m.min_ms, 4000);
    EXPECT_EQ(m.max_ms, 40000);
    EXPECT_EQ(m.voters, 2);
    EXPECT_EQ(m.observers, 1);
    zk_probed_conf(&m, "nonsense");
    EXPECT_EQ(m.tick_ms, -1);
    EXPECT_EQ(m.voters, -1);
    zk_probed_srvr(&m, "ClickHouse Keeper version: v24.1\nMode: leader\n");
    EXPECT_STR(m.version, "ClickHouse Keeper");
}

static const test_case cases[] = {TEST(good_is_fine), TEST(each_fault_is_found),
                                  TEST(words_of_a_server)};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "zookeeper probe", cases,
                     sizeof cases / sizeof *cases);
}
