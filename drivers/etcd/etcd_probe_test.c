/* etcd_probe_test.c - doctor's judgement, over clusters that need not exist,
 * and once over one that does.
 *
 * A fact that matters changes the finding it belongs to, and only that one; a
 * sentence with a cure stands behind everything that is not fine. */
#include "harness/ensemble.h"
#include "harness/expect.h"
#include "harness/runner.h"

#include "probe.h"

typedef struct findings {
    int worst;
    char text[8192]; /* "name=level;" of each, in order, then the texts */
} findings;

static void note_finding(hf_level level, const char *name, const char *text,
                         void *user)
{
    findings *f = user;
    size_t used = strlen(f->text);

    EXPECT(text[0] != '\0' && strchr(text, '\n') == NULL);
    if ((int)level > f->worst)
        f->worst = (int)level;
    snprintf(f->text + used, sizeof f->text - used, "%s=%d %s;", name,
             (int)level, text);
}

static findings judge(const etcd_facts *facts)
{
    findings f = {.worst = 0};

    etcd_judge(facts, note_finding, &f);
    return f;
}

/* Three members, all well. */
static etcd_facts good_facts(void)
{
    etcd_facts facts;

    etcd_facts_init(&facts);
    facts.tls = facts.has_user = facts.alarms_known = true;
    facts.voters = 3;
    facts.learners = 0;
    facts.member_count = 3;
    facts.lease_floor = 2;
    facts.read_best = facts.read_worst = facts.commit = HF_MS(1);
    for (size_t i = 0; i < 3; i++) {
        etcd_member_facts *m = &facts.members[i];

        snprintf(m->where, sizeof m->where, "m%zu:2379", i);
        snprintf(m->version, sizeof m->version, "3.5.21");
        m->version_number = etcd_version_number(m->version);
        m->reached = true;
        m->leader = 7;
        m->size = 1 << 20;
    }
    return facts;
}

static void versions(void)
{
    EXPECT_EQ(etcd_version_number("3.4.23"), 30423);
    EXPECT_EQ(etcd_version_number("3.6.0-rc.1"), 30600);
    EXPECT_EQ(etcd_version_number("3.4"), -1);
    EXPECT_EQ(etcd_version_number("x"), -1);
    EXPECT_EQ(etcd_version_number(""), -1);
}

static void version_is(const char *version, const char *wanted)
{
    etcd_facts facts = good_facts();
    findings f;

    snprintf(facts.members[1].version, sizeof facts.members[1].version, "%s",
             version);
    facts.members[1].version_number = etcd_version_number(version);
    f = judge(&facts);
    EXPECT_HAS(f.text, wanted);
}

static void good_and_bad(void)
{
    etcd_facts facts = good_facts();
    findings f = judge(&facts);

    EXPECT_EQ(f.worst, HF_FINE);
    facts.no_space = true;
    f = judge(&facts);
    EXPECT_HAS(f.text, "alarms=2 NOSPACE");
    facts = good_facts();
    facts.corrupt = true;
    f = judge(&facts);
    EXPECT_HAS(f.text, "alarms=2 CORRUPT");
    facts = good_facts();
    facts.members[2].leader = 0;
    f = judge(&facts);
    EXPECT_HAS(f.text, "leader=2 'm2:2379' knows no leader");
    facts.members[2].leader = 8;
    f = judge(&facts);
    EXPECT_HAS(f.text, "leader=1 ");
    facts = good_facts();
    facts.members[0].reached = false;
    snprintf(facts.members[0].why, sizeof facts.members[0].why, "refused");
    f = judge(&facts);
    EXPECT_HAS(f.text, "reach=1 'm0:2379' of the URL does not answer: refused");
    facts = good_facts();
    facts.voters = 1;
    f = judge(&facts);
    EXPECT_HAS(f.text, "members=1 ");
    facts = good_facts();
    facts.members[1].size = INT64_C(1900) << 20;
    f = judge(&facts);
    EXPECT_HAS(f.text, "space=1 ");
    facts.members[1].quota = INT64_C(8) << 30;
    f = judge(&facts);
    EXPECT_HAS(f.text, "space=0 ");
    facts = good_facts();
    snprintf(facts.refused, sizeof facts.refused, "permission denied");
    f = judge(&facts);
    EXPECT_HAS(f.text, "write=2 a lock cannot be written: permission denied");
    facts = good_facts();
    facts.exposed = true;
    facts.has_user = facts.tls = false;
    f = judge(&facts);
    EXPECT_HAS(f.text, "tls=1 ");
    EXPECT_HAS(f.text, "auth=1 ");
    version_is("3.5.13", "version=0 'm1");
    version_is("3.5.12", "version=1 'm1");
    version_is("3.4.30", "version=1 'm1");
    version_is("3.4.31", "version=0 'm1");
    version_is("3.3.27", "version=2 'm1");
}

/* A real one, with a member down. */
static void of_a_cluster(void)
{
    ensemble_options options = {.members = 3};
    ensemble *e = ensemble_start(ON_ETCD, &options);
    findings f = {.worst = 0};
    hf_session *s = NULL;
    hf_error err;

    EXPECT_OK(hf_open(&s, ensemble_url(e, "/p/"), NULL, &err), err);
    EXPECT_OK(hf_doctor(s, note_finding, &f, &err), err);
    EXPECT_HAS(f.text, "reach=0 ");
    EXPECT_HAS(f.text, "members=0 3 voting members");
    EXPECT_HAS(f.text, "alarms=0 none");
    EXPECT_HAS(f.text, "lease=0 ");
    EXPECT_HAS(f.text, "write=");
    ensemble_kill(e, 2);
    f = (findings){.worst = 0};
    EXPECT(WAIT_FOR(hf_doctor(s, note_finding, &f, &err) == 0, 60000));
    EXPECT_HAS(f.text, "reach=1 ");
    hf_close(s);
    ensemble_stop(e);
}

static const test_case cases[] = {TEST(versions), TEST(good_and_bad),
                                  TEST_LIMIT(of_a_cluster, 200)};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "etcd_probe", cases,
                     sizeof cases / sizeof *cases);
}
