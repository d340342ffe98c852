/* my_format_test.c - other libraries' locks in MariaDB, and ours, on one row.
 *
 * Each peer says what its library says (the statements are written anew from
 * what they do).  Both directions are asked: they do not get what we hold, we
 * do not get what they hold, what has expired changes hands, and who lost it is
 * told, by the next renewal and at the release. */
#include "base/url.h"
#include "harness/expect.h"
#include "harness/runner.h"
#include "harness/sql_server.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sql/format_peer_test.h"

#define URL(s, query) sql_server_url(s, "", query)
#define UTC "UTC_TIMESTAMP(6)"
#define IN_30 "(" UTC " + INTERVAL 30 SECOND)"
#define AGO_10 "(" UTC " - INTERVAL 10 SECOND)"

/* ---- spring ------------------------------------------------------------- */

static void spring_7_excludes_both_ways(void)
{
    sql_server *s = sql_server_start(ON_MARIADB, NULL);
    ours *o = ours_open(URL(s, "format=spring"), 20000);
    peer *p = peer_open(o);
    hf_place place = ours_place("my-lock"), waits = ours_place("my-lock");

    ours_holds(o, &place);
    EXPECT_STR(peer_asks(p, "SELECT LOCK_KEY FROM INT_LOCK"), my_lock);
    EXPECT_EQ(strlen(peer_asks(p, "SELECT CLIENT_ID FROM INT_LOCK")), 36);
    EXPECT(peer_sees(p,
                     "SELECT REGION = 'DEFAULT' AND EXPIRED_AFTER BETWEEN " UTC
                     " + INTERVAL 10 SECOND AND " UTC
                     " + INTERVAL 20 SECOND AND CREATED_DATE BETWEEN " AGO_10
                     " AND " UTC " FROM INT_LOCK"));
    EXPECT_EQ(spring_update_7(p, "INT_LOCK", my_lock, UTC, IN_30), 0);
    EXPECT_EQ(spring_insert_7(p, "INT_LOCK", my_lock, UTC, IN_30), SQL_CLASH);
    EXPECT_EQ(spring_delete(p, "INT_LOCK", my_lock), 0);
    EXPECT_EQ(ours_renew(o, &place), HF_GRANTED);
    EXPECT(place.remaining > HF_MS(15000));
    EXPECT_EQ(ours_leave(o, &place), HF_GRANTED);
    EXPECT_STR(peer_asks(p, "SELECT count(*) FROM INT_LOCK"), "0");

    EXPECT_EQ(spring_insert_7(p, "INT_LOCK", my_lock, UTC, IN_30), SQL_DONE);
    ours_is_refused(o, "my-lock");
    ours_waits(o, &waits);
    EXPECT_EQ(ours_look(o, &waits), HF_WAITS);
    EXPECT_EQ(spring_delete(p, "INT_LOCK", my_lock), 1);
    EXPECT_EQ(ours_look(o, &waits), HF_GRANTED);
    EXPECT_EQ(peer_does(p, "UPDATE INT_LOCK SET EXPIRED_AFTER = " AGO_10), 1);
    EXPECT_EQ(spring_update_7(p, "INT_LOCK", my_lock, UTC, IN_30), 1);
    ours_is_told(o, &waits);
    EXPECT_EQ(peer_does(p, "UPDATE INT_LOCK SET EXPIRED_AFTER = " AGO_10), 1);
    place = ours_place("my-lock");
    ours_holds(o, &place);
    EXPECT_EQ(spring_delete(p, "INT_LOCK", my_lock), 0);
    EXPECT_EQ(ours_leave(o, &place), HF_GRANTED);
    peer_close(p);
    ours_close(o);
    sql_server_stop(s);
}

