/* port_test.c - connections and statements against a real PostgreSQL. */
#include "pg_test.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- Statements --------------------------------------------------------- */

static void rows_come_as_text(void)
{
    sql_server *s = sql_server_start(ON_POSTGRES, NULL);
    sql_port *port = port_at(sql_server_url(s, "", ""), NULL);
    sql_conn *conn = conn_to(port);
    const char *params[] = {"7", "x", NULL};
    sql_text text;
    sql_rows rows = {0};
    hf_nsec sent = 0, before = hfd_now();
    hf_error err;

    make_text(&text, "SELECT $1::bigint * 2, $2::text || 'y', $3::text", 3);
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(port->class->run(conn, &text, params, in_ms(5000), &rows,
                                   &sent, &err),
                  SQL_DONE);
        EXPECT_EQ(rows.rows, 1);
        EXPECT_EQ(sql_number(&rows, 0, 0, -1), 14);
        EXPECT_STR(sql_cell(&rows, 0, 1), "xy");
        EXPECT(sql_cell(&rows, 0, 2) == NULL);
        EXPECT(sent >= before && sent <= hfd_now());
    }
    EXPECT_STR(ask(conn, "SELECT count(*) FROM pg_prepared_statements"), "1");
    /* The same place, another text: never the old statement. */
    make_text(&text, "SELECT $1::bigint * 3", 1);
    EXPECT_EQ(
        port->class->run(conn, &text, params, in_ms(5000), &rows, NULL, &err),
        SQL_DONE);
    EXPECT_EQ(sql_number(&rows, 0, 0, -1), 21);
    sql_rows_done(&rows);
    port->class->disconnect(conn, false);
    port->class->close(port);
    sql_server_stop(s);
}

static void affected_rows_are_counted(void)
{
    sql_server *s = sql_server_start(ON_POSTGRES, NULL);
    sql_port *port = port_at(sql_server_url(s, "", ""), NULL);
    sql_conn *conn = conn_to(port);
    const char *params[] = {"1"};
    sql_text text;
    sql_rows rows = {0};
    hf_error err;

    ask(conn, "CREATE TABLE t(n int PRIMARY KEY)");
    make_text(&text, "INSERT INTO t VALUES ($1::int)", 1);
    EXPECT_EQ(
        port->class->run(conn, &text, params, in_ms(5000), &rows, NULL, &err),
        SQL_DONE);
    EXPECT_EQ(rows.rows, 0);
    EXPECT_EQ(rows.affected, 1);
    /* Again: refused by the key, and the connection is good. */
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(port->class->run(conn, &text, params, in_ms(5000), &rows,
                                   NULL, &err),
                  SQL_CLASH);
    EXPECT(port->class->stands(conn));
    make_text(&text, "UPDATE t SET n = 9 WHERE n = $1::int + 1", 1);
    EXPECT_EQ(
        port->class->run(conn, &text, params, in_ms(5000), &rows, NULL, &err),
        SQL_DONE);
    EXPECT_EQ(rows.affected, 0);
    EXPECT_STR(ask(conn, "SELECT count(*) FROM t"), "1");
    sql_rows_done(&rows);
    port->class->disconnect(conn, false);
    port->class->close(port);
    sql_server_stop(s);
}

/* A table that was made anew, or changed: the prepared plan is of no use. */
static void plans_of_old_tables(void)
{
    sql_server *s = sql_server_start(ON_POSTGRES, NULL);
    sql_port *port = port_at(sql_server_url(s, "", ""), NULL);
    sql_conn *conn = conn_to(port);
    sql_text text;
    sql_rows rows = {0};
    hf_error err;
    sql_end end;

    ask(conn, "CREATE TABLE t(n int)");
    make_text(&text, "SELECT * FROM t", 0);
    EXPECT_EQ(
        port->class->run(conn, &text, NULL, in_ms(5000), &rows, NULL, &err),
        SQL_DONE);
    ask(conn, "ALTER TABLE t ALTER n TYPE text");
    end = port->class->run(conn, &text, NULL, in_ms(5000), &rows, NULL, &err);
    EXPECT(end == SQL_DONE || end == SQL_CLASH);
    EXPECT_EQ(
        port->class->run(conn, &text, NULL, in_ms(5000), &rows, NULL, &err),
        SQL_DONE);
    sql_rows_done(&rows);
    port->class->disconnect(conn, false);
    port->class->close(port);
    sql_server_stop(s);
}

