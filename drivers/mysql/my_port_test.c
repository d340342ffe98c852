/* my_port_test.c - statements against a real MariaDB: what they answer, how
 * they end when something is in the way, and whether the connection is good
 * afterwards. */
#include "my_test.h"

#include <sys/wait.h>
#include <unistd.h>

typedef struct world {
    sql_server *s;
    sql_port *port;
    sql_conn *conn;
} world;

static world begin(const char *const *more)
{
    sql_server_options opt = {0};
    world w;

    for (int i = 0; more && more[i]; i++)
        opt.more[i] = more[i];
    w.s = sql_server_start(ON_MARIADB, &opt);
    w.port = port_at(sql_server_url(w.s, "", ""), NULL);
    w.conn = conn_to(w.port);
    return w;
}

static void end(world *w)
{
    leave(w->port, w->conn);
    sql_server_stop(w->s);
}

static void reconnect(world *w)
{
    w->port->class->disconnect(w->conn, true);
    w->conn = conn_to(w->port);
}

/* ---- Answers ------------------------------------------------------------ */

static void rows_come_as_text(void)
{
    world w = begin(NULL);
    const char *params[] = {"7", "x", NULL};
    sql_text text;
    sql_rows rows = {0};
    hf_nsec sent = 0, before = hfd_now();
    hf_error err;

    make_text(&text,
              "SELECT CAST(? AS SIGNED) * 2, CONCAT(?, 'y'), CONCAT(?, 'z')",
              3);
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(w.port->class->run(w.conn, &text, params, in_ms(5000), &rows,
                                     &sent, &err),
                  SQL_DONE);
        EXPECT_EQ(rows.rows, 1);
        EXPECT_EQ(sql_number(&rows, 0, 0, -1), 14);
        EXPECT_STR(sql_cell(&rows, 0, 1), "xy");
        EXPECT(sql_cell(&rows, 0, 2) == NULL);
        EXPECT(sent >= before && sent <= hfd_now());
    }
    EXPECT_EQ(((my_conn *)w.conn)->named_count, 1);
    /* The same place, another text: never the old statement. */
    make_text(&text, "SELECT CAST(? AS SIGNED) * 3", 1);
    EXPECT_EQ(w.port->class->run(w.conn, &text, params, in_ms(5000), &rows,
                                 NULL, &err),
              SQL_DONE);
    EXPECT_EQ(sql_number(&rows, 0, 0, -1), 21);
    sql_rows_done(&rows);
    end(&w);
}

static void affected_rows_are_those_found(void)
{
    world w = begin(NULL);
    const char *params[] = {"1"};
    sql_text insert, update;
    sql_rows rows = {0};
    hf_error err;

    ask(w.conn, "CREATE TABLE t(n INT PRIMARY KEY) ENGINE=InnoDB");
    make_text(&insert, "INSERT INTO t VALUES (?)", 1);
    make_text(&update, "UPDATE t SET n = n WHERE n = ?", 1);
    EXPECT_EQ(w.port->class->run(w.conn, &insert, params, in_ms(5000), &rows,
                                 NULL, &err),
              SQL_DONE);
    EXPECT_EQ(rows.rows, 0);
    EXPECT_EQ(rows.affected, 1);
    EXPECT_EQ(w.port->class->run(w.conn, &update, params, in_ms(5000), &rows,
                                 NULL, &err),
              SQL_DONE);
    EXPECT_EQ(rows.affected, 1);
    sql_rows_done(&rows);
    EXPECT_EQ(run_end(w.conn, &insert, params, 5000, &err), SQL_CLASH);
    EXPECT_EQ(run_end(w.conn, &update, params, 5000, &err), SQL_DONE);
    end(&w);
}

