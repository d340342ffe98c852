/* expired.c - a server whose certificate has run out.
 *
 * Who comes new is refused, with one line that says so.  Who holds a lock while
 * the server is started again with such a certificate cannot renew any more:
 * doubt is told, then the loss, and the loss before a rival can be granted,
 * who is here one that verifies nobody.  What a caller asks meanwhile is
 * refused with the same line, so that the reason is known before the end.
 *
 * One case per store; each starts a server of its own. */
#include "harness/ensemble.h"
#include "harness/expect.h"
#include "harness/runner.h"
#include "harness/server.h"
#include "harness/sql_server.h"

#include <stdatomic.h>

#include <holdfast/holdfast.h>

/* The server is back while the lease runs: a ZooKeeper takes its time. */
enum { LEASE_MS = 10000, LONG_MS = 20000, PATIENCE_MS = 60000, LIMIT_S = 180 };

typedef struct heard {
    atomic_int doubts, losses, loss_reason;
} heard;

/* What differs between the stores.  url is verified, loose is not. */
typedef struct store {
    char url[900], loose[900];
    void (*expire)(struct store *s); /* and it serves again */
    void (*stop)(struct store *s);
    int lease_ms;
    bool vague; /* its library does not say what is wrong with it */
    server *redis;
    sql_server *sql;
    ensemble *members;
} store;

static void listen(hf_hold *hold, hf_state state, int reason, void *user)
{
    heard *h = user;

    (void)hold;
    if (state == HF_DOUBTFUL)
        atomic_fetch_add(&h->doubts, 1);
    if (state == HF_LOST) {
        atomic_store(&h->loss_reason, reason);
        atomic_fetch_add(&h->losses, 1);
    }
}

static hf_session *open_at(const char *url, int lease_ms)
{
    hf_open_options options = {HF_OPEN_OPTIONS, .lease_ms = lease_ms};
    hf_error err = {0};
    hf_session *s = NULL;
    int code = 0;

    /* ZooKeeper's port for TLS is there a moment after the other one. */
    EXPECT(WAIT_FOR((code = hf_open(&s, url, &options, &err)) != HF_EUNAVAIL,
                    PATIENCE_MS));
    EXPECT_OK(code, err);
    return s;
}

static void expect_reason(const hf_error *err, bool vague)
{
    EXPECT_HAS(err->text, "certificate");
    EXPECT_HAS(err->text, "expired");
    EXPECT(strchr(err->text, '\n') == NULL);
    EXPECT(strstr(err->text, "s3cret") == NULL);
    if (!vague)
        EXPECT(strstr(err->text, "ca_file") == NULL); /* that is no cure */
}

static void expect_refused(const store *at)
{
    hf_open_options options = {HF_OPEN_OPTIONS, .lease_ms = at->lease_ms};
    hf_error err = {0};
    hf_session *s = NULL;

    EXPECT_CODE(hf_open(&s, at->url, &options, &err), HF_EAUTH);
    expect_reason(&err, at->vague);
}

/* Doubt is told, and what is asked meanwhile has the reason. */
static void expect_doubt(const store *at, hf_hold *hold, heard *h)
{
    hf_error err = {0};
    int code = 0;

    EXPECT(WAIT_FOR(atomic_load(&h->doubts) > 0, PATIENCE_MS));
    /* Connection refused as long as it is still coming up. */
    for (int i = 0; i < 2000 && hf_hold_check(hold, NULL) == 0; i++) {
        code = hf_renew(hold, &err);
        if (code == HF_EAUTH || strstr(err.text, "certificate"))
            break;
        test_sleep_ms(10);
    }
    /* ZooKeeper's driver goes on trying until the call's time is up. */
    EXPECT(code == HF_EAUTH || code == HF_EUNAVAIL);
    expect_reason(&err, at->vague);
}

static void play(store *s)
{
    heard h = {0};
    hf_lock_options options = {HF_LOCK_OPTIONS, .on_change = listen,
                               .user = &h};
    hf_lock_options waits = {HF_LOCK_OPTIONS, .wait_ms = PATIENCE_MS};
    hf_session *own = open_at(s->url, s->lease_ms), *rival;
    hf_hold *hold = NULL, *next = NULL;
    hf_error err = {0};
    uint64_t token;

    EXPECT_OK(hf_lock(own, "k", &options, &hold, &err), err);
    token = hf_hold_token(hold);
    s->expire(s);
    expect_doubt(s, hold, &h);
    expect_refused(s);
    rival = open_at(s->loose, s->lease_ms);
    EXPECT_OK(hf_lock(rival, "k", &waits, &next, &err), err);
    EXPECT_SAFE(hf_hold_check(hold, NULL) != 0);
    EXPECT_SAFE(hf_hold_token(next) > token);
    EXPECT(hf_hold_state(hold) == HF_LOST);
    EXPECT(WAIT_FOR(atomic_load(&h.losses) == 1, PATIENCE_MS));
    EXPECT_CODE(atomic_load(&h.loss_reason), HF_EEXPIRED);
    EXPECT_CODE(hf_release(hold, &err), HF_EEXPIRED);
    EXPECT_OK(hf_release(next, &err), err);
    hf_close(rival);
    hf_close(own);
    s->stop(s);
}

