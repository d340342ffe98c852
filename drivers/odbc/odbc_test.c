/* odbc_test.c - locks over ODBC, seen through the public API.
 *
 * They exclude those of the database's own driver in the same tables, both
 * ways; they outlast a killed connection and a restart of the server; what
 * cannot be opened says why, and never says the password; doctor sees what is
 * wrong with a database.  The servers are the test's own. */
#include <holdfast/holdfast.h>

#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <unistd.h>

#include "odbc_test.h"

enum { PATIENCE_MS = 15000, LEASE_MS = 6000 };

#define AWAIT(condition)                                                       \
    do {                                                                       \
        if (!WAIT_FOR(condition, PATIENCE_MS))                                 \
            FAIL_TEST("waited in vain for: %s", #condition);                   \
    } while (0)

static int try_open(hf_session **ret, const char *url, hf_error *err)
{
    hf_open_options opt = {HF_OPEN_OPTIONS, .lease_ms = LEASE_MS};

    return hf_open(ret, url, &opt, err);
}

static hf_session *open_at(const char *url)
{
    hf_session *s = NULL;
    hf_error err;

    EXPECT_OK(try_open(&s, url, &err), err);
    return s;
}

static hf_hold *take(hf_session *s, const char *key)
{
    hf_lock_options opt = {HF_LOCK_OPTIONS, .wait_ms = PATIENCE_MS};
    hf_hold *hold = NULL;
    hf_error err;

    EXPECT_OK(hf_lock(s, key, &opt, &hold, &err), err);
    return hold;
}

static int try_take(hf_session *s, const char *key)
{
    hf_hold *hold = NULL;
    int code = hf_try_lock(s, key, NULL, &hold, NULL);

    if (code == 0)
        EXPECT_CODE(hf_release(hold, NULL), 0);
    return code;
}

typedef struct waiter {
    hf_session *s;
    pthread_t thread;
    atomic_bool done;
    uint64_t token;
} waiter;

static void *run_waiter(void *arg)
{
    waiter *w = arg;
    hf_hold *hold = take(w->s, "k");

    w->token = hf_hold_token(hold);
    atomic_store(&w->done, true);
    EXPECT_CODE(hf_release(hold, NULL), 0);
    return NULL;
}

/* One of `holder` holds, one of `other` waits and gets it next. */
static void hand_over(hf_session *holder, hf_session *other)
{
    hf_hold *hold = take(holder, "k");
    uint64_t token = hf_hold_token(hold);
    waiter w = {.s = other};
    hf_stats stats;

    EXPECT_CODE(try_take(other, "k"), HF_EBUSY);
    EXPECT_EQ(pthread_create(&w.thread, NULL, run_waiter, &w), 0);
    AWAIT(hf_session_stats(other, &stats) == 0 && stats.waiters == 1);
    test_sleep_ms(50);
    EXPECT(!atomic_load(&w.done));
    EXPECT_CODE(hf_release(hold, NULL), 0);
    AWAIT(atomic_load(&w.done));
    pthread_join(w.thread, NULL);
    EXPECT(w.token > token);
}

/* ---- Beside the database's own driver ---- */

static void beside(sql_server_kind kind)
{
    sql_server *server = sql_server_start(kind, NULL);
    char url[400];

    use_plain_drivers();
    hf_session *one = open_at(odbc_test_url(server, "", url, sizeof url));
    hf_session *two = open_at(sql_server_url(server, "", ""));

    for (int i = 0; i < 5; i++) {
        hand_over(one, two);
        hand_over(two, one);
    }
    hf_close(one);
    hf_close(two);
    sql_server_stop(server);
}

static void beside_postgres(void)
{
    beside(ON_POSTGRES);
}

static void beside_mariadb(void)
{
    beside(ON_MARIADB);
}

static void two_on_sqlite(void)
{
    char url[400];

    use_plain_drivers();
    odbc_test_url(NULL, "", url, sizeof url);
    hf_session *one = open_at(url), *two = open_at(url);

    for (int i = 0; i < 5; i++) {
        hand_over(one, two);
        hand_over(two, one);
    }
    hf_close(one);
    hf_close(two);
}

/* The plainest SQL, on a database that would know more. */
static void unknown_database(void)
{
    sql_server *server = sql_server_start(ON_POSTGRES, NULL);
    char url[400];

    use_plain_drivers();
    odbc_test_url(server, "?dialect=generic", url, sizeof url);
    hf_session *one = open_at(url), *two = open_at(url);

    hand_over(one, two);
    hand_over(two, one);
    hf_close(one);
    hf_close(two);
    sql_server_stop(server);
}

/* The layouts of others work over ODBC, too, beside the database's driver. */
static void formats_on(sql_server_kind kind)
{
    static const char *const names[] = {"spring", "dlock", "shedlock",
                                        "rowlock"};
    sql_server *server = sql_server_start(kind, NULL);
    char url[400], query[60];

    use_plain_drivers();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (kind == ON_MARIADB && strcmp(names[i], "dlock") == 0)
            continue;
        snprintf(query, sizeof query, "?format=%s", names[i]);
        hf_session *one =
            open_at(odbc_test_url(server, query, url, sizeof url));
        hf_session *two = open_at(sql_server_url(server, "", query + 1));
        hf_hold *hold = take(one, "k");

        EXPECT_CODE(try_take(two, "k"), HF_EBUSY);
        EXPECT_CODE(hf_release(hold, NULL), 0);
        hold = take(two, "k");
        EXPECT_CODE(try_take(one, "k"), HF_EBUSY);
        EXPECT_CODE(hf_release(hold, NULL), 0);
        hf_close(one);
        hf_close(two);
    }
    sql_server_stop(server);
}