/* The refusal comes where the rows would be; then all goes on. */
static void a_clash_behind_the_head(void)
{
    world w = begin(NULL);
    const char *params[] = {"1"};
    sql_text text;
    hf_error err;

    ask(w.conn, "CREATE TABLE t(n INT PRIMARY KEY) ENGINE=InnoDB");
    make_text(&text, "INSERT INTO t VALUES (?) RETURNING n, n + 1", 1);
    EXPECT_EQ(run_end(w.conn, &text, params, 5000, &err), SQL_DONE);
    for (int i = 0; i < 3; i++) {
        params[0] = "1";
        EXPECT_EQ(run_end(w.conn, &text, params, 5000, &err), SQL_CLASH);
        EXPECT_EQ(err.native, 1062);
        params[0] = i == 0 ? "2" : i == 1 ? "3" : "4";
        EXPECT_EQ(run_end(w.conn, &text, params, 5000, &err), SQL_DONE);
    }
    EXPECT_STR(ask(w.conn, "SELECT COUNT(*) FROM t"), "4");
    end(&w);
}

/* Cells of every length around the room that they have. */
static void long_cells(void)
{
    static const int lens[] = {0,           1,    600,   MY_CELL - 1, MY_CELL,
                               MY_CELL + 1, 5000, 70000, 1000000,     3};
    world w = begin(NULL);
    sql_text text;
    sql_rows rows = {0};
    hf_error err;

    make_text(&text, "SELECT REPEAT('ab', ?), 'b', REPEAT('c', ?)", 2);
    for (size_t i = 0; i < sizeof lens / sizeof *lens; i++) {
        char n[16];
        const char *params[] = {n, n};

        snprintf(n, sizeof n, "%d", lens[i]);
        EXPECT_EQ(w.port->class->run(w.conn, &text, params, in_ms(5000), &rows,
                                     NULL, &err),
                  SQL_DONE);
        EXPECT_EQ(strlen(sql_cell(&rows, 0, 0)), 2 * lens[i]);
        EXPECT_STR(sql_cell(&rows, 0, 1), "b");
        EXPECT_EQ(strlen(sql_cell(&rows, 0, 2)), lens[i]);
        EXPECT_EQ(strspn(sql_cell(&rows, 0, 2), "c"), lens[i]);
    }
    sql_rows_done(&rows);
    end(&w);
}

/* More statements than a connection keeps; tables that change under them. */
static void many_statements(void)
{
    world w = begin(NULL);
    static sql_text texts[MY_NAMED + 20];
    const char *params[] = {"1"};
    hf_error err;

    ask(w.conn, "CREATE TABLE t(n INT PRIMARY KEY) ENGINE=InnoDB");
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < MY_NAMED + 20; i++) {
            char words[100];

            snprintf(words, sizeof words, "SELECT %d FROM t WHERE n = ?", i);
            make_text(&texts[i], words, 1);
            EXPECT_EQ(run_end(w.conn, &texts[i], params, 5000, &err), SQL_DONE);
        }
        ask(w.conn, "ALTER TABLE t ADD COLUMN IF NOT EXISTS m INT");
    }
    EXPECT(sql_server_number(w.s, "SELECT VARIABLE_VALUE FROM"
                                  " information_schema.GLOBAL_STATUS WHERE"
                                  " VARIABLE_NAME = 'PREPARED_STMT_COUNT'") <=
           MY_NAMED);
    end(&w);
}

/* ---- What is in the way ------------------------------------------------- */

