/* odbc_port_test.c - statements through the three drivers, and their ends.
 *
 * The port alone, without locks on it: what a statement answers, that every one
 * of the queue's is understood, how it ends when a row is locked or a table is
 * missing.  The servers are the test's own.  Connections that end:
 * odbc_lost_test.c. */
#include "odbc_port_test.h"

/* ---- What a statement answers ---- */

static void check_answers(world *w, const char *dialect, const char *big)
{
    static char word[70000];
    sql_text update, select, returning;

    EXPECT_STR(w->port->known->name, dialect);
    EXPECT(!w->port->base.dialect->numbered);
    make_table(w);
    make_text(&select, false, 1, "SELECT k, n, ? FROM t ORDER BY k");
    EXPECT_EQ(run(w, &select, "x'y", NULL), SQL_DONE);
    EXPECT_EQ(w->rows.rows, 2);
    EXPECT_EQ(w->rows.cols, 3);
    EXPECT_STR(sql_cell(&w->rows, 0, 0), "a");
    EXPECT_EQ(sql_number(&w->rows, 0, 1, -1), 1);
    EXPECT_STR(sql_cell(&w->rows, 0, 2), "x'y");
    EXPECT(sql_cell(&w->rows, 1, 1) == NULL);
    /* The same handle again, and a parameter that outgrows its buffer. */
    memset(word, 'w', sizeof word - 1);
    EXPECT_EQ(run(w, &select, word, NULL), SQL_DONE);
    EXPECT_STR(sql_cell(&w->rows, 1, 2), word);
    EXPECT_EQ(run(w, &select, "", NULL), SQL_DONE);
    EXPECT_STR(sql_cell(&w->rows, 1, 2), "");
    /* A cell of a megabyte comes whole. */
    SAY(w, big);
    EXPECT_EQ(w->rows.rows, 1);
    EXPECT_EQ(strlen(sql_cell(&w->rows, 0, 0)), 1000000);
    EXPECT_EQ(strspn(sql_cell(&w->rows, 0, 0), "z"), 1000000);
    /* No row is no error. */
    make_text(&update, true, 2, "UPDATE t SET n = ? WHERE k = ?");
    EXPECT_EQ(run(w, &update, "7", "nobody"), SQL_DONE);
    EXPECT_EQ(w->rows.rows, 0);
    EXPECT_EQ(run(w, &update, "7", "a"), SQL_DONE);
    EXPECT_EQ(run(w, &update, "7", NULL), SQL_DONE);
    if (w->port->base.dialect->returning && strcmp(dialect, "mariadb") != 0) {
        make_text(&returning, true, 2,
                  "UPDATE t SET n = n + ? WHERE k = ? RETURNING n, k");
        EXPECT_EQ(run(w, &returning, "1", "a"), SQL_DONE);
        EXPECT_EQ(sql_number(&w->rows, 0, 0, -1), 8);
        EXPECT_EQ(run(w, &returning, "1", "nobody"), SQL_DONE);
        EXPECT_EQ(w->rows.rows, 0);
        EXPECT_EQ(run(w, &returning, "1", "a"), SQL_DONE);
        EXPECT_EQ(sql_number(&w->rows, 0, 0, -1), 9);
    }
    /* Committed by itself: another connection sees it. */
    sql_conn *first = w->conn;

    w->conn = connect_more(w);
    SAY(w, "SELECT n FROM t WHERE k = 'a'");
    EXPECT(sql_number(&w->rows, 0, 0, -1) >= 7);
    odbc_disconnect(first, false);
}

static void check_errors(world *w)
{
    sql_text twice, missing, wrong;

    make_text(&twice, true, 1, "INSERT INTO t VALUES (?, 1)");
    EXPECT_EQ(run(w, &twice, "a", NULL), SQL_CLASH);
    EXPECT_EQ(run(w, &twice, "c", NULL), SQL_DONE);
    EXPECT_EQ(run(w, &twice, "c", NULL), SQL_CLASH);
    make_text(&missing, false, 1, "SELECT 1 FROM nowhere WHERE k = ?");
    EXPECT_EQ(run(w, &missing, "a", NULL), SQL_REFUSED);
    EXPECT_EQ(w->err.code, HF_EPROTO);
    make_text(&wrong, true, 0, "UPDAT t SET n = 1");
    EXPECT_EQ(run(w, &wrong, NULL, NULL), SQL_REFUSED);
    EXPECT(odbc_stands(w->conn));
    SAY(w, "SELECT 1");
    EXPECT_EQ(sql_number(&w->rows, 0, 0, -1), 1);
    /* No time: not sent, and the connection stays. */
    const char *params[] = {"d"};

    EXPECT_EQ(odbc_run(w->conn, &twice, params, hfd_now() - 1, &w->rows, NULL,
                       &w->err),
              SQL_REFUSED);
    EXPECT(odbc_stands(w->conn));
}

