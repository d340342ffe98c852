/* probe_test.c - does doctor see what is wrong with a Redis server?
 *
 * The judge gets facts that no server of ours could show (an old version, a
 * clock that is off); then real servers in bad set-ups are examined through the
 * public API.  The ACL line that users copy from the driver's page is read from
 * there and used: a command that it lacks fails a test, not a user. */
#include "probe.h"

#include "harness/expect.h"
#include "harness/runner.h"
#include "harness/server.h"

enum { ROOM = 40 };

typedef struct findings {
    size_t count;
    struct {
        hf_level level;
        char name[32], text[512];
    } all[ROOM];
} findings;

static void keep_finding(hf_level level, const char *name, const char *text,
                         void *user)
{
    findings *f = user;

    EXPECT(level >= HF_FINE && level <= HF_FAIL);
    EXPECT(name[0] && !strpbrk(name, " \n"));
    EXPECT(text[0] && !strchr(text, '\n'));
    EXPECT(f->count < ROOM);
    f->all[f->count].level = level;
    snprintf(f->all[f->count].name, sizeof f->all[0].name, "%s", name);
    snprintf(f->all[f->count].text, sizeof f->all[0].text, "%s", text);
    f->count++;
}

/* There is one finding of this name; it has this level and says `part`. */
static void expect_finding(const findings *f, const char *name, hf_level level,
                           const char *part)
{
    size_t found = 0;

    for (size_t i = 0; i < f->count; i++) {
        if (strcmp(f->all[i].name, name) != 0)
            continue;
        found++;
        if (f->all[i].level != level)
            FAIL_TEST("%s has level %d, expected %d: %s", name,
                      (int)f->all[i].level, (int)level, f->all[i].text);
        EXPECT_HAS(f->all[i].text, part);
    }
    if (found != 1)
        FAIL_TEST("%zu findings named %s, expected 1", found, name);
}

static void expect_none(const findings *f, const char *name)
{
    for (size_t i = 0; i < f->count; i++)
        if (strcmp(f->all[i].name, name) == 0)
            FAIL_TEST("unexpected %s: %s", name, f->all[i].text);
}

/* ---- The judge ---- */

/* A server that nothing is wrong with. */
static redis_facts good_facts(void)
{
    redis_facts f;

    redis_facts_init(&f);
    f.native = true;
    f.lease = HF_MS(30000);
    f.max_lease_ms = 60000;
    snprintf(f.version, sizeof f.version, "7.0.15");
    f.version_number = 70015;
    snprintf(f.role, sizeof f.role, "master");
    snprintf(f.mode, sizeof f.mode, "standalone");
    f.uptime_s = 5000;
    f.clients = 12;
    f.client_limit = 10000;
    f.replicas = 0;
    f.memory_limit = 0;
    f.log_on = 1;
    snprintf(f.log_sync, sizeof f.log_sync, "always");
    f.min_replicas = 0;
    f.script_ms = 5000;
    f.push_hard = 32 << 20;
    f.push_soft = 8 << 20;
    f.push_soft_s = 60;
    f.samples = 5;
    f.trip_best = f.trip_worst = HF_MS(1);
    f.rights_known = true;
    return f;
}

static void expect_judged(const redis_facts *facts, const char *name,
                          hf_level level, const char *part)
{
    findings f = {.count = 0};

    redis_judge(facts, keep_finding, &f);
    expect_finding(&f, name, level, part);
    /* One fault is one finding: everything else is as it was. */
    for (size_t i = 0; i < f.count; i++)
        if (strcmp(f.all[i].name, name) != 0)
            EXPECT_EQ(f.all[i].level, HF_FINE);
}

static void judge_of_good(void)
{
    findings f = {.count = 0};
    redis_facts facts = good_facts();

    redis_judge(&facts, keep_finding, &f);
    EXPECT(f.count >= 12);
    for (size_t i = 0; i < f.count; i++)
        EXPECT_EQ(f.all[i].level, HF_FINE);
}

/* What breaks locks in normal operation. */
static void judge_of_unfit(void)
{
    redis_facts f = good_facts();

    snprintf(f.version, sizeof f.version, "4.0.14");
    f.version_number = 40014;
    expect_judged(&f, "version", HF_FAIL, "4.0.14");
    f = good_facts();
    snprintf(f.role, sizeof f.role, "slave");
    expect_judged(&f, "role", HF_FAIL, "replica");
    f = good_facts();
    snprintf(f.mode, sizeof f.mode, "cluster");
    expect_judged(&f, "mode", HF_FAIL, "Cluster");
    f = good_facts();
    f.memory_limit = 1 << 30;
    snprintf(f.policy, sizeof f.policy, "volatile-ttl");
    expect_judged(&f, "eviction", HF_FAIL, "volatile-ttl");
    snprintf(f.policy, sizeof f.policy, "noeviction");
    expect_judged(&f, "eviction", HF_FINE, "noeviction");
    f = good_facts();
    snprintf(f.rights_missing, sizeof f.rights_missing, "ZADD PUBLISH");
    expect_judged(&f, "rights", HF_FAIL, "ZADD PUBLISH");
    f = good_facts();
    f.rights_known = false;
    f.rights_refused = true;
    expect_judged(&f, "rights", HF_FAIL, "+eval");
}