/* A transaction is open afterwards, whatever came of the statement; a name that
 * the server process does not know is no clash. */
static void behind_a_begin(void)
{
    sql_server *s = sql_server_start(ON_POSTGRES, NULL);
    sql_port *port = port_at(sql_server_url(s, "", ""), NULL);
    sql_conn *conn = conn_to(port), *other = conn_to(port);
    const char *params[] = {"1"};
    sql_text text;
    sql_rows rows = {0};
    hf_error err;

    ask(conn, "CREATE TABLE t(n int)");
    ask(conn, "INSERT INTO t VALUES (1)");
    make_text(&text, "SELECT n + 6 FROM t WHERE n = $1::int FOR UPDATE NOWAIT",
              1);
    for (int i = 0; i < 4; i++) {
        EXPECT_EQ(
            port->class->begin(conn, &text, params, in_ms(5000), &rows, &err),
            SQL_DONE);
        EXPECT_EQ(sql_number(&rows, 0, 0, -1), 7);
        ask(conn, "SAVEPOINT only_in_a_transaction");
        EXPECT_EQ(
            port->class->begin(other, &text, params, in_ms(5000), &rows, &err),
            SQL_CLASH);
        ask(other, "ROLLBACK");
        ask(conn, "COMMIT");
        if (i == 1)
            ask(conn, "DEALLOCATE ALL");
    }
    sql_rows_done(&rows);
    port->class->disconnect(conn, false);
    port->class->disconnect(other, false);
    port->class->close(port);
    sql_server_stop(s);
}

static void settings_of_a_session(void)
{
    sql_server *s = sql_server_start(ON_POSTGRES, NULL);
    sql_port *port = port_at(sql_server_url(s, "", ""), NULL);
    sql_conn *conn;

    sql_server_ask(s, "ALTER ROLE postgres SET synchronous_commit = off;"
                      "ALTER ROLE postgres SET default_transaction_isolation ="
                      " serializable");
    conn = conn_to(port);
    EXPECT_STR(ask(conn, "SHOW statement_timeout"), "5s");
    EXPECT_STR(ask(conn, "SHOW lock_timeout"), "2s");
    EXPECT_STR(ask(conn, "SHOW idle_in_transaction_session_timeout"), "2s");
    EXPECT_STR(ask(conn, "SHOW idle_session_timeout"), "0");
    EXPECT_STR(ask(conn, "SHOW transaction_isolation"), "read committed");
    EXPECT_STR(ask(conn, "SHOW application_name"), "holdfast");
    EXPECT_STR(ask(conn, "SHOW synchronous_commit"), "on");
    port->class->disconnect(conn, false);
    sql_server_ask(s, "ALTER ROLE postgres SET synchronous_commit ="
                      " remote_apply");
    conn = conn_to(port);
    EXPECT_STR(ask(conn, "SHOW synchronous_commit"), "remote_apply");
    port->class->disconnect(conn, false);
    port->class->close(port);
    sql_server_stop(s);
}

/* ---- What ends a statement ---------------------------------------------- */

