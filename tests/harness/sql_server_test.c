/* sql_server_test.c - the throwaway databases do what their header says. */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "harness/expect.h"
#include "harness/runner.h"
#include "harness/sql_server.h"

static void survives_a_kill(sql_server_kind kind)
{
    sql_server *s = sql_server_start(kind, NULL);

    EXPECT_STR(sql_server_ask(s, "CREATE TABLE t(n INT)"), "");
    EXPECT_STR(sql_server_ask(s, "INSERT INTO t VALUES (7)"), "");
    EXPECT_EQ(sql_server_number(s, "SELECT n FROM t"), 7);
    EXPECT(sql_server_ask(s, "SELECT m FROM t")[0] == '-');
    sql_server_kill(s);
    EXPECT_EQ(s->pid, 0);
    EXPECT(sql_server_ask(s, "SELECT 1")[0] == '-');
    sql_server_restart(s);
    EXPECT_EQ(sql_server_number(s, "SELECT n FROM t"), 7);
    sql_server_terminate(s);
    sql_server_restart(s);
    EXPECT_EQ(sql_server_number(s, "SELECT n FROM t"), 7);
    sql_server_stop(s);
}

static void postgres_survives_a_kill(void)
{
    survives_a_kill(ON_POSTGRES);
}

static void mariadb_survives_a_kill(void)
{
    survives_a_kill(ON_MARIADB);
}

static void a_paused_server_says_nothing(void)
{
    sql_server *s = sql_server_start(ON_POSTGRES, NULL);

    sql_server_pause(s);
    EXPECT(sql_server_ask(s, "SELECT 1") == NULL);
    sql_server_continue(s);
    EXPECT_EQ(sql_server_number(s, "SELECT 1"), 1);
    sql_server_kill(s);
    sql_server_stop(s); /* what it left in memory goes, too */
}

static void a_standby_follows_and_is_promoted(void)
{
    sql_server *s = sql_server_start(ON_POSTGRES, NULL), *copy;

    EXPECT_STR(sql_server_ask(s, "CREATE TABLE t(n INT)"), "");
    copy = sql_server_start(ON_POSTGRES, &(sql_server_options){.copies = s});
    EXPECT_EQ(sql_server_number(copy, "SELECT count(*) FROM t"), 0);
    EXPECT_HAS(sql_server_ask(copy, "INSERT INTO t VALUES (1)"), "read-only");
    sql_server_kill(s);
    sql_server_promote(copy);
    EXPECT_STR(sql_server_ask(copy, "INSERT INTO t VALUES (1)"), "");
    sql_server_stop(copy);
    sql_server_stop(s);
}

static void a_pooler_stands_before_it(void)
{
    sql_server *s = sql_server_start(ON_POSTGRES, NULL);
    sql_server *pool =
        sql_server_start(ON_PGBOUNCER, &(sql_server_options){.behind = s});

    EXPECT_EQ(sql_server_number(pool, "SELECT current_setting('port')"),
              s->port);
    sql_server_stop(pool);
    sql_server_stop(s);
}

static void a_small_disk_is_full_some_day(void)
{
    sql_server *s = sql_server_start(
        ON_POSTGRES, &(sql_server_options){.disk_mb = 80, .tls = true});

    EXPECT_HAS(sql_server_ask(s, "CREATE TABLE t AS SELECT repeat('x', 1000) "
                                 "FROM generate_series(1, 100000)"),
               "disk space");
    EXPECT_STR(sql_server_ask(s, "SHOW ssl"), "on");
    sql_server_stop(s);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        TEST(postgres_survives_a_kill),
        TEST(mariadb_survives_a_kill),
        TEST(a_paused_server_says_nothing),
        TEST(a_standby_follows_and_is_promoted),
        TEST(a_pooler_stands_before_it),
        TEST(a_small_disk_is_full_some_day),
    };

    return run_tests(argc, argv, "sql_server", cases,
                     sizeof cases / sizeof *cases);
}