static const char *with_ca(const char *more)
{
    static char query[400];
    const char *certs = test_certificates();

    if (more)
        snprintf(query, sizeof query, "ca_file=%s/ca.pem&%s", certs, more);
    else
        snprintf(query, sizeof query, "ca_file=%s/ca.pem", certs);
    return query;
}

/* ---- Redis ---- */

static void expire_redis(store *s)
{
    server_terminate(s->redis);
    s->redis->options.expired = true;
    server_restart(s->redis, false);
}

static void stop_redis(store *s)
{
    server_stop(s->redis);
}

static void redis(void)
{
    store s = {
        .lease_ms = LEASE_MS, .expire = expire_redis, .stop = stop_redis};

    s.redis = server_start(&(server_options){.tls = true, .aof = true});
    snprintf(s.url, sizeof s.url, "rediss://localhost:%d?%s", s.redis->tls_port,
             with_ca(NULL));
    snprintf(s.loose, sizeof s.loose, "rediss://localhost:%d?tls_verify=no",
             s.redis->tls_port);
    play(&s);
}

/* ---- SQL ---- */

static void expire_sql(store *s)
{
    sql_server_terminate(s->sql);
    s->sql->options.expired = true;
    sql_server_restart(s->sql);
}

static void stop_sql(store *s)
{
    sql_server_stop(s->sql);
}

static void play_sql(sql_server_kind kind)
{
    store s = {.lease_ms = LEASE_MS,
               .expire = expire_sql,
               .stop = stop_sql,
               .vague = kind == ON_POSTGRES};

    s.sql = sql_server_start(kind, &(sql_server_options){.tls = true});
    snprintf(s.url, sizeof s.url, "%s",
             sql_server_url(s.sql, "keeper:s3cret", with_ca("tls=yes")));
    snprintf(s.loose, sizeof s.loose, "%s",
             sql_server_url(s.sql, "keeper:s3cret", "tls=yes&tls_verify=no"));
    play(&s);
}

static void postgres(void)
{
    play_sql(ON_POSTGRES);
}

static void mariadb(void)
{
    play_sql(ON_MARIADB);
}

/* ---- etcd and ZooKeeper ---- */

static void expire_members(store *s)
{
    ensemble_kill(s->members, 0);
    s->members->options.expired = true;
    ensemble_restart(s->members, 0);
    ensemble_await(s->members);
}

static void stop_members(store *s)
{
    ensemble_stop(s->members);
}

static void etcd(void)
{
    store s = {
        .lease_ms = LEASE_MS, .expire = expire_members, .stop = stop_members};
    const char *certs = test_certificates();
    char path[900];

    s.members = ensemble_start(ON_ETCD, &(ensemble_options){.tls = true});
    snprintf(path, sizeof path,
             "?ca_file=%s/ca.pem&cert_file=%s/client.pem"
             "&key_file=%s/client.key",
             certs, certs, certs);
    snprintf(s.url, sizeof s.url, "%s", ensemble_url(s.members, path));
    snprintf(path, sizeof path,
             "?tls_verify=no&cert_file=%s/client.pem&key_file=%s/client.key",
             certs, certs);
    snprintf(s.loose, sizeof s.loose, "%s", ensemble_url(s.members, path));
    play(&s);
}

static void zookeeper(void)
{
    store s = {
        .lease_ms = LONG_MS, .expire = expire_members, .stop = stop_members};
    char path[900];

    s.members = ensemble_start(ON_ZOOKEEPER, &(ensemble_options){.tls = true});
    snprintf(path, sizeof path, "?%s", with_ca("tick_ms=100"));
    snprintf(s.url, sizeof s.url, "%s", ensemble_url(s.members, path));
    snprintf(s.loose, sizeof s.loose, "%s",
             ensemble_url(s.members, "?tls_verify=no&tick_ms=100"));
    play(&s);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        TEST_LIMIT(redis, LIMIT_S),     TEST_LIMIT(postgres, LIMIT_S),
        TEST_LIMIT(mariadb, LIMIT_S),   TEST_LIMIT(etcd, LIMIT_S),
        TEST_LIMIT(zookeeper, LIMIT_S),
    };

    return run_tests(argc, argv, "expired", cases,
                     sizeof cases / sizeof *cases);
}