static void refusals_of_statements(void)
{
    static const struct {
        const char *text;
        sql_end end;
        int code;
        const char *says;
    } cases[] = {
        {"SELECT * FROM nowhere", SQL_REFUSED, HF_EPROTO, "missing"},
        {"SELECT * FROM nowhere.t", SQL_REFUSED, HF_EPROTO, "missing"},
        {"SELEKT", SQL_REFUSED, HF_EPROTO, "syntax"},
        {"SELECT 'x'::int", SQL_REFUSED, HF_EINVAL, "integer"},
        {"SET ROLE nobody_here", SQL_REFUSED, HF_EINVAL, "nobody_here"},
        {"SET LOCAL ROLE pg_monitor; SELECT pg_reload_conf()", SQL_REFUSED,
         HF_EPERM, "grants"},
        {"DO 'BEGIN RAISE ''init file'' USING ERRCODE = ''XX000''; END'",
         SQL_REFUSED, HF_EUNAVAIL, "init file"},
        {"SET LOCAL transaction_read_only = on; CREATE TABLE x()", SQL_BROKEN,
         HF_EUNAVAIL, "primary"},
    };
    sql_server *s = sql_server_start(ON_POSTGRES, NULL);
    sql_port *port = port_at(sql_server_url(s, "", ""), NULL);
    hf_error err;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sql_conn *conn = conn_to(port);
        sql_end end = end_of(conn, cases[i].text, 5000, &err);

        if (end != cases[i].end || err.code != cases[i].code ||
            !strstr(err.text, cases[i].says))
            FAIL_TEST("%s: ended as %d, %s: %s", cases[i].text, (int)end,
                      hf_error_name(err.code), err.text);
        if (end == SQL_REFUSED)
            EXPECT_STR(ask(conn, "SELECT 1"), "1");
        port->class->disconnect(conn, end == SQL_BROKEN);
    }
    port->class->close(port);
    sql_server_stop(s);
}

static void locked_rows_and_long_statements(void)
{
    sql_server *s = sql_server_start(ON_POSTGRES, NULL);
    sql_port *port = port_at(sql_server_url(s, "", ""), NULL);
    sql_conn *conn = conn_to(port), *other = conn_to(port);
    hf_error err;

    ask(conn, "CREATE TABLE t(n int)");
    ask(conn, "INSERT INTO t VALUES (1)");
    ask(other, "SET idle_in_transaction_session_timeout = 0");
    ask(other, "BEGIN");
    ask(other, "SELECT n FROM t FOR UPDATE");
    ask(conn, "SET lock_timeout = 50");
    EXPECT_EQ(end_of(conn, "UPDATE t SET n = 2", 5000, &err), SQL_CLASH);
    ask(conn, "SET lock_timeout = 0");
    ask(conn, "SET statement_timeout = 50");
    EXPECT_EQ(end_of(conn, "UPDATE t SET n = 2", 5000, &err), SQL_CLASH);
    ask(other, "ROLLBACK");
    EXPECT_EQ(end_of(conn, "UPDATE t SET n = 2", 5000, &err), SQL_DONE);
    EXPECT_STR(ask(conn, "SELECT n FROM t"), "2");
    port->class->disconnect(conn, false);
    port->class->disconnect(other, false);
    port->class->close(port);
    sql_server_stop(s);
}

typedef struct killer {
    sql_server *server;
    const char *pid;
} killer;

static void *kill_backend(void *arg)
{
    killer *k = arg;

    AWAIT(sql_server_number(k->server,
                            "SELECT count(*) FROM pg_stat_activity WHERE pid ="
                            " %s AND wait_event = 'PgSleep'",
                            k->pid) == 1);
    sql_server_ask(k->server, "SELECT pg_terminate_backend(%s)", k->pid);
    return NULL;
}

