/* sql_fault_test.h - a database, a relay before it, and parties to both.
 *
 * The same tests run on PostgreSQL, on MariaDB and by ODBC on PostgreSQL (HF_ON
 * says which): what goes wrong is the same, and so must be what comes of it.  A
 * party is a store with a session, asked through driver.h; what the core makes
 * of it is asked through holdfast.h.  Every wait has an end. */
#ifndef HF_DRIVERS_SQL_FAULT_TEST_H
#define HF_DRIVERS_SQL_FAULT_TEST_H

#include <holdfast/driver.h>

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "base/url.h"
#include "core/registry.h"
#include "harness/child.h"
#include "harness/sql_server.h"
#include "sql/body.h"
#include "sql_relay_test.h"

enum { PATIENCE_MS = 15000, LONG_MS = 30000 };

#define AWAIT(condition)                                                       \
    do {                                                                       \
        if (!WAIT_FOR(condition, PATIENCE_MS))                                 \
            FAIL_TEST("waited in vain for: %s", #condition);                   \
    } while (0)

static inline sql_server_kind on_kind(void)
{
    const char *on = getenv("HF_ON");

    return on && strcmp(on, "mariadb") == 0 ? ON_MARIADB : ON_POSTGRES;
}

static inline bool on_postgres(void)
{
    return on_kind() == ON_POSTGRES;
}

/* ---- The world ---------------------------------------------------------- */

typedef struct world {
    sql_server *s;
    relay *r;
    char direct[400], through[400]; /* URLs: to the server, by the relay */
} world;

static inline bool on_odbc(void)
{
    const char *on = getenv("HF_ON");

    return on && strcmp(on, "odbc") == 0; /* to PostgreSQL */
}

static inline void write_url(char ret[400], int port, const char *query)
{
    if (on_odbc()) {
        snprintf(ret, 400,
                 "odbc:Driver=PostgreSQL%%20Unicode;Server=127.0.0.1;Port=%d;"
                 "Database=holdfast;Uid=postgres%s%s",
                 port, *query ? "?" : "", query);
        return;
    }
    snprintf(ret, 400, "%s@127.0.0.1:%d/holdfast%s%s",
             on_postgres() ? "postgres://postgres" : "mysql://root", port,
             *query ? "?" : "", query);
}

static inline world world_begin(const sql_server_options *opt,
                                const char *query)
{
    world w = {.s = sql_server_start(on_kind(), opt)};

    w.r = relay_start(w.s->port);
    write_url(w.direct, w.s->port, query);
    write_url(w.through, w.r->port, query);
    return w;
}

static inline void world_end(world *w)
{
    relay_stop(w->r);
    sql_server_stop(w->s);
}

/* No entry, no tomb, no session, no value. */
static inline long long count_left(world *w)
{
    return sql_server_number(
        w->s, "SELECT (SELECT count(*) FROM hf_session) +"
              " (SELECT count(*) FROM hf_value) + (SELECT count(*) FROM"
              " hf_queue WHERE body <> '' OR tombs <> '')");
}

static inline void expect_nothing(world *w)
{
    if (WAIT_FOR(count_left(w) == 0, PATIENCE_MS))
        return;
    fprintf(stderr, "sessions: %s\n",
            sql_server_ask(w->s, "SELECT * FROM hf_session"));
    fprintf(stderr, "queues: %s\n",
            sql_server_ask(w->s, "SELECT body, tombs FROM hf_queue"));
    FAIL_TEST("something stays behind");
}

static inline void expect_clean(world *w)
{
    expect_nothing(w);
    world_end(w);
}

/* A client program that runs this in a transaction, sleeps, and rolls back;
 * returns when it sleeps. */
static inline pid_t hold_row(sql_server *s, const char *text, double seconds)
{
    char all[1000], port[20], host[300];
    const char *on_pg[] = {"psql", "-XAtq",      "-h127.0.0.1",
                           port,   "-Upostgres", "-dholdfast",
                           "-c",   all,          NULL};
    const char *on_my[] = {
        "mariadb", "--no-defaults", host, "-uroot", "holdfast", "-e", all,
        NULL};
    pid_t pid;

    snprintf(port, sizeof port, "-p%d", s->port);
    snprintf(host, sizeof host, "--socket=%s/socket", s->folder);
    snprintf(all, sizeof all, "BEGIN; %s; SELECT %s(%.2f); ROLLBACK", text,
             s->kind == ON_POSTGRES ? "pg_sleep" : "SLEEP", seconds);
    pid =
        child_start((char **)(s->kind == ON_POSTGRES ? on_pg : on_my), s->log);
    AWAIT(sql_server_number(
              s, s->kind == ON_POSTGRES
                     ? "SELECT count(*) FROM pg_stat_activity"
                       " WHERE wait_event = 'PgSleep'"
                     : "SELECT count(*) FROM information_schema.processlist"
                       " WHERE info LIKE 'SELECT SLEEP(%%.%%'") == 1);
    return pid;
}

static inline void await_child(pid_t pid)
{
    AWAIT(child_ended(pid) >= 0);
}

/* ---- Parties ------------------------------------------------------------ */

typedef struct party {
    const hf_driver *driver;
    hf_store *store;
    hf_url *url;
    uint32_t caps;
    hf_id sid;
    char sid_text[SQL_ID_LEN + 1];
    atomic_int doubts, changes, news;
    hf_error err; /* of the last operation */
    hf_outcome outcome;
    hf_nsec remaining;
    int op_ms; /* how long an operation may take; 0: patience */
} party;

static inline void on_changed(void *ctx, const hf_id *rid,
                              const hf_place *fresh)
{
    (void)rid;
    (void)fresh;
    atomic_fetch_add(&((party *)ctx)->changes, 1);
}

static inline void on_news(void *ctx, const hf_id *rid, int reason)
{
    (void)rid;
    (void)reason;
    atomic_fetch_add(&((party *)ctx)->news, 1);
}

static inline void on_doubt(void *ctx, int reason, const char *text)
{
    (void)reason;
    (void)text;
    atomic_fetch_add(&((party *)ctx)->doubts, 1);
}

static inline void note_done(hf_op *op)
{
    atomic_store((atomic_bool *)op->core, true);
}

static inline int run_op(party *p, hf_op *op)
{
    atomic_bool done = false;

    op->sid = p->sid;
    op->deadline = hfd_now() + HF_MS(p->op_ms ? p->op_ms : PATIENCE_MS);
    op->done = note_done;
    op->core = &done;
    p->driver->start(p->store, op);
    EXPECT(atomic_load(&done));
    p->err = op->error;
    p->outcome = op->outcome;
    p->remaining = op->remaining;
    return op->error.code;
}

static inline int party_attach_as(party *p, const hf_id *sid, int ttl_ms)
{
    hf_op op = {.kind = HF_OP_ATTACH,
                .ttl = HF_MS(ttl_ms),
                .text = "fault",
                .text_len = 5};

    p->sid = *sid;
    sql_id_text(sid, p->sid_text);
    return run_op(p, &op);
}

static inline void party_attach(party *p, int ttl_ms)
{
    hf_id sid;

    hfd_random(&sid, sizeof sid);
    EXPECT_OK(party_attach_as(p, &sid, ttl_ms), p->err);
}

static inline int try_party(party **ret, const char *url, hf_error *err)
{
    party *p = calloc(1, sizeof *p);
    hf_host host = {
        .ctx = p, .changed = on_changed, .news = on_news, .doubt = on_doubt};
    int code;

    EXPECT(p != NULL);
    code = hf__registry_open(&p->driver, &p->store, &p->url, url, &host,
                             &p->caps, err);
    if (code != 0)
        free(p);
    else
        *ret = p;
    return code;
}

static inline party *party_open(const char *url, int ttl_ms)
{
    party *p = NULL;
    hf_error err = {0};

    EXPECT_OK(try_party(&p, url, &err), err);
    EXPECT(p != NULL);
    party_attach(p, ttl_ms);
    return p;
}

static inline void party_drop(party *p)
{
    p->driver->close(p->store);
    hf__url_free(p->url);
    free(p);
}

static inline int party_detach(party *p)
{
    hf_op op = {.kind = HF_OP_DETACH};

    return run_op(p, &op);
}

static inline void party_close(party *p)
{
    EXPECT_OK(party_detach(p), p->err);
    party_drop(p);
}

static inline int party_renew(party *p, int ttl_ms)
{
    hf_op op = {.kind = HF_OP_RENEW, .ttl = HF_MS(ttl_ms)};

    return run_op(p, &op);
}

static inline hf_place make_place(const char *key, hf_mode mode)
{
    hf_place place = {.key = key,
                      .key_len = (uint16_t)strlen(key),
                      .mode = (uint8_t)mode,
                      .run = 1};

    hfd_random(&place.rid, sizeof place.rid);
    return place;
}

static inline int join(party *p, hf_place *place)
{
    hf_op op = {.kind = HF_OP_JOIN, .place = place};

    return run_op(p, &op);
}

static inline int try_join(party *p, hf_place *place)
{
    hf_op op = {.kind = HF_OP_JOIN, .place = place, .only_if_granted = true};

    return run_op(p, &op);
}

static inline int leave(party *p, hf_place *place, bool tomb)
{
    hf_op op = {.kind = HF_OP_LEAVE, .place = place, .tomb = tomb};

    return run_op(p, &op);
}

static inline int recheck(party *p, hf_place *place)
{
    hf_op op = {.kind = HF_OP_RECHECK, .places = &place, .place_count = 1};

    return run_op(p, &op);
}

static inline void must_hold(party *p, hf_place *place)
{
    EXPECT_OK(join(p, place), p->err);
    EXPECT_EQ(place->verdict, HF_GRANTED);
}

static inline void must_wait(party *p, hf_place *place)
{
    EXPECT_OK(join(p, place), p->err);
    EXPECT_EQ(place->verdict, HF_WAITS);
}

static inline void must_leave(party *p, hf_place *place)
{
    EXPECT_OK(leave(p, place, false), p->err);
    EXPECT_EQ(place->verdict, HF_GRANTED);
}

/* Entries in the queue of this key, as the table has it. */
static inline long long entries_of(sql_server *s, const char *key)
{
    return sql_server_number(
        s,
        "SELECT coalesce(sum(length(body) - length(replace(body, '|', ''))),"
        " 0) FROM hf_queue WHERE k = '%s'",
        key);
}

/* ---- The core ----------------------------------------------------------- */

static inline hf_session *open_at(const char *url, int64_t lease_ms)
{
    hf_open_options opt = {HF_OPEN_OPTIONS, .lease_ms = lease_ms};
    hf_session *s = NULL;
    hf_error err;

    EXPECT_OK(hf_open(&s, url, &opt, &err), err);
    return s;
}

static inline hf_hold *take(hf_session *s, const char *key)
{
    hf_lock_options opt = {HF_LOCK_OPTIONS, .wait_ms = PATIENCE_MS};
    hf_hold *hold = NULL;
    hf_error err;

    EXPECT_OK(hf_lock(s, key, &opt, &hold, &err), err);
    EXPECT_CODE(hf_hold_check(hold, NULL), 0);
    return hold;
}

static inline void give(hf_hold *hold)
{
    hf_error err;

    EXPECT_OK(hf_release(hold, &err), err);
}

/* A thread that wants a lock, and keeps it until it is told. */
typedef struct waiter {
    hf_session *s;
    const char *key;
    pthread_t thread;
    atomic_bool done, let_go;
    int code, release_code;
    uint64_t token;
} waiter;

static inline void *run_waiter(void *arg)
{
    waiter *w = arg;
    hf_lock_options opt = {HF_LOCK_OPTIONS, .wait_ms = 2 * PATIENCE_MS};
    hf_hold *hold = NULL;

    w->code = hf_lock(w->s, w->key, &opt, &hold, NULL);
    if (w->code == 0)
        w->token = hf_hold_token(hold);
    atomic_store(&w->done, true);
    while (!atomic_load(&w->let_go))
        test_sleep_ms(1);
    if (w->code == 0)
        w->release_code = hf_release(hold, NULL);
    return NULL;
}

static inline void waiter_start(waiter *w, hf_session *s, const char *key)
{
    *w = (waiter){.s = s, .key = key};
    EXPECT(pthread_create(&w->thread, NULL, run_waiter, w) == 0);
}

static inline void waiter_end(waiter *w)
{
    if (!WAIT_FOR(atomic_load(&w->done), 2 * PATIENCE_MS))
        FAIL_TEST("nobody was granted '%s'", w->key);
    EXPECT_CODE(w->code, 0);
    atomic_store(&w->let_go, true);
    pthread_join(w->thread, NULL);
    EXPECT_CODE(w->release_code, 0);
}

#endif