static void formats_on_postgres(void)
{
    formats_on(ON_POSTGRES);
}

static void formats_on_mariadb(void)
{
    formats_on(ON_MARIADB);
}

/* ---- Broken connections ---- */

static void restarted(void)
{
    sql_server *server = sql_server_start(ON_POSTGRES, NULL);
    char url[400];

    use_plain_drivers();
    odbc_test_url(server, "", url, sizeof url);
    hf_session *s = open_at(url), *rival = open_at(url);
    hf_hold *hold = take(s, "k");
    uint64_t token = hf_hold_token(hold);

    sql_server_ask(server, "SELECT pg_terminate_backend(pid) FROM "
                           "pg_stat_activity WHERE application_name = "
                           "'holdfast'");
    AWAIT(hf_renew(hold, NULL) == 0);
    AWAIT(try_take(rival, "k") == HF_EBUSY);
    sql_server_kill(server);
    sql_server_restart(server);
    AWAIT(hf_renew(hold, NULL) == 0);
    AWAIT(hf_hold_state(hold) == HF_HELD);
    AWAIT(try_take(rival, "k") == HF_EBUSY);
    EXPECT_CODE(hf_release(hold, NULL), 0);
    hold = take(rival, "k");
    EXPECT(hf_hold_token(hold) > token);
    EXPECT_CODE(hf_release(hold, NULL), 0);
    hf_close(s);
    hf_close(rival);
    sql_server_stop(server);
}

/* ---- What cannot be opened ---- */

static void refused_with(const char *url, int code, const char *word)
{
    hf_session *s = NULL;
    hf_error err = {0};

    EXPECT_CODE(try_open(&s, url, &err), code);
    EXPECT_HAS(err.text, word);
    EXPECT(!strstr(err.text, "hush"));
    EXPECT(!strchr(err.text, '\n'));
}