static void killed_under_a_statement(void)
{
    sql_server *s = sql_server_start(ON_POSTGRES, NULL);
    sql_port *port = port_at(sql_server_url(s, "", ""), NULL);
    sql_conn *conn = conn_to(port);
    char pid[20];
    killer k = {s, pid};
    pthread_t thread;
    hf_error err;

    snprintf(pid, sizeof pid, "%.19s", ask(conn, "SELECT pg_backend_pid()"));
    EXPECT(pthread_create(&thread, NULL, kill_backend, &k) == 0);
    EXPECT_EQ(end_of(conn, "SELECT pg_sleep(4)", 8000, &err), SQL_LOST);
    EXPECT_EQ(err.code, HF_EUNAVAIL);
    EXPECT_HAS(err.text, "57P01");
    pthread_join(thread, NULL);
    EXPECT(!port->class->stands(conn));
    EXPECT_EQ(end_of(conn, "SELECT 1", 1000, &err), SQL_BROKEN);
    port->class->disconnect(conn, true);
    port->class->close(port);
    sql_server_stop(s);
}

static void killed_while_idle(void)
{
    sql_server *s = sql_server_start(ON_POSTGRES, NULL);
    sql_port *port = port_at(sql_server_url(s, "", ""), NULL);
    sql_conn *conn = conn_to(port);

    EXPECT(port->class->stands(conn));
    sql_server_ask(s, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                      " WHERE application_name = 'holdfast'");
    AWAIT(!port->class->stands(conn));
    port->class->disconnect(conn, true);
    conn = conn_to(port);
    sql_server_kill(s);
    AWAIT(!port->class->stands(conn));
    port->class->disconnect(conn, true);
    sql_server_restart(s);
    conn = conn_to(port);
    EXPECT_STR(ask(conn, "SELECT 1"), "1");
    port->class->disconnect(conn, false);
    port->class->close(port);
    sql_server_stop(s);
}

static void paused_server(void)
{
    sql_server *s = sql_server_start(ON_POSTGRES, NULL);
    sql_port *port = port_at(sql_server_url(s, "", ""), NULL);
    sql_conn *conn = conn_to(port), *second = NULL;
    long long before;
    hf_error err;

    ask(conn, "CREATE TABLE t(n int)");
    sql_server_pause(s);
    before = test_now_ms();
    EXPECT_EQ(end_of(conn, "INSERT INTO t VALUES (1)", 200, &err), SQL_LOST);
    EXPECT(test_now_ms() - before >= 199);
    EXPECT_HAS(err.text, "in time");
    EXPECT_EQ(end_of(conn, "SELECT 1", 200, &err), SQL_BROKEN);
    EXPECT_CODE(port->class->connect(port, in_ms(200), &second, &err),
                HF_EUNAVAIL);
    EXPECT_HAS(err.text, "in time");
    port->class->disconnect(conn, true);
    sql_server_continue(s);
    conn = conn_to(port);
    EXPECT_STR(ask(conn, "SELECT 1"), "1");
    port->class->disconnect(conn, false);
    port->class->close(port);
    sql_server_stop(s);
}

/* ---- A forked child ----------------------------------------------------- */

/* It closes what it inherited, and the server hears nothing of that. */
static void abandoned(void)
{
    sql_server *s = sql_server_start(ON_POSTGRES, NULL);
    sql_port *port = port_at(sql_server_url(s, "", ""), NULL);
    sql_conn *conn = conn_to(port);
    pid_t child = fork();
    int status = 0;

    if (child == 0) {
        port->class->abandon(conn);
        port->class->abandon_port(port);
        _exit(0);
    }
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    EXPECT_STR(ask(conn, "SELECT 7"), "7");
    port->class->disconnect(conn, false);
    port->class->close(port);
    sql_server_stop(s);
}

static const test_case cases[] = {TEST(rows_come_as_text),
                                  TEST(affected_rows_are_counted),
                                  TEST(plans_of_old_tables),
                                  TEST(behind_a_begin),
                                  TEST(settings_of_a_session),
                                  TEST(refusals_of_statements),
                                  TEST(locked_rows_and_long_statements),
                                  TEST(killed_under_a_statement),
                                  TEST(killed_while_idle),
                                  TEST(paused_server),
                                  TEST(abandoned)};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "port", cases, sizeof cases / sizeof *cases);
}