static void locked_row(void)
{
    world w = begin(NULL);
    sql_conn *other = conn_to(w.port);
    const char *params[] = {"1"};
    sql_text text;
    hf_error err;

    ask(w.conn, "CREATE TABLE t(n INT PRIMARY KEY, m INT) ENGINE=InnoDB");
    ask(w.conn, "INSERT INTO t VALUES (1, 0)");
    ask(other, "SET SESSION idle_transaction_timeout = 0");
    ask(other, "BEGIN");
    ask(other, "UPDATE t SET m = 1 WHERE n = 1");
    make_text(&text, "UPDATE t SET m = m + 10 WHERE n = ?", 1);
    EXPECT_EQ(run_end(w.conn, &text, params, 5000, &err), SQL_CLASH);
    EXPECT_EQ(err.native, 1205);
    /* The connection holds nothing and is good. */
    EXPECT_STR(ask(w.conn, "SELECT @@in_transaction"), "0");
    ask(other, "COMMIT");
    EXPECT_EQ(run_end(w.conn, &text, params, 5000, &err), SQL_DONE);
    EXPECT_STR(ask(w.conn, "SELECT m FROM t"), "11");
    /* Our own deadline, before the server's. */
    ask(other, "BEGIN");
    ask(other, "UPDATE t SET m = 1 WHERE n = 1");
    EXPECT_EQ(run_end(w.conn, &text, params, 300, &err), SQL_LOST);
    EXPECT_HAS(err.text, "in time");
    EXPECT(!w.port->class->stands(w.conn));
    EXPECT_EQ(run_end(w.conn, &text, params, 300, &err), SQL_BROKEN);
    reconnect(&w);
    ask(other, "COMMIT");
    EXPECT_EQ(run_end(w.conn, &text, params, 5000, &err), SQL_DONE);
    w.port->class->disconnect(other, false);
    end(&w);
}

/* MySQL's word for a row that NOWAIT found locked, which MariaDB does not have:
 * said by name. */
static void locked_at_once(void)
{
    world w = begin(NULL);
    hf_error err;

    EXPECT_EQ(end_of(w.conn,
                     "SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 3572, "
                     "MESSAGE_TEXT = 'NOWAIT is set'",
                     5000, &err),
              SQL_CLASH);
    EXPECT_EQ(err.native, 3572);
    EXPECT_STR(ask(w.conn, "SELECT 1"), "1");
    end(&w);
}

static void deadlock(void)
{
    world w = begin(NULL);
    sql_conn *other = conn_to(w.port);
    hf_error err;
    sql_end ends[2];

    ask(w.conn, "CREATE TABLE t(n INT PRIMARY KEY, m INT) ENGINE=InnoDB");
    ask(w.conn, "INSERT INTO t VALUES (1, 0), (2, 0), (3, 0)");
    /* One with more to lose waits; the other one is the victim. */
    ask(other, "BEGIN");
    ask(other, "UPDATE t SET m = 1 WHERE n IN (1, 3)");
    ask(w.conn, "BEGIN");
    ask(w.conn, "UPDATE t SET m = 2 WHERE n = 2");
    EXPECT_EQ(mysql_send_query(((my_conn *)other)->my,
                               "UPDATE t SET m = 1 WHERE n = 2", 30),
              0);
    AWAIT(sql_server_number(w.s,
                            "SELECT COUNT(*) FROM information_schema."
                            "INNODB_TRX WHERE trx_state = 'LOCK WAIT'") == 1);
    ends[0] = end_of(w.conn, "UPDATE t SET m = 2 WHERE n = 1", 5000, &err);
    EXPECT_EQ(ends[0], SQL_CLASH);
    EXPECT_EQ(err.native, 1213);
    EXPECT_STR(ask(w.conn, "SELECT @@in_transaction"), "0");
    w.port->class->disconnect(other, true);
    end(&w);
}

static void a_statement_takes_too_long(void)
{
    world w = begin(NULL);
    hf_error err;

    EXPECT_EQ(end_of(w.conn, "SELECT SLEEP(8), 1", 6000, &err), SQL_CLASH);
    EXPECT_EQ(err.native, 1969);
    EXPECT_STR(ask(w.conn, "SELECT 5"), "5");
    end(&w);
}

static void read_only(void)
{
    world w = begin(NULL);
    hf_error err;

    sql_server_ask(w.s, "GRANT ALL ON holdfast.* TO poor@'%%' IDENTIFIED BY"
                        " 'x'");
    leave(w.port, w.conn);
    w.port = port_at(sql_server_url(w.s, "poor:x", ""), NULL);
    w.conn = conn_to(w.port);
    ask(w.conn, "CREATE TABLE t(n INT PRIMARY KEY) ENGINE=InnoDB");
    sql_server_ask(w.s, "SET GLOBAL read_only = 1");
    EXPECT_EQ(end_of(w.conn, "INSERT INTO t VALUES (1)", 5000, &err),
              SQL_BROKEN);
    EXPECT_EQ(err.code, HF_EUNAVAIL);
    EXPECT_HAS(err.text, "primary");
    sql_server_ask(w.s, "SET GLOBAL read_only = 0");
    reconnect(&w);
    EXPECT_EQ(end_of(w.conn, "INSERT INTO t VALUES (1)", 5000, &err), SQL_DONE);
    end(&w);
}