static void spring_6_excludes_both_ways(void)
{
    sql_server *s = sql_server_start(ON_MARIADB, NULL);
    ours *o = ours_open(URL(s, "format=spring&generation=b"), 20000);
    peer *p = peer_open(o);
    hf_place place = ours_place("my-lock");

    ours_holds(o, &place);
    EXPECT(peer_sees(p, "SELECT CREATED_DATE BETWEEN " UTC " AND " UTC
                        " + INTERVAL 10 SECOND FROM INT_LOCK"));
    EXPECT_EQ(spring_update_6(p, "INT_LOCK", my_lock, UTC, AGO_10), 0);
    EXPECT_EQ(spring_insert_6(p, "INT_LOCK", my_lock, UTC), SQL_CLASH);
    EXPECT_EQ(ours_renew(o, &place), HF_GRANTED);
    EXPECT_EQ(peer_does(p, "UPDATE INT_LOCK SET CREATED_DATE = CREATED_DATE - "
                           "INTERVAL 25 SECOND"),
              1);
    EXPECT_EQ(spring_update_6(p, "INT_LOCK", my_lock, UTC, AGO_10), 1);
    ours_is_told(o, &place);
    ours_is_refused(o, "my-lock");
    peer_close(p);
    ours_close(o);
    sql_server_stop(s);
}

static void spring_5_is_local_time(void)
{
    static const char local[] = "CONVERT_TZ(" UTC ", '+00:00', '+05:30')";
    sql_server *s = sql_server_start(ON_MARIADB, NULL);
    ours *o =
        ours_open(URL(s, "format=spring&generation=a&zone=%2B05:30"), 10000);
    peer *p = peer_open(o);
    hf_place place = ours_place("my-lock");
    char before[120];

    snprintf(before, sizeof before, "(%s - INTERVAL 10 SECOND)", local);
    ours_holds(o, &place);
    EXPECT(peer_sees(p, "SELECT CREATED_DATE BETWEEN " UTC
                        " + INTERVAL 325 MINUTE AND " UTC
                        " + INTERVAL 330 MINUTE FROM INT_LOCK"));
    EXPECT_EQ(spring_update_6(p, "INT_LOCK", my_lock, local, before), 0);
    EXPECT_EQ(ours_leave(o, &place), HF_GRANTED);
    EXPECT_EQ(spring_insert_6(p, "INT_LOCK", my_lock, local), SQL_DONE);
    ours_is_refused(o, "my-lock");
    peer_close(p);
    ours_close(o);
    /* A server without its tables of zones would make every time NULL. */
    ours_cannot_open(URL(s, "format=spring&generation=a&zone=No/Where"),
                     HF_EURL, "No/Where");
    ours_cannot_open(URL(s, "format=dlock"), HF_EURL, "dlock");
    sql_server_stop(s);
}

/* ---- shedlock ----------------------------------------------------------- */

#define SHED_UTC "UTC_TIMESTAMP(3)"

static long long shed_update(peer *p)
{
    return peer_does(p, "UPDATE shedlock SET lock_until = TIMESTAMPADD("
                        "MICROSECOND, 60000000, " SHED_UTC
                        "), locked_at = " SHED_UTC
                        ", locked_by = 'theirs' WHERE name = 'job' "
                        "AND lock_until <= " SHED_UTC);
}

static long long shed_insert(peer *p)
{
    return peer_does(p, "INSERT IGNORE INTO shedlock(name, lock_until, "
                        "locked_at, locked_by) VALUES('job', TIMESTAMPADD("
                        "MICROSECOND, 60000000, " SHED_UTC "), " SHED_UTC
                        ", 'theirs')");
}

static long long shed_unlock(peer *p)
{
    return peer_does(p, "UPDATE shedlock SET lock_until = " SHED_UTC
                        " WHERE name = 'job' AND locked_by = 'theirs'");
}

