/* sentinel_test.c - who is the primary, and what is said when nobody is.
 *
 * Sentinels that know no such name, contradict each other, name a replica or a
 * dead server, want a password; calls that come to a server which is a replica
 * by now; numbers that a server forgot.  Each is a clear error or goes on by
 * itself, and none is a grant. */
#include <signal.h>
#include <sys/stat.h>

#include "harness/child.h"
#include "harness/contest.h"
#include "harness/server.h"

#include "sentinel.h"
#include "wire_inside.h"

enum { LONG_MS = 60000 };

/* ---- Sentinels that watch alone ---- */

typedef struct lone { /* one sentinel that thinks this is the primary */
    pid_t pid;
    int port;
} lone;

static lone lone_start(const char *name, int primary, const char *more)
{
    static int serial;
    char folder[200], path[220], log[220];
    char *words[] = {(char[]){"redis-server"}, path,   (char[]){"--sentinel"},
                     (char[]){"--dir"},        folder, NULL};
    lone one = {.port = child_port()};
    server ask = {0};
    FILE *f;

    snprintf(folder, sizeof folder, "%s/lone-%d", test_folder(), serial++);
    snprintf(path, sizeof path, "%s/conf", folder);
    snprintf(log, sizeof log, "%s/log", folder);
    snprintf(ask.socket, sizeof ask.socket, "%s/socket", folder);
    EXPECT(mkdir(folder, 0700) == 0 && (f = fopen(path, "w")) != NULL);
    fprintf(f,
            "%sport %d\nbind 127.0.0.1\nunixsocket %s\n"
            "sentinel monitor %s 127.0.0.1 %d 1\n"
            "sentinel down-after-milliseconds %s 600000\n%s\n",
            strstr(more, "tls-") ? "port 0\ntls-" : "", one.port, ask.socket,
            name, primary, name, more);
    EXPECT(fclose(f) == 0);
    one.pid = child_start(words, log);
    EXPECT(WAIT_FOR(access(ask.socket, F_OK) == 0 && server_ask(&ask, "PING"),
                    LONG_MS));
    return one;
}

static void lone_end(const lone *one)
{
    child_end(one->pid, SIGKILL);
}