static void refused(void)
{
    world w = begin(NULL);
    hf_error err;

    EXPECT_EQ(end_of(w.conn, "UPDATE nothing SET n = 1", 5000, &err),
              SQL_REFUSED);
    EXPECT_EQ(err.native, 1146);
    EXPECT_EQ(err.code, HF_EPROTO);
    EXPECT_EQ(end_of(w.conn, "UPDATE SET", 5000, &err), SQL_REFUSED);
    EXPECT_EQ(err.code, HF_EPROTO);
    sql_server_ask(w.s, "CREATE TABLE holdfast.t(n INT) ENGINE=InnoDB");
    sql_server_ask(w.s, "GRANT SELECT ON holdfast.t TO poor@'%%' IDENTIFIED BY"
                        " 'x'");
    leave(w.port, w.conn);
    w.port = port_at(sql_server_url(w.s, "poor:x", ""), NULL);
    w.conn = conn_to(w.port);
    EXPECT_EQ(end_of(w.conn, "INSERT INTO t VALUES (1)", 5000, &err),
              SQL_REFUSED);
    EXPECT_EQ(err.code, HF_EPERM);
    EXPECT_HAS(err.text, "grants");
    EXPECT_STR(ask(w.conn, "SELECT COUNT(*) FROM t"), "0");
    end(&w);
}

/* ---- Cut off ------------------------------------------------------------ */

static void *kill_it(void *arg)
{
    world *w = arg;

    AWAIT(sql_server_number(w->s,
                            "SELECT COUNT(*) FROM information_schema."
                            "PROCESSLIST WHERE STATE = 'User sleep'") == 1);
    sql_server_ask(w->s, "SELECT CONCAT('KILL ', ID) INTO @k FROM"
                         " information_schema.PROCESSLIST WHERE STATE ="
                         " 'User sleep'; EXECUTE IMMEDIATE @k");
    return NULL;
}

static void *interrupt_it(void *arg)
{
    world *w = arg;

    AWAIT(sql_server_number(w->s,
                            "SELECT COUNT(*) FROM information_schema."
                            "PROCESSLIST WHERE STATE = 'User sleep'") == 1);
    sql_server_ask(w->s, "SELECT CONCAT('KILL QUERY ', ID) INTO @k FROM"
                         " information_schema.PROCESSLIST WHERE STATE ="
                         " 'User sleep'; EXECUTE IMMEDIATE @k");
    return NULL;
}

static void killed(void)
{
    world w = begin(NULL);
    pthread_t thread;
    hf_error err;

    ask(w.conn, "CREATE TABLE t(n INT) ENGINE=InnoDB");
    ask(w.conn, "SET SESSION max_statement_time = 0");
    EXPECT(pthread_create(&thread, NULL, kill_it, &w) == 0);
    EXPECT_EQ(end_of(w.conn, "INSERT INTO t SELECT SLEEP(20)", 15000, &err),
              SQL_LOST);
    EXPECT_EQ(err.code, HF_EUNAVAIL);
    pthread_join(thread, NULL);
    EXPECT(!w.port->class->stands(w.conn));
    reconnect(&w);
    EXPECT_STR(ask(w.conn, "SELECT COUNT(*) FROM t"), "0");
    /* While it is idle: seen without asking. */
    sql_server_ask(w.s, "KILL %s", ask(w.conn, "SELECT CONNECTION_ID()"));
    AWAIT(!w.port->class->stands(w.conn));
    reconnect(&w);
    end(&w);
}