static void shedlock_excludes_both_ways(void)
{
    sql_server *s = sql_server_start(ON_MARIADB, NULL);
    ours *o = ours_open(URL(s, "format=shedlock&locked_by=me"), 20000);
    peer *p = peer_open(o);
    hf_place place = ours_place("job");

    ours_holds(o, &place);
    EXPECT(peer_sees(p,
                     "SELECT locked_by LIKE 'me/%' AND lock_until BETWEEN " UTC
                     " + INTERVAL 10 SECOND AND " UTC
                     " + INTERVAL 20 SECOND FROM shedlock"));
    EXPECT_EQ(shed_insert(p), 0);
    EXPECT_EQ(shed_update(p), 0);
    EXPECT_EQ(shed_unlock(p), 0);
    EXPECT_EQ(ours_renew(o, &place), HF_GRANTED);
    EXPECT_EQ(ours_leave(o, &place), HF_GRANTED);
    EXPECT_STR(peer_asks(p, "SELECT count(*) FROM shedlock"), "1");
    EXPECT_EQ(shed_update(p), 1);
    ours_is_refused(o, "job");
    EXPECT_EQ(shed_unlock(p), 1);

    place = ours_place("job");
    ours_holds(o, &place);
    EXPECT_EQ(ours_leave_keep(o, &place, 15000), HF_GRANTED);
    EXPECT_EQ(ours_leave(o, &place), HF_GONE);
    EXPECT_EQ(shed_update(p), 0);
    EXPECT_EQ(peer_does(p, "UPDATE shedlock SET lock_until = " AGO_10), 1);

    place = ours_place("job");
    ours_holds(o, &place);
    EXPECT_EQ(peer_does(p, "UPDATE shedlock SET lock_until = " AGO_10), 1);
    EXPECT_EQ(shed_update(p), 1);
    ours_is_told(o, &place);
    ours_is_refused(o, "job");
    peer_close(p);
    ours_close(o);
    sql_server_stop(s);
}

/* ---- getlock ------------------------------------------------------------ */

static void getlock_excludes_both_ways(void)
{
    sql_server *s = sql_server_start(ON_MARIADB, NULL);
    ours *o = ours_open(URL(s, "format=getlock"), 20000);
    peer *p = peer_open(o);
    hf_place place = ours_place("job"), waits = ours_place("job");
    hf_place upper = ours_place("JOB");

    ours_holds(o, &place);
    ours_waits(o, &waits); /* the same connection is not a way around it */
    ours_holds(o, &upper); /* another key, though the server sees no case */
    EXPECT(!peer_sees(p, "SELECT GET_LOCK('job', 0)"));
    EXPECT_EQ(ours_renew(o, &place), HF_GRANTED);
    EXPECT_EQ(ours_leave(o, &place), HF_GRANTED);
    EXPECT(peer_sees(p, "SELECT GET_LOCK('job', 0)"));
    EXPECT_EQ(ours_look(o, &waits), HF_WAITS);
    EXPECT(peer_sees(p, "SELECT RELEASE_LOCK('job')"));
    EXPECT_EQ(ours_look(o, &waits), HF_GRANTED);
    /* The connection ends, and all that it held: told without a renewal. */
    peer_does(p, "KILL CONNECTION %s",
              peer_asks(p, "SELECT IS_USED_LOCK('job')"));
    EXPECT(WAIT_FOR(atomic_load(&o->lost) == 2, PATIENCE_MS));
    ours_is_told(o, &waits);
    EXPECT_EQ(ours_leave(o, &upper), HF_GONE);
    EXPECT(peer_sees(p, "SELECT GET_LOCK('job', 0)"));
    ours_is_refused(o, "job");
    peer_close(p);
    ours_close(o);
    sql_server_stop(s);
}

static void getlock_by_madelsons_rule(void)
{
    sql_server *s = sql_server_start(ON_MARIADB, NULL);
    ours *o = ours_open(URL(s, "format=getlock&key_rule=madelson"), 20000);
    peer *p = peer_open(o);
    hf_place place = ours_place("Order");
    hf_place nobody = ours_place("\xc3\x84rger");

    ours_holds(o, &place);
    EXPECT(!peer_sees(p, "SELECT GET_LOCK("
                         "'order4s65ovszwqjcgaagugrf7tgas6kh27jw', 0)"));
    EXPECT_CODE(ours_join(o, &nobody, true), HF_EINVAL);
    EXPECT_EQ(ours_leave(o, &place), HF_GRANTED);
    peer_close(p);
    ours_close(o);
    ours_cannot_open(URL(s, "format=getlock&key_rule=none"), HF_EURL,
                     "key_rule");
    sql_server_stop(s);
}

/* ---- rowlock ------------------------------------------------------------ */

static sql_end select_for_update(peer *p, const char *code)
{
    return peer_try(p,
                    "SELECT * FROM distribute_lock WHERE business_code = '%s' "
                    "FOR UPDATE NOWAIT",
                    code);
}