static void wrong_urls(void)
{
    use_plain_drivers();
    refused_with("odbc:", HF_EURL, "data source");
    refused_with("odbc://host/x", HF_EURL, "data source");
    refused_with("odbc:nowhere;PWD=hush", HF_EURL, "odbcinst -q -s");
    refused_with("odbc:nowhere?password=hush", HF_EURL, "odbcinst -q -s");
    refused_with("odbc:Driver=nothing;PWD=hush", HF_EDRIVER, "odbcinst -q -d");
    refused_with("odbc:Driver=Broken;PWD=hush", HF_EDRIVER, "broken.so");
    refused_with("odbc:Driver=SQLite3;Database=/nowhere/x.db", HF_EUNAVAIL,
                 "folder");
    refused_with("odbc:Driver=SQLite3;Database=:memory:", HF_EURL, "memory");
    refused_with("odbc:Driver=SQLite3;Database=x?dialect=cobol", HF_EURL,
                 "dialect");
    refused_with("odbc:Driver=SQLite3;Database=x?pwd=hush", HF_EURL, "unknown");
    refused_with("odbc:Driver=PostgreSQL Unicode;Server=127.0.0.1;Port=1;"
                 "Database=x;Uid=x;Pwd=hush",
                 HF_EUNAVAIL, "refused");
    refused_with("odbc:Driver=MariaDB Unicode;Server=127.0.0.1;Port=1;"
                 "Database=x;Uid=x;Pwd=hush",
                 HF_EUNAVAIL, "connect");
}

/* With so many descriptors more than are open now. */
static int try_with_few(const char *url, int more, hf_error *err)
{
    int next = dup(STDERR_FILENO);
    struct rlimit was, few;
    hf_session *s = NULL;
    int code;

    EXPECT(next > 0 && close(next) == 0);
    EXPECT(getrlimit(RLIMIT_NOFILE, &was) == 0);
    few = (struct rlimit){(rlim_t)(next + more), was.rlim_max};
    EXPECT(setrlimit(RLIMIT_NOFILE, &few) == 0);
    code = try_open(&s, url, err);
    EXPECT(setrlimit(RLIMIT_NOFILE, &was) == 0);
    hf_close(s);
    return code;
}

/* The manager cannot read its files and says that there is no such driver: that
 * is not for ever. */
static void no_descriptors(void)
{
    char url[400];
    bool told = false;
    hf_error err;
    int code;

    use_plain_drivers();
    odbc_test_url(NULL, "", url, sizeof url);
    refused_with("odbc:nowhere", HF_EURL, "odbcinst -q -s"); /* loads ours */
    for (int more = 0; (code = try_with_few(url, more, &err)) != 0; more++) {
        if (code != HF_ENOMEM)
            EXPECT_CODE(code, HF_EUNAVAIL);
        told |= strstr(err.text, "want of file descriptors") != NULL;
        EXPECT(more < 40);
    }
    EXPECT(told);
}

static void refused_by_postgres(void)
{
    sql_server *server =
        sql_server_start(ON_POSTGRES, &(sql_server_options){.tls = true});
    char url[400];

    use_plain_drivers();
    /* The last one that is named counts. */
    refused_with(odbc_test_url(server, ";Database=nosuch", url, sizeof url),
                 HF_EURL, "database");
    snprintf(url, sizeof url,
             "odbc:Driver=PostgreSQL Unicode;Server=127.0.0.1;Port=%d;"
             "Database=holdfast;SSLmode=require;Uid=keeper",
             server->port);
    char with[500];

    snprintf(with, sizeof with, "%s;Pwd=hush", url);
    refused_with(with, HF_EAUTH, "password");
    snprintf(with, sizeof with, "%s?password=hush", url);
    refused_with(with, HF_EAUTH, "password");
    snprintf(with, sizeof with, "%s;SSLmode=disable;Pwd=s3cret", url);
    refused_with(with, HF_EAUTH, "pg_hba");
    snprintf(with, sizeof with, "%s;Pwd=s3cret", url);
    hf_session *s = open_at(with);

    EXPECT(!strstr(hf_session_url(s), "s3cret"));
    EXPECT_CODE(try_take(s, "k"), 0);
    hf_close(s);
    snprintf(with, sizeof with, "%s?password=s3cret", url);
    s = open_at(with);
    EXPECT(!strstr(hf_session_url(s), "s3cret"));
    hf_close(s);
    sql_server_stop(server);
}