/* Of a statement that writes nobody knows; one that reads has done nothing. */
static void interrupted(void)
{
    world w = begin(NULL);
    pthread_t thread;
    hf_error err;

    ask(w.conn, "CREATE TABLE t(n INT) ENGINE=InnoDB");
    ask(w.conn, "SET SESSION max_statement_time = 0");
    EXPECT(pthread_create(&thread, NULL, interrupt_it, &w) == 0);
    EXPECT_EQ(end_of(w.conn, "SELECT SLEEP(20), 1", 15000, &err), SQL_CLASH);
    EXPECT_EQ(err.native, 1317);
    pthread_join(thread, NULL);
    EXPECT_STR(ask(w.conn, "SELECT 6"), "6");
    EXPECT(pthread_create(&thread, NULL, interrupt_it, &w) == 0);
    EXPECT_EQ(end_of(w.conn, "INSERT INTO t SELECT SLEEP(20)", 15000, &err),
              SQL_LOST);
    pthread_join(thread, NULL);
    reconnect(&w);
    end(&w);
}

static void restarted(void)
{
    world w = begin(NULL);
    hf_error err;

    ask(w.conn, "CREATE TABLE t(n INT) ENGINE=InnoDB");
    sql_server_terminate(w.s);
    EXPECT(!w.port->class->stands(w.conn));
    sql_server_restart(w.s);
    EXPECT_EQ(end_of(w.conn, "INSERT INTO t VALUES (1)", 3000, &err),
              SQL_BROKEN);
    reconnect(&w);
    EXPECT_STR(ask(w.conn, "SELECT COUNT(*) FROM t"), "0");
    sql_server_kill(w.s);
    EXPECT_EQ(end_of(w.conn, "INSERT INTO t VALUES (1)", 3000, &err), SQL_LOST);
    sql_server_restart(w.s);
    reconnect(&w);
    EXPECT_STR(ask(w.conn, "SELECT COUNT(*) FROM t"), "0");
    end(&w);
}

static void stopped(void)
{
    world w = begin(NULL);
    const char *params[] = {"1"};
    hf_nsec before;
    sql_text text;
    hf_error err;

    ask(w.conn, "CREATE TABLE t(n INT) ENGINE=InnoDB");
    make_text(&text, "INSERT INTO t VALUES (?)", 1);
    pause_all(w.s);
    before = hfd_now();
    /* Being prepared: certainly not done. */
    EXPECT_EQ(run_end(w.conn, &text, params, 300, &err), SQL_BROKEN);
    EXPECT(hfd_now() - before >= HF_MS(300));
    sql_server_continue(w.s);
    reconnect(&w);
    EXPECT_EQ(run_end(w.conn, &text, params, 3000, &err), SQL_DONE);
    pause_all(w.s);
    EXPECT_EQ(run_end(w.conn, &text, params, 300, &err), SQL_LOST);
    EXPECT_HAS(err.text, "in time");
    sql_server_continue(w.s);
    reconnect(&w);
    end(&w);
}

/* ---- A forked child ----------------------------------------------------- */

static void abandoned(void)
{
    world w = begin(NULL);
    pid_t child = fork();
    int status = 0;

    if (child == 0) {
        w.port->class->abandon(w.conn);
        w.port->class->abandon_port(w.port);
        _exit(0);
    }
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    EXPECT_STR(ask(w.conn, "SELECT 7"), "7");
    end(&w);
}

static const test_case cases[] = {TEST(rows_come_as_text),
                                  TEST(affected_rows_are_those_found),
                                  TEST(a_clash_behind_the_head),
                                  TEST(long_cells),
                                  TEST(many_statements),
                                  TEST(locked_row),
                                  TEST(locked_at_once),
                                  TEST(deadlock),
                                  TEST(a_statement_takes_too_long),
                                  TEST(read_only),
                                  TEST(refused),
                                  TEST(killed),
                                  TEST(interrupted),
                                  TEST(restarted),
                                  TEST(stopped),
                                  TEST(abandoned)};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "my_port", cases,
                     sizeof cases / sizeof *cases);
}