/* The table of the tutorials: no index on the code, and a row twice. */
static void rowlock_excludes_both_ways(void)
{
    sql_server *s = sql_server_start(ON_MARIADB, NULL);
    ours *o = ours_open(URL(s, "format=shedlock"), 20000);
    peer *p = peer_open(o);
    hf_place place = ours_place("job"), other = ours_place("it's"), waits;
    ours *r;

    peer_does(p, "CREATE TABLE distribute_lock (id INT UNSIGNED NOT NULL "
                 "AUTO_INCREMENT, business_code VARCHAR(255) NOT NULL, "
                 "business_name VARCHAR(255) NOT NULL, PRIMARY KEY (id)) "
                 "ENGINE=InnoDB");
    peer_does(p, "INSERT INTO distribute_lock(business_code, business_name) "
                 "VALUES ('job', 'a'), ('job', 'b')");
    r = ours_open(URL(s, "format=rowlock&business_name=mine"), 20000);
    ours_holds(r, &place);
    ours_holds(r, &other); /* no scan of ours meets a row that is locked */
    EXPECT_STR(peer_asks(p, "SELECT business_name FROM distribute_lock WHERE "
                            "business_code = 'it''s'"),
               "mine");
    peer_does(p, "START TRANSACTION");
    EXPECT_EQ(select_for_update(p, "job"), SQL_CLASH);
    peer_does(p, "ROLLBACK");
    test_sleep_ms(3000); /* longer than our other transactions may be silent */
    EXPECT_EQ(ours_renew(r, &place), HF_GRANTED);
    EXPECT_EQ(ours_leave(r, &place), HF_GRANTED);
    EXPECT_EQ(ours_leave(r, &other), HF_GRANTED);

    peer_does(p, "START TRANSACTION");
    EXPECT_EQ(select_for_update(p, "job"), SQL_DONE);
    EXPECT_EQ(p->rows.rows, 2);
    ours_is_refused(r, "job");
    waits = ours_place("job");
    ours_waits(r, &waits);
    peer_does(p, "COMMIT");
    EXPECT_EQ(ours_look(r, &waits), HF_GRANTED);
    peer_does(p, "KILL CONNECTION %s",
              peer_asks(p, "SELECT trx_mysql_thread_id FROM "
                           "information_schema.innodb_trx WHERE "
                           "trx_rows_locked > 0"));
    EXPECT(WAIT_FOR(atomic_load(&r->lost) == 1, PATIENCE_MS));
    ours_is_told(r, &waits);
    ours_close(r);
    peer_close(p);
    ours_close(o);
    sql_server_stop(s);
}

/* Tables as others make them: each code is a lock of its own, for two stores at
 * once, whatever letters the column has and whatever the index covers. */
static void rowlock_on_any_table(void)
{
    static const char *const tables[] = {
        "business_code VARCHAR(100) NOT NULL UNIQUE, business_name VARCHAR(100)"
        " NOT NULL) ENGINE=InnoDB CHARSET=utf8mb3",
        "business_code VARCHAR(100) NOT NULL UNIQUE, business_name VARCHAR(100)"
        " NOT NULL) ENGINE=InnoDB CHARSET=latin1",
        "business_code VARCHAR(100) NOT NULL UNIQUE, business_name VARCHAR(100)"
        " NOT NULL) ENGINE=InnoDB CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci",
        "business_code VARCHAR(100) NOT NULL, business_name VARCHAR(100) NOT "
        "NULL) ENGINE=InnoDB CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci",
        "business_code VARCHAR(100) NOT NULL, business_name VARCHAR(100) NOT "
        "NULL, UNIQUE (business_code, business_name)) ENGINE=InnoDB "
        "CHARSET=utf8mb4"};
    sql_server *s = sql_server_start(ON_MARIADB, NULL);
    ours *shed = ours_open(URL(s, "format=shedlock"), 20000);
    peer *p = peer_open(shed);

    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        hf_place job = ours_place("job"), other = ours_place("t\xc3\xbcr");
        hf_place third = ours_place("third");
        ours *a, *b;

        peer_does(p, "DROP TABLE IF EXISTS distribute_lock");
        peer_does(p,
                  "CREATE TABLE distribute_lock (id INT NOT NULL "
                  "AUTO_INCREMENT PRIMARY KEY, %s",
                  tables[i]);
        a = ours_open(URL(s, "format=rowlock"), 20000);
        b = ours_open(URL(s, "format=rowlock&business_name=b"), 20000);
        ours_holds(a, &job);
        ours_holds(b, &other);
        ours_is_refused(b, "job");
        ours_is_refused(a, "t\xc3\xbcr");
        EXPECT_EQ(ours_leave(b, &other), HF_GRANTED);
        other = ours_place("t\xc3\xbcr");
        ours_holds(a, &other); /* its row is there now */
        ours_holds(b, &third);
        EXPECT_EQ(ours_leave(a, &job), HF_GRANTED);
        EXPECT_EQ(ours_leave(a, &other), HF_GRANTED);
        EXPECT_EQ(ours_leave(b, &third), HF_GRANTED);
        EXPECT_STR(peer_asks(p, "SELECT count(*) FROM distribute_lock"), "3");
        ours_close(a);
        ours_close(b);
    }
    peer_close(p);
    ours_close(shed);
    sql_server_stop(s);
}