static void refused_by_mariadb(void)
{
    sql_server *server = sql_server_start(ON_MARIADB, NULL);
    char url[400];

    use_plain_drivers();
    snprintf(url, sizeof url,
             "odbc:Driver=MariaDB Unicode;Server=127.0.0.1;Port=%d;"
             "Database=nosuch;Uid=root",
             server->port);
    refused_with(url, HF_EURL, "database");
    snprintf(url, sizeof url,
             "odbc:Driver=MariaDB Unicode;Server=127.0.0.1;Port=%d;"
             "Database=holdfast;Uid=keeper;Pwd=hush",
             server->port);
    refused_with(url, HF_EAUTH, "password");
    sql_server_ask(server, "SET GLOBAL read_only = 1");
    refused_with(odbc_test_url(server, "", url, sizeof url), HF_EUNAVAIL,
                 "primary");
    sql_server_stop(server);
}

/* ---- Doctor ---- */

typedef struct findings {
    char text[4000];
} findings;

static void note_finding(hf_level level, const char *name, const char *text,
                         void *user)
{
    findings *f = user;
    size_t used = strlen(f->text);

    (void)text;
    snprintf(f->text + used, sizeof f->text - used, " %s:%d ", name,
             (int)level);
}

static void examine(const char *url, findings *ret)
{
    hf_session *s = open_at(url);
    hf_error err;

    ret->text[0] = '\0';
    EXPECT_OK(hf_doctor(s, note_finding, ret, &err), err);
    hf_close(s);
}

static void doctor(void)
{
    sql_server *server = sql_server_start(ON_POSTGRES, NULL);
    findings f;
    char url[400];

    use_plain_drivers();
    examine(odbc_test_url(server, "", url, sizeof url), &f);
    EXPECT_HAS(f.text, " driver:0 ");
    EXPECT_HAS(f.text, " autocommit:0 ");
    EXPECT_HAS(f.text, " deadline:0 ");
    EXPECT_HAS(f.text, " durability:2 "); /* the tests' servers have it off */
    EXPECT_HAS(f.text, " race:0 ");
    EXPECT_EQ(sql_server_number(server, "SELECT count(*) FROM hf_value"), 0);
    examine(
        odbc_test_url(server, "?dialect=generic&prefix=g_", url, sizeof url),
        &f);
    EXPECT_HAS(f.text, " driver:1 ");
    EXPECT_HAS(f.text, " race:0 ");
    sql_server_stop(server);
    examine(odbc_test_url(NULL, "", url, sizeof url), &f);
    EXPECT_HAS(f.text, " journal:0 ");
    EXPECT_HAS(f.text, " sync:0 ");
    EXPECT_HAS(f.text, " integrity:0 ");
    EXPECT_HAS(f.text, " filesystem:0 ");
    EXPECT_HAS(f.text, " race:0 ");
    examine(odbc_test_url(NULL, ";SyncPragma=OFF", url, sizeof url), &f);
    EXPECT_HAS(f.text, " sync:1 ");
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        TEST(wrong_urls),          TEST(no_descriptors),
        TEST(two_on_sqlite),       TEST(beside_postgres),
        TEST(beside_mariadb),      TEST(unknown_database),
        TEST(restarted),           TEST(refused_by_postgres),
        TEST(refused_by_mariadb),  TEST(doctor),
        TEST(formats_on_postgres), TEST(formats_on_mariadb),
    };

    return run_tests(argc, argv, "odbc", cases, sizeof cases / sizeof *cases);
}