static int open_code(hf_error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static int open_code(hf_error *err, const char *format, ...)
{
    hf_session *s = NULL;
    char url[400];
    va_list args;
    int code;

    va_start(args, format);
    vsnprintf(url, sizeof url, format, args);
    va_end(args);
    code = hf_open(&s, url, NULL, err);
    if (code == 0)
        hf_close(s);
    return code;
}

static void names_and_places(void)
{
    server *s = server_start(NULL);
    lone one = lone_start("jobs", s->port, "");
    int nobody = child_port();
    hf_error err;

    EXPECT_OK(open_code(&err, "redis+sentinel://127.0.0.1:%d/jobs", one.port),
              err);
    EXPECT_OK(open_code(&err, "redis+sentinel://127.0.0.1:%d/jobs/3?strict=no",
                        one.port),
              err);
    /* A sentinel that is gone is passed over. */
    EXPECT_OK(open_code(&err, "redis+sentinel://127.0.0.1:%d,127.0.0.1:%d/jobs",
                        nobody, one.port),
              err);
    EXPECT_CODE(
        open_code(&err, "redis+sentinel://127.0.0.1:%d/other", one.port),
        HF_EURL);
    EXPECT_HAS(err.text, "knows no primary named 'other'");
    EXPECT_CODE(open_code(&err, "redis+sentinel://127.0.0.1:%d", one.port),
                HF_EURL);
    EXPECT_HAS(err.text, "name of the primary");
    EXPECT_CODE(open_code(&err, "redis+sentinel://127.0.0.1:%d/jobs", s->port),
                HF_EURL);
    EXPECT_HAS(err.text, "not a Sentinel");
    EXPECT_CODE(open_code(&err, "redis+sentinel://127.0.0.1:%d/jobs", nobody),
                HF_EUNAVAIL);
    EXPECT_CODE(open_code(&err, "redis://127.0.0.1:%d", one.port), HF_EURL);
    EXPECT_HAS(err.text, "redis+sentinel");
    EXPECT_CODE(
        open_code(&err, "redis://127.0.0.1:%d?sentinel_user=x", s->port),
        HF_EURL);
    lone_end(&one);
    server_stop(s);
}

static void sentinels_disagree(void)
{
    server *a = server_start(NULL), *b = server_start(NULL);
    lone one = lone_start("jobs", a->port, "");
    lone two = lone_start("jobs", b->port, "");
    lone three = lone_start("jobs", b->port, "");
    hf_error err;

    EXPECT_CODE(open_code(&err,
                          "redis+sentinel://127.0.0.1:%d,127.0.0.1:%d/jobs",
                          one.port, two.port),
                HF_EUNAVAIL);
    EXPECT_HAS(err.text, "disagree");
    /* More than half of them count. */
    EXPECT_OK(open_code(&err,
                        "redis+sentinel://127.0.0.1:%d,127.0.0.1:%d,"
                        "127.0.0.1:%d/jobs",
                        one.port, two.port, three.port),
              err);
    EXPECT_EQ(server_number(a, "EVAL return(#redis.call('keys','*')) 0"), 0);
    lone_end(&one);
    lone_end(&two);
    lone_end(&three);
    server_stop(a);
    server_stop(b);
}

/* Whoever is named must be a primary, and be there. */
static void wrong_one_is_named(void)
{
    server *a = server_start(NULL), *b = server_start(NULL);
    lone one = lone_start("jobs", b->port, "");
    hf_error err;

    EXPECT_STR(server_ask(b, "REPLICAOF 127.0.0.1 %d", a->port), "OK");
    EXPECT_CODE(open_code(&err, "redis+sentinel://127.0.0.1:%d/jobs", one.port),
                HF_EUNAVAIL);
    EXPECT_HAS(err.text, "is a replica of");
    server_kill(b);
    EXPECT_CODE(open_code(&err, "redis+sentinel://127.0.0.1:%d/jobs", one.port),
                HF_EUNAVAIL);
    EXPECT_HAS(err.text, "server to ask is");
    lone_end(&one);
    server_stop(a);
    server_stop(b);
}

/* Sentinels and servers, both. */
static void over_tls(void)
{
    const char *certs = test_certificates();
    server *s = server_start(&(server_options){.tls = true});
    char more[900];
    hf_error err;
    lone one;

    snprintf(more, sizeof more,
             "tls-replication yes\ntls-auth-clients no\n"
             "tls-ca-cert-file %s/ca.pem\ntls-cert-file %s/server.pem\n"
             "tls-key-file %s/server.key",
             certs, certs, certs);
    one = lone_start("jobs", s->tls_port, more);
    EXPECT_OK(open_code(&err,
                        "rediss+sentinel://localhost:%d/jobs?"
                        "ca_file=%s/ca.pem",
                        one.port, certs),
              err);
    EXPECT_CODE(open_code(&err,
                          "rediss+sentinel://localhost:%d/jobs?"
                          "ca_file=%s/other-ca.pem",
                          one.port, certs),
                HF_EAUTH);
    EXPECT(open_code(&err, "redis+sentinel://localhost:%d/jobs", one.port) !=
           0);
    lone_end(&one);
    server_stop(s);
}

static void sentinels_want_a_password(void)
{
    server *s = server_start(&(server_options){.password = "open"});
    lone one = lone_start("jobs", s->port,
                          "requirepass sesame\nsentinel auth-pass jobs open");
    hf_error err;

    EXPECT_OK(open_code(&err,
                        "redis+sentinel://:open@127.0.0.1:%d/jobs?"
                        "sentinel_password=sesame",
                        one.port),
              err);
    EXPECT_CODE(
        open_code(&err, "redis+sentinel://:open@127.0.0.1:%d/jobs", one.port),
        HF_EAUTH);
    EXPECT_HAS(err.text, "sentinel_password");
    EXPECT_CODE(open_code(&err,
                          "redis+sentinel://127.0.0.1:%d/jobs?"
                          "sentinel_password=sesame",
                          one.port),
                HF_EAUTH);
    lone_end(&one);
    server_stop(s);
}

/* ---- Calls that go astray ---- */

typedef struct map { /* who is named */
    redis_finder finder;
    atomic_int port;
    atomic_int finds, doubts;
} map;

static int find_here(void *ctx, redis_found *ret, hf_nsec deadline,
                     hf_error *err)
{
    map *m = ctx;

    (void)deadline;
    (void)err;
    atomic_fetch_add(&m->finds, 1);
    snprintf(ret->host, sizeof ret->host, "127.0.0.1");
    ret->port = (uint16_t)atomic_load(&m->port);
    return 0;
}

static int judge_all(void *ctx, const redis_met *met, hf_error *err)
{
    (void)ctx;
    (void)met;
    (void)err;
    return 0;
}

static redis_stray stray_readonly(void *ctx, const resp *error)
{
    (void)ctx;
    return error->len > 8 && memcmp(error->text, "READONLY", 8) == 0
               ? REDIS_STRAY_AWAY
               : REDIS_STRAY_NOT;
}

static void hear_nothing(void *ctx, const char *channel, size_t channel_len,
                         const char *text, size_t len)
{
    (void)ctx;
    (void)channel;
    (void)channel_len;
    (void)text;
    (void)len;
}

static void listens(void *ctx)
{
    (void)ctx;
}

static void count_doubt(void *ctx, int code, const char *text)
{
    EXPECT_EQ(code, HF_EUNAVAIL);
    EXPECT(text[0] != '\0');
    atomic_fetch_add(&((map *)ctx)->doubts, 1);
}

typedef struct count_call { /* INCR counter */
    redis_call call;        /* first */
    hf_outcome outcome;
    int64_t answer;
} count_call;

static void write_count(redis_call *call, hf__buf *out,
                        const redis_server *there)
{
    (void)call;
    (void)there;
    resp_command(out, 2);
    resp_text(out, "INCR");
    resp_text(out, "counter");
}

static void count_landed(redis_call *call, hf_outcome outcome,
                         const resp *reply, const hf_error *why)
{
    count_call *c = (count_call *)(void *)call;

    (void)why;
    c->outcome = outcome;
    c->answer = reply ? resp_int(reply, -1) : -1;
}

static count_call count_once(redis_wire *wire, int ms)
{
    count_call c = {.call = {.encode = write_count,
                             .landed = count_landed,
                             .driven = true,
                             .deadline = hfd_now() + HF_MS(ms)}};

    redis_wire_start(wire, &c.call);
    redis_wire_drive(wire, &c.call);
    return c;
}

static void calls_follow(void)
{
    server *a = server_start(NULL), *b = server_start(NULL);
    map m = {.finder = {.ctx = &m,
                        .find = find_here,
                        .judge = judge_all,
                        .stray = stray_readonly}};
    hf__address unused = {"127.0.0.1", 1, NULL};
    redis_settings settings = {.addresses = &unused,
                               .address_count = 1,
                               .client_name = "",
                               .most = 2,
                               .dial_time = HF_MS(20000),
                               .finder = &m.finder};
    redis_listener listener = {&m, hear_nothing, listens, count_doubt};
    redis_wire *wire = NULL;
    hf_error err = {0};
    count_call c;

    atomic_store(&m.port, a->port);
    EXPECT_OK(redis_wire_open(&wire, &settings, &listener, &err), err);
    c = count_once(wire, 20000);
    EXPECT(c.outcome == HF_APPLIED && c.answer == 1);
    /* Demoted, and another is named: the same call is answered there. */
    EXPECT_STR(server_ask(a, "REPLICAOF 127.0.0.1 1"), "OK");
    server_number(b, "INCRBY counter 40");
    atomic_store(&m.port, b->port);
    c = count_once(wire, 20000);
    EXPECT(c.outcome == HF_APPLIED && c.answer == 41);
    EXPECT_EQ(atomic_load(&m.doubts), 1);
    EXPECT_EQ(server_number(a, "GET counter"), 1);
    /* Nobody takes it: not applied, by its deadline, and not without pauses. */
    EXPECT_STR(server_ask(b, "REPLICAOF 127.0.0.1 1"), "OK");
    atomic_store(&m.finds, 0);
    c = count_once(wire, 1000);
    EXPECT(c.outcome == HF_NOT_APPLIED);
    EXPECT(atomic_load(&m.finds) < 50);
    redis_wire_close(wire);
    server_stop(a);
    server_stop(b);
}

/* ---- Numbers that were forgotten ---- */

static atomic_int told;

static void hear_log(hf_log_level level, const char *line, void *user)
{
    (void)level;
    (void)user;
    if (strstr(line, "forgotten numbers"))
        atomic_fetch_add(&told, 1);
}

static uint64_t token_of(hf_session *s, const char *key)
{
    hf_lock_options opt = {HF_LOCK_OPTIONS, .wait_ms = LONG_MS};
    hf_hold *hold = NULL;
    hf_error err;
    uint64_t token;

    EXPECT_OK(hf_lock(s, key, &opt, &hold, &err), err);
    token = hf_hold_token(hold);
    EXPECT_OK(hf_release(hold, &err), err);
    return token;
}

/* A counter that ran ahead of the clock and was lost: as a promoted server's
 * that knows less, with a clock that is behind. */
static void numbers_never_go_back(void)
{
    server *s = server_start(NULL);
    hf_session *a, *b;
    char url[100];
    uint64_t high, low;

    snprintf(url, sizeof url, "redis://127.0.0.1:%d/?ns=t", s->port);
    hf_set_log(hear_log, NULL, HF_LOG_ERROR);
    a = open_session(url, 3000);
    b = open_session(url, 60000);
    low = token_of(a, "k");
    server_ask(s, "INCRBY hf:{t}:c 3600000000");
    high = token_of(a, "k");
    EXPECT(high > low + 3600000000U);
    /* Seen by one client: above all that it had. */
    server_ask(s, "DEL hf:{t}:c");
    low = token_of(a, "k");
    EXPECT(low > high);
    /* Across clients: it happens, is told by whoever knows more, and ends. */
    server_ask(s, "DEL hf:{t}:c");
    EXPECT(token_of(b, "other") < low);
    EXPECT(WAIT_FOR(atomic_load(&told) > 0, LONG_MS));
    EXPECT(token_of(b, "other") > low);
    hf_close(a);
    hf_close(b);
    hf_set_log(NULL, NULL, HF_LOG_ERROR);
    server_stop(s);
}

/* ---- A primary that is left alone ---- */

static int try_code(hf_session *s)
{
    hf_hold *hold = NULL;
    int code = hf_try_lock(s, "k", NULL, &hold, NULL);

    if (code == 0)
        hf_release(hold, NULL);
    return code;
}

/* A primary that wants its one replica, for a strict namespace. */
static server *start_pair(server **ret_replica, char url[160])
{
    server *s = server_start(&(server_options){
        .more = {"--min-replicas-to-write", "1", "--min-replicas-max-lag", "60",
                 "--repl-diskless-sync-delay", "0"}});

    *ret_replica = server_start(NULL);
    server_ask(*ret_replica, "REPLICAOF 127.0.0.1 %d", s->port);
    snprintf(url, 160,
             "redis://127.0.0.1:%d/?strict=yes&max_lease_ms=2000&lag_ms=4000",
             s->port);
    return s;
}

/* Its own setting would let it grant for another minute; lag_ms of a strict
 * store does not: nothing is granted, nothing is extended. */
static void silent_replicas(void)
{
    char url[160];
    server *replica, *s = start_pair(&replica, url);
    hf_session *a = open_session(url, 2000), *b = open_session(url, 2000);
    guarded g;

    EXPECT(WAIT_FOR(try_code(b) == 0, LONG_MS));
    guarded_begin(&g, a, "held");
    server_pause(replica);
    EXPECT(WAIT_FOR(try_code(b) != 0, LONG_MS));
    EXPECT(WAIT_FOR(atomic_load(&g.lost), LONG_MS));
    EXPECT_STR(server_info(s, "min_slaves_good_slaves"), "1");
    server_continue(replica);
    EXPECT(WAIT_FOR(try_code(b) == 0, LONG_MS));
    EXPECT_EQ(hf_error_class(guarded_end(&g)), HF_CLASS_LOST);
    hf_close(a);
    hf_close(b);
    server_stop(replica);
    server_stop(s);
}

/* It was replaced, its successor is gone, and it is appointed again: by its ids
 * nothing has happened, but its replica has followed another. */
static void replica_comes_back(void)
{
    char url[160], copies[16];
    server *replica, *s = start_pair(&replica, url);
    hf_session *a = open_session(url, 2000);

    EXPECT(WAIT_FOR(try_code(a) == 0, LONG_MS));
    snprintf(copies, sizeof copies, "%s", server_info(s, "sync_full"));
    server_ask(replica, "REPLICAOF NO ONE"); /* it was followed by others */
    server_ask(replica, "REPLICAOF 127.0.0.1 %d", s->port);
    EXPECT(WAIT_FOR(strcmp(server_info(s, "sync_full"), copies) != 0 &&
                        strstr(server_info(s, "slave0"), "online"),
                    LONG_MS));
    EXPECT_CODE(try_code(a), HF_EQUARANTINE);
    EXPECT(WAIT_FOR(try_code(a) == 0, LONG_MS));
    hf_close(a);
    server_stop(replica);
    server_stop(s);
}

static const test_case cases[] = {TEST(replica_comes_back),
                                  TEST(names_and_places),
                                  TEST(sentinels_disagree),
                                  TEST(wrong_one_is_named),
                                  TEST(sentinels_want_a_password),
                                  TEST(calls_follow),
                                  TEST(numbers_never_go_back),
                                  TEST(silent_replicas),
                                  TEST(over_tls)};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "sentinel", cases,
                     sizeof cases / sizeof *cases);
}