/* Only a unique index on the code alone finds one row, and locks no other. */
static void rowlock_wants_a_whole_index(void)
{
    sql_server *s = sql_server_start(ON_MARIADB, NULL);
    ours *shed = ours_open(URL(s, "format=shedlock"), 20000);
    peer *p = peer_open(shed);
    hf_place place = ours_place("job");
    ours *o;

    peer_does(p, "CREATE TABLE distribute_lock (id INT NOT NULL AUTO_INCREMENT "
                 "PRIMARY KEY, business_code VARCHAR(100) NOT NULL, "
                 "business_name VARCHAR(100) NOT NULL, UNIQUE (business_code, "
                 "business_name)) ENGINE=InnoDB");
    o = ours_open(URL(s, "format=rowlock"), 20000);
    peer_does(p, "SET GLOBAL log_output = 'TABLE', GLOBAL general_log = 1");
    ours_holds(o, &place);
    peer_does(p, "SET GLOBAL general_log = 0");
    EXPECT_STR(peer_asks(p, "SELECT count(*) FROM mysql.general_log WHERE "
                            "argument LIKE '%%business_code = %%FOR UPDATE%%'"),
               "0");
    EXPECT_STR(peer_asks(p, "SELECT count(*) FROM mysql.general_log WHERE "
                            "argument LIKE '%%id IN (%%FOR UPDATE%%'"),
               "1");
    EXPECT_EQ(ours_leave(o, &place), HF_GRANTED);
    ours_close(o);
    peer_close(p);
    ours_close(shed);
    sql_server_stop(s);
}

/* A hold that nobody renews is ended by the server, not by us: the process is
 * as good as dead, since nothing of it runs any more. */
static void held_locks_end_by_the_server(void)
{
    static const char *const queries[] = {"format=getlock", "format=rowlock"};
    sql_server *s = sql_server_start(ON_MARIADB, NULL);

    for (int i = 0; i < 2; i++) {
        ours *o = ours_open(URL(s, queries[i]), 20000);
        pid_t child = fork();

        EXPECT(child >= 0);
        if (child == 0) {
            ours *frozen = ours_open(URL(s, queries[i]), 1000);
            hf_place held = ours_place("job");

            ours_holds(frozen, &held);
            raise(SIGSTOP);
            _exit(0);
        }
        EXPECT(WAIT_FOR(waitpid(child, NULL, WUNTRACED | WNOHANG) == child,
                        PATIENCE_MS));
        EXPECT(WAIT_FOR(({
                            hf_place place = ours_place("job");

                            ours_join(o, &place, true) == 0 &&
                                ours_leave(o, &place) == HF_GRANTED;
                        }),
                        PATIENCE_MS));
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        ours_close(o);
    }
    sql_server_stop(s);
}

static const test_case cases[] = {
    TEST(spring_7_excludes_both_ways), TEST(spring_6_excludes_both_ways),
    TEST(spring_5_is_local_time),      TEST(shedlock_excludes_both_ways),
    TEST(getlock_excludes_both_ways),  TEST(getlock_by_madelsons_rule),
    TEST(rowlock_excludes_both_ways),  TEST(rowlock_on_any_table),
    TEST(rowlock_wants_a_whole_index), TEST(held_locks_end_by_the_server)};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "my_format", cases,
                     sizeof cases / sizeof *cases);
}