static void postgres_answers(void)
{
    world w;

    begin(&w, ON_POSTGRES);
    check_answers(&w, "postgres", "SELECT repeat('z', 1000000)");
    check_errors(&w);
    SAY(&w, "SELECT current_setting('statement_timeout')");
    EXPECT_STR(sql_cell(&w.rows, 0, 0), "2s");
    SAY(&w, "SELECT current_setting('transaction_isolation')");
    EXPECT_STR(sql_cell(&w.rows, 0, 0), "read committed");
    end(&w);
}

static void mariadb_answers(void)
{
    world w;

    begin(&w, ON_MARIADB);
    check_answers(&w, "mariadb", "SELECT repeat('z', 1000000)");
    check_errors(&w);
    /* MySQL's word for a row that NOWAIT found locked. */
    EXPECT_EQ(say(&w, "SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 3572"),
              SQL_CLASH);
    EXPECT_EQ(w.err.native, 3572);
    EXPECT(odbc_stands(w.conn));
    SAY(&w, "SELECT @@tx_isolation, @@max_statement_time > 0, @@autocommit");
    EXPECT_STR(sql_cell(&w.rows, 0, 0), "READ-COMMITTED");
    EXPECT_EQ(sql_number(&w.rows, 0, 1, -1), 1);
    EXPECT_EQ(sql_number(&w.rows, 0, 2, -1), 1);
    end(&w);
}

static void sqlite_answers(void)
{
    world w;

    begin(&w, -1);
    check_answers(&w, "sqlite",
                  "SELECT replace(hex(zeroblob(500000)), '0', 'z')");
    check_errors(&w);
    SAY(&w, "PRAGMA journal_mode");
    EXPECT_STR(sql_cell(&w.rows, 0, 0), "wal");
    SAY(&w, "PRAGMA synchronous");
    EXPECT_EQ(sql_number(&w.rows, 0, 0, -1), 2);
    end(&w);
}

/* Every text of the queue is understood by the database and its driver. */
static void check_statements(world *w)
{
    static sql_text texts[SQL_COUNT];
    const char *params[SQL_PARAMS];
    char text[SQL_TEXT_MAX];
    const sql_dialect *words = w->port->base.dialect;

    for (size_t i = 0; i < SQL_PARAMS; i++)
        params[i] = "61";
    for (const char *const *table = words->tables; *table; table++) {
        EXPECT_OK(sql_render_one(text, words, "", "odbc_", *table, &w->err),
                  w->err);
        SAY(w, text);
    }
    EXPECT_OK(sql_render(texts, words, "", "odbc_", &w->err), w->err);
    for (int id = 0; id < SQL_COUNT; id++) {
        sql_end end = odbc_run(w->conn, &texts[id], params, soon(), &w->rows,
                               NULL, &w->err);

        if (end != SQL_DONE && end != SQL_CLASH)
            FAIL_TEST("%s: %s", texts[id].text, w->err.text);
    }
}

static void sqlite_statements(void)
{
    world w;

    begin(&w, -1);
    check_statements(&w);
    end(&w);
}

static void postgres_statements(void)
{
    world w;

    begin(&w, ON_POSTGRES);
    check_statements(&w);
    end(&w);
}

static void mariadb_statements(void)
{
    world w;

    begin(&w, ON_MARIADB);
    check_statements(&w);
    end(&w);
}

/* ---- Rows that are locked ---- */

static void check_locked(world *w, const char *begin_text, const char *rows)
{
    sql_conn *mine = w->conn, *other = connect_more(w);
    sql_text update;

    make_table(w);
    w->conn = other;
    SAY(w, begin_text);
    SAY(w, rows);
    w->conn = mine;
    make_text(&update, true, 2, "UPDATE t SET n = ? WHERE k = ?");
    EXPECT_EQ(run(w, &update, "5", "a"), SQL_CLASH);
    EXPECT(odbc_stands(mine));
    w->conn = other;
    SAY(w, "ROLLBACK");
    w->conn = mine;
    EXPECT_EQ(run(w, &update, "5", "a"), SQL_DONE);
    odbc_disconnect(other, false);
}

static void postgres_locked(void)
{
    world w;

    begin(&w, ON_POSTGRES);
    check_locked(&w, "BEGIN", "UPDATE t SET n = 3 WHERE k = 'a'");
    end(&w);
}

static void mariadb_locked(void)
{
    world w;

    begin(&w, ON_MARIADB);
    check_locked(&w, "BEGIN", "UPDATE t SET n = 3 WHERE k = 'a'");
    end(&w);
}

static void sqlite_locked(void)
{
    world w;

    begin(&w, -1);
    check_locked(&w, "BEGIN IMMEDIATE", "UPDATE t SET n = 3 WHERE k = 'a'");
    end(&w);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        TEST(sqlite_answers),      TEST(sqlite_statements),
        TEST(sqlite_locked),       TEST(postgres_answers),
        TEST(postgres_statements), TEST(postgres_locked),
        TEST(mariadb_answers),     TEST(mariadb_statements),
        TEST(mariadb_locked),
    };

    return run_tests(argc, argv, "odbc_port", cases,
                     sizeof cases / sizeof *cases);
}