/* What a crash or a failover does, and what strict does about it. */
static void judge_of_forgetting(void)
{
    redis_facts f = good_facts();

    f.log_on = 0;
    f.snapshots_known = true;
    expect_judged(&f, "persistence", HF_WARN, "save is off");
    f.strict = true;
    expect_judged(&f, "persistence", HF_FINE, "strict");
    f = good_facts();
    snprintf(f.log_sync, sizeof f.log_sync, "everysec");
    expect_judged(&f, "persistence", HF_WARN, "everysec");
    f.log_sync[0] = '\0';
    expect_judged(&f, "persistence", HF_WARN, "cannot be told");
    f.log_on = -1;
    expect_judged(&f, "persistence", HF_WARN, "cannot tell");
    f = good_facts();
    snprintf(f.snapshot_status, sizeof f.snapshot_status, "err");
    expect_judged(&f, "disk", HF_WARN, "snapshot");
    f = good_facts();
    f.replicas = 2;
    expect_judged(&f, "replicas", HF_WARN, "strict=yes");
    f.strict = true;
    expect_judged(&f, "replicas", HF_WARN, "min-replicas-to-write");
    f.min_replicas = 1;
    expect_judged(&f, "replicas", HF_FINE, "2 attached");
    f = good_facts();
    f.uptime_s = 3;
    expect_judged(&f, "uptime", HF_WARN, "3 s ago");
    f.strict = true;
    f.quarantine_us = 2500000;
    expect_judged(&f, "strict", HF_WARN, "2.5 s");
}

/* How long a primary that is cut off goes on, and what lag_ms covers. */
static void judge_of_a_cluster(void)
{
    redis_facts f = good_facts();
    findings short_lag = {.count = 0}, fine = {.count = 0};

    f.clustered = f.strict = true;
    f.replicas = f.min_replicas = 1;
    f.node_timeout_ms = 15000;
    f.lag_ms = 8000; /* half of it, but not the second more */
    redis_judge_cluster(&f, keep_finding, &short_lag);
    expect_finding(&short_lag, "failover", HF_WARN, "lag_ms=8500");
    f.lag_ms = 8500;
    redis_judge_cluster(&f, keep_finding, &fine);
    expect_finding(&fine, "failover", HF_FINE, "may lack");
}

/* A peer's format has no strict, so that nobody is sent to it. */
static void judge_of_a_format(void)
{
    redis_facts f = good_facts();

    f.native = false;
    f.log_on = 0;
    expect_judged(&f, "persistence", HF_WARN, "; use appendonly yes");
    f = good_facts();
    f.native = false;
    f.replicas = 2;
    expect_judged(&f, "replicas", HF_WARN, "this format has no cure");
}

static void judge_of_limits(void)
{
    redis_facts f = good_facts();

    f.offset_us = -3200000;
    expect_judged(&f, "clock", HF_WARN, "3.2 s behind");
    f = good_facts();
    f.trip_worst = HF_MS(3500);
    expect_judged(&f, "roundtrip", HF_WARN, "3500.0 ms");
    f = good_facts();
    f.clients = 9500;
    expect_judged(&f, "clients", HF_WARN, "9500 of 10000");
    f = good_facts();
    f.push_hard = 1024;
    expect_judged(&f, "pushes", HF_WARN, "1024");
    f = good_facts();
    f.script_ms = 20000;
    expect_judged(&f, "scripts", HF_WARN, "20000 ms");
    f.script_ms = 0;
    expect_judged(&f, "scripts", HF_WARN, "for ever");
    f = good_facts();
    f.exposed = true;
    expect_judged(&f, "transport", HF_WARN, "rediss://");
    f = good_facts();
    f.config_refused = true;
    expect_judged(&f, "config", HF_WARN, "+config|get");
    f = good_facts();
    f.info_refused = true;
    expect_judged(&f, "info", HF_WARN, "+info");
}

/* Nothing is known: warnings, and no claim that all is well. */
static void judge_of_the_dark(void)
{
    findings f = {.count = 0};
    redis_facts facts;

    redis_facts_init(&facts);
    facts.info_refused = facts.config_refused = true;
    redis_judge(&facts, keep_finding, &f);
    expect_finding(&f, "eviction", HF_WARN, "cannot tell");
    expect_finding(&f, "persistence", HF_WARN, "cannot tell");
    expect_none(&f, "version");
    expect_none(&f, "clock");
    expect_none(&f, "clients");
    expect_none(&f, "rights");
}

/* ---- Real servers ---- */

static hf_session *open_session(const server *s, const char *user,
                                const char *query)
{
    char url[300];
    hf_session *session;
    hf_error err;

    snprintf(url, sizeof url, "redis://%s127.0.0.1:%d/?%s", user, s->port,
             query);
    EXPECT_OK(hf_open(&session, url, NULL, &err), err);
    return session;
}

static findings examine(hf_session *session)
{
    findings f = {.count = 0};
    hf_error err;

    EXPECT_OK(hf_doctor(session, keep_finding, &f, &err), err);
    return f;
}

static findings examine_server(const server *s, const char *query)
{
    hf_session *session = open_session(s, "", query);
    findings f = examine(session);

    hf_close(session);
    return f;
}

static void good_server(void)
{
    server *s = server_start(&(server_options){.aof = true});
    findings f = examine_server(s, "ns=probe");

    expect_finding(&f, "version", HF_FINE, server_info(s, "redis_version"));
    expect_finding(&f, "role", HF_FINE, "primary");
    expect_finding(&f, "mode", HF_FINE, "");
    expect_finding(&f, "eviction", HF_FINE, "");
    expect_finding(&f, "persistence", HF_FINE, "always");
    expect_finding(&f, "replicas", HF_FINE, "none");
    expect_finding(&f, "clock", HF_FINE, "");
    expect_finding(&f, "roundtrip", HF_FINE, "ms");
    expect_finding(&f, "clients", HF_FINE, "");
    expect_finding(&f, "pushes", HF_FINE, "");
    expect_finding(&f, "scripts", HF_FINE, "5000");
    expect_finding(&f, "rights", HF_FINE, "");
    expect_finding(&f, "transport", HF_FINE, "");
    expect_none(&f, "config");
    /* It has not run for a lease: who held before it started? */
    expect_finding(&f, "uptime", HF_WARN, "wait a lease");
    /* The examination left nothing behind. */
    EXPECT_EQ(server_number(s, "DBSIZE"), 0);
    server_stop(s);
}

static void bad_server(void)
{
    server *s = server_start(&(server_options){
        .more = {"--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru",
                 "--maxclients", "24", "--client-output-buffer-limit",
                 "pubsub 1024 512 10", "--lua-time-limit", "60000"}});
    findings f = examine_server(s, "ns=probe");

    expect_finding(&f, "eviction", HF_FAIL, "allkeys-lru");
    expect_finding(&f, "persistence", HF_WARN, "appendonly");
    expect_finding(&f, "clients", HF_WARN, "of 24");
    expect_finding(&f, "pushes", HF_WARN, "1024");
    expect_finding(&f, "scripts", HF_WARN, "60000");
    server_stop(s);
}

static void replica_attached(void)
{
    char port[12];
    server *primary = server_start(NULL), *replica;
    findings f;

    snprintf(port, sizeof port, "%d", primary->port);
    replica = server_start(
        &(server_options){.more = {"--replicaof", "127.0.0.1", port}});
    EXPECT(WAIT_FOR(strcmp(server_info(primary, "connected_slaves"), "1") == 0,
                    20000));
    f = examine_server(primary, "ns=probe");
    expect_finding(&f, "replicas", HF_WARN, "min-replicas-to-write");
    EXPECT_STR(server_ask(primary, "CONFIG SET min-replicas-to-write 1"), "OK");
    f = examine_server(primary, "ns=safe&strict=yes&max_lease_ms=30000");
    expect_finding(&f, "replicas", HF_FINE, "1 attached");
    server_stop(replica);
    server_stop(primary);
}

static void quarantine_is_told(void)
{
    server *s = server_start(NULL);
    hf_session *session =
        open_session(s, "", "ns=probe&strict=yes&max_lease_ms=30000");
    hf_hold *hold;
    hf_error err;
    findings f;

    EXPECT_CODE(hf_try_lock(session, "key", NULL, &hold, &err), HF_EQUARANTINE);
    f = examine(session);
    expect_finding(&f, "strict", HF_WARN, "ends by itself");
    expect_finding(&f, "persistence", HF_FINE, "strict");
    hf_close(session);
    server_stop(s);
}

static void server_gone(void)
{
    server *s = server_start(NULL);
    hf_session *session = open_session(s, "", "ns=probe");
    findings f = {.count = 0};
    hf_error err;

    server_kill(s);
    EXPECT_CODE(hf_doctor(session, keep_finding, &f, &err), HF_EUNAVAIL);
    EXPECT_EQ(f.count, 0);
    hf_close(session);
    server_stop(s);
}

/* ---- The rights of the user ---- */

/* The first line of the driver's page that begins so, without the blanks. */
static const char *page_line(const char *begin)
{
    static char line[2000];
    char path[1000];
    const char *root = getenv("HF_SOURCE_DIR");
    FILE *page;

    snprintf(path, sizeof path, "%s/drivers/redis/redis.md", root ? root : ".");
    page = fopen(path, "r");
    if (!page)
        FAIL_TEST("cannot read %s: set HF_SOURCE_DIR", path);
    while (fgets(line, sizeof line, page)) {
        size_t blanks = strspn(line, " ");

        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line + blanks, begin, strlen(begin)) == 0) {
            fclose(page);
            return line + blanks;
        }
    }
    fclose(page);
    FAIL_TEST("redis.md has no line that begins with '%s'", begin);
}

static const char *const poor = "holdfast:secret@";

/* Exactly what the page says is enough for everything but CONFIG. */
static void user_of_the_page(void)
{
    server *s = server_start(NULL);
    hf_session *one, *two;
    hf_hold *hold, *other;
    hf_error err;
    findings f;

    EXPECT_STR(server_ask(s, "%s", page_line("ACL SETUSER holdfast ")), "OK");
    one = open_session(s, poor, "");
    two = open_session(s, poor, "");
    EXPECT_OK(hf_lock(one, "key", NULL, &hold, &err), err);
    EXPECT_CODE(hf_try_lock(two, "key", NULL, &other, &err), HF_EBUSY);
    EXPECT_CODE(hf_lock(two, "key",
                        &(hf_lock_options){HF_LOCK_OPTIONS, .wait_ms = 50},
                        &other, &err),
                HF_ETIMEDOUT);
    EXPECT_OK(hf_renew(hold, &err), err);
    EXPECT_OK(hf_publish(hold, "here", 4, &err), err);
    EXPECT_OK(hf_release(hold, &err), err);
    EXPECT_OK(hf_lock(two, "key",
                      &(hf_lock_options){HF_LOCK_OPTIONS, .lease_ms = 5000},
                      &other, &err),
              err);
    EXPECT_OK(hf_release(other, &err), err);
    f = examine(one);
    expect_finding(&f, "rights", HF_FINE, "");
    expect_finding(&f, "config", HF_WARN, "+config|get");
    expect_finding(&f, "version", HF_FINE, "");
    expect_finding(&f, "eviction", HF_FINE, "");
    hf_close(one);
    hf_close(two);
    server_stop(s);
}

/* Each command that is taken away is named. */
static void user_without_rights(void)
{
    static const char *const taken[] = {"hset", "zadd", "publish", "subscribe",
                                        "time"};
    server *s = server_start(NULL);
    hf_session *session;
    findings f;

    EXPECT_STR(server_ask(s, "%s", page_line("ACL SETUSER holdfast ")), "OK");
    session = open_session(s, poor, "");
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++) {
        char name[16];
        size_t n = 0;

        for (; taken[i][n]; n++)
            name[n] = (char)(taken[i][n] - 'a' + 'A');
        name[n] = '\0';
        EXPECT_STR(server_ask(s, "ACL SETUSER holdfast -%s", taken[i]), "OK");
        f = examine(session);
        expect_finding(&f, "rights", HF_FAIL, name);
        EXPECT_STR(server_ask(s, "ACL SETUSER holdfast +%s", taken[i]), "OK");
    }
    EXPECT_STR(server_ask(s, "ACL SETUSER holdfast -eval -evalsha"), "OK");
    f = examine(session);
    expect_finding(&f, "rights", HF_FAIL, "+eval");
    hf_close(session);
    server_stop(s);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        TEST(judge_of_good),       TEST(judge_of_unfit),
        TEST(judge_of_forgetting), TEST(judge_of_a_format),
        TEST(judge_of_limits),     TEST(judge_of_the_dark),
        TEST(judge_of_a_cluster),  TEST(good_server),
        TEST(bad_server),          TEST(replica_attached),
        TEST(quarantine_is_told),  TEST(server_gone),
        TEST(user_of_the_page),    TEST(user_without_rights),
    };

    return run_tests(argc, argv, "redis_probe", cases,
                     sizeof cases / sizeof cases[0]);
}
