/* format_test.c - other libraries' locks in PostgreSQL, and ours, on one row.
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
#define UTC "timezone('utc', clock_timestamp())"
#define IN_30 UTC " + interval '30 seconds'"
#define AGO_10 UTC " - interval '10 seconds'"

/* ---- spring ------------------------------------------------------------- */

/* Generation c: the end is in the row. */
static void spring_7_excludes_both_ways(void)
{
    sql_server *s = sql_server_start(ON_POSTGRES, NULL);
    ours *o = ours_open(URL(s, "format=spring"), 20000);
    peer *p = peer_open(o);
    hf_place place = ours_place("my-lock"), waits = ours_place("my-lock");

    ours_holds(o, &place);
    EXPECT_STR(peer_asks(p, "SELECT lock_key FROM int_lock"), my_lock);
    EXPECT_EQ(strlen(peer_asks(p, "SELECT client_id FROM int_lock")), 36);
    EXPECT(peer_sees(
        p, "SELECT region = 'DEFAULT' AND expired_after BETWEEN " UTC
           " + interval '10 s' AND " UTC " + interval '20 s'"
           " AND created_date BETWEEN " AGO_10 " AND " UTC " FROM int_lock"));
    EXPECT_EQ(spring_update_7(p, "INT_LOCK", my_lock, UTC, IN_30), 0);
    EXPECT_EQ(spring_insert_7(p, "INT_LOCK", my_lock, UTC, IN_30), SQL_CLASH);
    EXPECT_EQ(spring_delete(p, "INT_LOCK", my_lock), 0);
    EXPECT_EQ(ours_renew(o, &place), HF_GRANTED);
    EXPECT(place.remaining > HF_MS(15000));
    EXPECT_EQ(ours_leave(o, &place), HF_GRANTED);
    EXPECT_STR(peer_asks(p, "SELECT count(*) FROM int_lock"), "0");

    EXPECT_EQ(spring_insert_7(p, "INT_LOCK", my_lock, UTC, IN_30), SQL_DONE);
    ours_is_refused(o, "my-lock");
    ours_waits(o, &waits);
    EXPECT_EQ(ours_look(o, &waits), HF_WAITS);
    EXPECT_EQ(spring_delete(p, "INT_LOCK", my_lock), 1);
    EXPECT_EQ(ours_look(o, &waits), HF_GRANTED);
    EXPECT_EQ(ours_leave(o, &waits), HF_GRANTED);
    peer_close(p);
    ours_close(o);
    sql_server_stop(s);
}

static void spring_7_changes_hands(void)
{
    sql_server *s = sql_server_start(ON_POSTGRES, NULL);
    ours *o = ours_open(URL(s, "format=spring"), 20000);
    peer *p = peer_open(o);
    hf_place place = ours_place("my-lock");

    /* Theirs ran out: it is ours, and their unlock finds nothing. */
    EXPECT_EQ(spring_insert_7(p, "INT_LOCK", my_lock, UTC, AGO_10), SQL_DONE);
    ours_holds(o, &place);
    EXPECT_EQ(spring_delete(p, "INT_LOCK", my_lock), 0);
    /* Ours ran out: it is theirs, and we do not touch it. */
    EXPECT_EQ(peer_does(p, "UPDATE int_lock SET expired_after = " AGO_10), 1);
    EXPECT_EQ(spring_update_7(p, "INT_LOCK", my_lock, UTC, IN_30), 1);
    ours_is_told(o, &place);
    EXPECT_EQ(spring_delete(p, "INT_LOCK", my_lock), 1);
    /* Ours ran out, and nobody wanted it: it is over all the same. */
    place = ours_place("my-lock");
    ours_holds(o, &place);
    EXPECT_EQ(peer_does(p, "UPDATE int_lock SET expired_after = " AGO_10), 1);
    ours_is_told(o, &place);
    EXPECT_STR(peer_asks(p, "SELECT count(*) FROM int_lock"), "0");
    peer_close(p);
    ours_close(o);
    sql_server_stop(s);
}

/* Generation b: the beginning is in the row, the time to live is theirs; ours
 * lies so that both come to the same end. */
static void spring_6_excludes_both_ways(void)
{
    sql_server *s = sql_server_start(ON_POSTGRES, NULL);
    ours *o = ours_open(
        URL(s, "format=spring&generation=b&ttl_ms=10000&client_id=me"), 20000);
    peer *p = peer_open(o);
    hf_place place = ours_place("my-lock");

    ours_holds(o, &place);
    EXPECT(peer_sees(
        p, "SELECT client_id LIKE 'me:%' AND created_date BETWEEN " UTC
           " AND " UTC " + interval '10 s' FROM int_lock"));
    EXPECT_EQ(spring_update_6(p, "INT_LOCK", my_lock, UTC, AGO_10), 0);
    EXPECT_EQ(spring_insert_6(p, "INT_LOCK", my_lock, UTC), SQL_CLASH);
    EXPECT_EQ(ours_renew(o, &place), HF_GRANTED);
    /* 25 seconds later, as they see it: robbed. */
    EXPECT_EQ(peer_does(p, "UPDATE int_lock SET created_date = created_date - "
                           "interval '25 s'"),
              1);
    EXPECT_EQ(spring_update_6(p, "INT_LOCK", my_lock, UTC, AGO_10), 1);
    ours_is_told(o, &place);
    ours_is_refused(o, "my-lock");
    EXPECT_EQ(peer_does(p, "UPDATE int_lock SET created_date = " UTC
                           " - interval '10.1 s'"),
              1);
    place = ours_place("my-lock");
    ours_holds(o, &place);
    EXPECT_EQ(ours_leave(o, &place), HF_GRANTED);
    peer_close(p);
    ours_close(o);
    ours_cannot_open(URL(s, "format=spring&generation=c"), HF_EPROTO,
                     "EXPIRED_AFTER");
    sql_server_stop(s);
}

#define KOLKATA "(clock_timestamp() AT TIME ZONE 'Asia/Kolkata')"
/* Generation a: local time.  Offsets count to the east, unlike POSIX's. */
static void local_time_of(sql_server *s, const char *options)
{
    ours *o = ours_open(URL(s, options), 10000);
    peer *p = peer_open(o);
    hf_place place = ours_place("my-lock");

    ours_holds(o, &place);
    EXPECT(peer_sees(p, "SELECT created_date BETWEEN " KOLKATA
                        " - interval '5 s' AND " KOLKATA " FROM int_lock"));
    EXPECT(!spring_update_6(p, "INT_LOCK", my_lock, KOLKATA,
                            KOLKATA " - interval '10 s'"));
    EXPECT_EQ(ours_leave(o, &place), HF_GRANTED);
    EXPECT_EQ(spring_insert_6(p, "INT_LOCK", my_lock, KOLKATA), SQL_DONE);
    ours_is_refused(o, "my-lock");
    EXPECT_EQ(peer_does(p, "DELETE FROM int_lock"), 1);
    peer_close(p);
    ours_close(o);
}

static void spring_5_is_local_time(void)
{
    sql_server *s = sql_server_start(ON_POSTGRES, NULL);

    local_time_of(s, "format=spring&generation=a&zone=Asia/Kolkata");
    local_time_of(s, "format=spring&generation=a&zone=%2B05:30");
    ours_cannot_open(URL(s, "format=spring&generation=a"), HF_EURL, "zone");
    ours_cannot_open(URL(s, "format=spring&zone=UTC"), HF_EURL, "generation=a");
    ours_cannot_open(URL(s, "format=spring&generation=a&zone=No/Where"),
                     HF_EURL, "No/Where");
    ours_cannot_open(URL(s, "format=spring&generation=a&zone=GMT%2B05:30"),
                     HF_EURL, "write '+05:30'");
    ours_cannot_open(URL(s, "format=spring&create=no&prefix=other_"), HF_EPROTO,
                     "other_LOCK");
    sql_server_stop(s);
}

/* ---- dlock -------------------------------------------------------------- */

static sql_end dlock_insert(peer *p, const char *handle, const char *created,
                            int seconds)
{
    return peer_try(p,
                    "INSERT INTO \"DLCK\" (\"LCK_KEY\", \"LCK_HNDL_ID\", "
                    "\"CREATED_TIME\", \"EXPIRE_SEC\") VALUES ('job', '%s', "
                    "%s, %d) ON CONFLICT DO NOTHING",
                    handle, created, seconds);
}

#define DLOCK_IS_OVER                                                          \
    "SELECT \"CREATED_TIME\" + \"EXPIRE_SEC\" * interval '1 s' < "             \
    "CURRENT_TIMESTAMP FROM \"DLCK\" WHERE \"LCK_KEY\" = 'job'"

static void dlock_excludes_both_ways(void)
{
    sql_server *s = sql_server_start(ON_POSTGRES, NULL);
    ours *o = ours_open(URL(s, "format=dlock&zone=Europe/Berlin"), 2500);
    peer *p = peer_open(o);
    hf_place place = ours_place("job"), waits = ours_place("job");
    char handle[120];

    peer_does(p, "SET TIME ZONE 'Europe/Berlin'"); /* as the JVM's driver */
    ours_holds(o, &place);
    EXPECT_EQ(dlock_insert(p, "theirs", "CURRENT_TIMESTAMP", 30), SQL_DONE);
    EXPECT_EQ(p->rows.affected, 0);
    EXPECT(!peer_sees(p, DLOCK_IS_OVER));
    EXPECT_STR(peer_asks(p, "SELECT \"EXPIRE_SEC\" FROM \"DLCK\""), "3");
    /* They read it, we renew, they delete what they read: nothing. */
    snprintf(handle, sizeof handle, "%s",
             peer_asks(p, "SELECT \"LCK_HNDL_ID\" FROM \"DLCK\""));
    EXPECT_EQ(ours_renew(o, &place), HF_GRANTED);
    EXPECT_EQ(peer_does(p, "DELETE FROM \"DLCK\" WHERE \"LCK_HNDL_ID\" = '%s'",
                        handle),
              0);
    EXPECT_EQ(ours_leave(o, &place), HF_GRANTED);
    EXPECT_STR(peer_asks(p, "SELECT count(*) FROM \"DLCK\""), "0");

    EXPECT_EQ(dlock_insert(p, "theirs", "CURRENT_TIMESTAMP", 30), SQL_DONE);
    EXPECT_EQ(p->rows.affected, 1);
    ours_is_refused(o, "job");
    ours_waits(o, &waits);
    EXPECT_EQ(peer_does(p, "DELETE FROM \"DLCK\" WHERE \"LCK_HNDL_ID\" = "
                           "'theirs'"),
              1);
    EXPECT_EQ(ours_look(o, &waits), HF_GRANTED);
    EXPECT_EQ(ours_leave(o, &waits), HF_GRANTED);
    peer_close(p);
    ours_close(o);
    sql_server_stop(s);
}

static void dlock_changes_hands(void)
{
    sql_server *s = sql_server_start(ON_POSTGRES, NULL);
    ours *o = ours_open(URL(s, "format=dlock&table=LOCKS"), 20000);
    peer *p = peer_open(o);
    hf_place place = ours_place("job");

    EXPECT_EQ(peer_does(p,
                        "INSERT INTO \"LOCKS\" VALUES ('job', 'theirs', " AGO_10
                        ", 9)"),
              1);
    ours_holds(o, &place);
    EXPECT_STR(peer_asks(p, "SELECT count(*) FROM \"LOCKS\""), "1");
    EXPECT_EQ(peer_does(p, "DELETE FROM \"LOCKS\" WHERE \"LCK_HNDL_ID\" = "
                           "'theirs'"),
              0);
    /* Ours ran out: they delete it by its handle and insert their own. */
    EXPECT_EQ(peer_does(p, "UPDATE \"LOCKS\" SET \"CREATED_TIME\" = " UTC
                           " - interval '1 day'"),
              1);
    EXPECT_EQ(peer_does(p, "DELETE FROM \"LOCKS\""), 1);
    EXPECT_EQ(peer_does(p, "INSERT INTO \"LOCKS\" VALUES ('job', 'theirs', " UTC
                           ", 30)"),
              1);
    ours_is_told(o, &place);
    EXPECT_STR(peer_asks(p, "SELECT \"LCK_HNDL_ID\" FROM \"LOCKS\""), "theirs");
    peer_close(p);
    ours_close(o);
    ours_cannot_open(URL(s, "format=dlock&zone=No/Where"), HF_EURL, "No/Where");
    sql_server_stop(s);
}

/* ---- shedlock ----------------------------------------------------------- */

#define SHED_UTC "timezone('utc', CURRENT_TIMESTAMP)"

static long long shed_lock(peer *p)
{
    return peer_does(
        p, "INSERT INTO shedlock(name, lock_until, locked_at, locked_by) "
           "VALUES('job', " SHED_UTC " + interval '60 s', " SHED_UTC
           ", 'theirs') ON CONFLICT (name) DO UPDATE SET lock_until = " SHED_UTC
           " + interval '60 s', locked_at = " SHED_UTC ", locked_by = 'theirs' "
           "WHERE shedlock.name = 'job' AND shedlock.lock_until <= " SHED_UTC);
}

static long long shed_unlock(peer *p)
{
    return peer_does(p, "UPDATE shedlock SET lock_until = " SHED_UTC
                        " WHERE name = 'job' AND locked_by = 'theirs'");
}

static void shedlock_excludes_both_ways(void)
{
    sql_server *s = sql_server_start(ON_POSTGRES, NULL);
    ours *o = ours_open(URL(s, "format=shedlock&locked_by=me"), 20000);
    peer *p = peer_open(o);
    hf_place place = ours_place("job");

    ours_holds(o, &place);
    EXPECT(peer_sees(p,
                     "SELECT locked_by LIKE 'me/%' AND lock_until BETWEEN " UTC
                     " + interval '10 s' AND " UTC " + interval '20 s' "
                     "FROM shedlock"));
    EXPECT_EQ(shed_lock(p), 0);
    EXPECT_EQ(shed_unlock(p), 0);
    EXPECT_EQ(ours_renew(o, &place), HF_GRANTED);
    EXPECT_EQ(ours_leave(o, &place), HF_GRANTED);
    /* The row stays: they remember that it exists. */
    EXPECT_STR(peer_asks(p, "SELECT count(*) FROM shedlock"), "1");
    EXPECT_EQ(shed_lock(p), 1);
    ours_is_refused(o, "job");
    EXPECT_EQ(shed_unlock(p), 1);

    /* at least: ours no more, and nobody else's either. */
    place = ours_place("job");
    ours_holds(o, &place);
    EXPECT_EQ(ours_leave_keep(o, &place, 15000), HF_GRANTED);
    EXPECT_EQ(ours_leave(o, &place), HF_GONE);
    EXPECT_EQ(shed_lock(p), 0);
    EXPECT(peer_sees(p, "SELECT lock_until < " UTC " + interval '16 s' FROM "
                        "shedlock"));
    EXPECT_EQ(peer_does(p, "UPDATE shedlock SET lock_until = " AGO_10), 1);

    /* Ran out: changes hands, and nobody touches the other's. */
    place = ours_place("job");
    ours_holds(o, &place);
    EXPECT_EQ(peer_does(p, "UPDATE shedlock SET lock_until = " AGO_10), 1);
    EXPECT_EQ(shed_lock(p), 1);
    ours_is_told(o, &place);
    ours_is_refused(o, "job");
    peer_close(p);
    ours_close(o);
    sql_server_stop(s);
}

/* ---- advisory ----------------------------------------------------------- */

#define HASHED "(('x' || left(md5('job'), 16))::bit(64)::bigint)"

static void advisory_excludes_both_ways(void)
{
    sql_server *s = sql_server_start(ON_POSTGRES, NULL);
    ours *o = ours_open(URL(s, "format=advisory"), 20000);
    peer *p = peer_open(o);
    hf_place place = ours_place("job"), waits = ours_place("job");
    hf_place one = ours_place("job"), two = ours_place("job");

    ours_holds(o, &place);
    ours_waits(o, &waits); /* the same connection is not a way around it */
    EXPECT(!peer_sees(p, "SELECT pg_try_advisory_lock" HASHED));
    EXPECT(!peer_sees(p, "SELECT pg_try_advisory_lock_shared" HASHED));
    EXPECT_EQ(ours_renew(o, &place), HF_GRANTED);
    EXPECT_EQ(ours_leave(o, &place), HF_GRANTED);
    EXPECT(peer_sees(p, "SELECT pg_try_advisory_lock" HASHED));
    EXPECT_EQ(ours_look(o, &waits), HF_WAITS);
    EXPECT(peer_sees(p, "SELECT pg_advisory_unlock" HASHED));
    EXPECT_EQ(ours_look(o, &waits), HF_GRANTED);
    EXPECT_EQ(ours_leave(o, &waits), HF_GRANTED);

    one.mode = two.mode = HF_SHARED;
    ours_holds(o, &one);
    ours_holds(o, &two);
    EXPECT(peer_sees(p, "SELECT pg_try_advisory_lock_shared" HASHED));
    EXPECT(!peer_sees(p, "SELECT pg_try_advisory_lock" HASHED));
    ours_is_refused(o, "job");
    EXPECT(peer_sees(p, "SELECT pg_advisory_unlock_shared" HASHED));
    EXPECT_EQ(ours_leave(o, &one), HF_GRANTED);
    EXPECT(!peer_sees(p, "SELECT pg_try_advisory_lock" HASHED));
    EXPECT_EQ(ours_leave(o, &two), HF_GRANTED);
    EXPECT(peer_sees(p, "SELECT pg_try_advisory_lock" HASHED));
    peer_close(p);
    ours_close(o);
    sql_server_stop(s);
}

static void advisory_by_madelsons_rule(void)
{
    sql_server *s = sql_server_start(ON_POSTGRES, NULL);
    ours *o = ours_open(URL(s, "format=advisory&key_rule=madelson"), 20000);
    peer *p = peer_open(o);
    hf_place one = ours_place("my-lock"), two = ours_place("order-processing");

    ours_holds(o, &one);
    ours_holds(o, &two);
    EXPECT(!peer_sees(p, "SELECT pg_try_advisory_lock(-605720883, "
                         "-118112257)"));
    EXPECT(!peer_sees(p, "SELECT pg_try_advisory_lock(8898162508575848333)"));
    EXPECT_EQ(ours_leave(o, &one), HF_GRANTED);
    EXPECT_EQ(ours_leave(o, &two), HF_GRANTED);
    EXPECT(peer_sees(p, "SELECT pg_try_advisory_lock(-605720883, "
                        "-118112257)"));
    ours_is_refused(o, "my-lock");
    peer_close(p);
    ours_close(o);
    ours_cannot_open(URL(s, "format=advisory&key_rule=none"), HF_EURL,
                     "key_rule");
    sql_server_stop(s);
}

/* The connection ends, and all that it held: told at once, without a
 * renewal. */
static void advisory_is_lost_with_its_connection(void)
{
    sql_server *s = sql_server_start(ON_POSTGRES, NULL);
    ours *o = ours_open(URL(s, "format=advisory"), 20000);
    peer *p = peer_open(o);
    hf_place one = ours_place("job"), two = ours_place("other");

    ours_holds(o, &one);
    ours_holds(o, &two);
    EXPECT(peer_sees(p, "SELECT count(pg_terminate_backend(pid)) > 0 FROM "
                        "pg_locks WHERE locktype = 'advisory'"));
    EXPECT(WAIT_FOR(atomic_load(&o->lost) == 2, PATIENCE_MS));
    ours_is_told(o, &one);
    EXPECT(peer_sees(p, "SELECT pg_try_advisory_lock" HASHED));
    ours_is_refused(o, "job");
    EXPECT_EQ(ours_leave(o, &two), HF_GONE);
    two = ours_place("other");
    ours_holds(o, &two); /* on a new connection */
    EXPECT_EQ(ours_leave(o, &two), HF_GRANTED);
    peer_close(p);
    ours_close(o);
    sql_server_stop(s);
}

/* ---- rowlock ------------------------------------------------------------ */

static sql_end select_for_update(peer *p)
{
    return peer_try(p, "SELECT * FROM distribute_lock WHERE business_code = "
                       "'job' FOR UPDATE NOWAIT");
}

static void rowlock_excludes_both_ways(void)
{
    sql_server *s = sql_server_start(ON_POSTGRES, NULL);
    ours *o = ours_open(URL(s, "format=rowlock"), 20000);
    peer *p = peer_open(o);
    hf_place place = ours_place("job"), other = ours_place("it's"), waits;

    ours_holds(o, &place);
    ours_holds(o, &other);
    peer_does(p, "BEGIN");
    EXPECT_EQ(select_for_update(p), SQL_CLASH);
    peer_does(p, "ROLLBACK");
    EXPECT_EQ(ours_renew(o, &place), HF_GRANTED);
    EXPECT_EQ(ours_leave(o, &place), HF_GRANTED);
    EXPECT_EQ(ours_leave(o, &other), HF_GRANTED);

    peer_does(p, "SET idle_in_transaction_session_timeout = 0");
    peer_does(p, "BEGIN");
    EXPECT_EQ(select_for_update(p), SQL_DONE);
    EXPECT_EQ(p->rows.rows, 1);
    ours_is_refused(o, "job");
    waits = ours_place("job");
    ours_waits(o, &waits);
    peer_does(p, "COMMIT");
    EXPECT_EQ(ours_look(o, &waits), HF_GRANTED);
    /* Their next one finds a dead owner's row free, and ours is told. */
    EXPECT(peer_sees(p, "SELECT count(pg_terminate_backend(pid)) = 1 FROM "
                        "pg_stat_activity WHERE state = 'idle in transaction' "
                        "AND pid <> pg_backend_pid()"));
    EXPECT(WAIT_FOR(atomic_load(&o->lost) == 1, PATIENCE_MS));
    ours_is_told(o, &waits);
    peer_close(p);
    ours_close(o);
    sql_server_stop(s);
}

/* A hold that nobody renews is ended by the server, not by us: the process is
 * as good as dead, since nothing of it runs any more. */
static void held_locks_end_by_the_server(void)
{
    static const char *const queries[] = {"format=advisory", "format=rowlock"};
    sql_server *s = sql_server_start(ON_POSTGRES, NULL);

    for (int i = 0; i < 2; i++) {
        ours *o = ours_open(URL(s, queries[i]), 20000);
        peer *p = peer_open(o);
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
        peer_close(p);
        ours_close(o);
    }
    sql_server_stop(s);
}

static const test_case cases[] = {TEST(spring_7_excludes_both_ways),
                                  TEST(spring_7_changes_hands),
                                  TEST(spring_6_excludes_both_ways),
                                  TEST(spring_5_is_local_time),
                                  TEST(dlock_excludes_both_ways),
                                  TEST(dlock_changes_hands),
                                  TEST(shedlock_excludes_both_ways),
                                  TEST(advisory_excludes_both_ways),
                                  TEST(advisory_by_madelsons_rule),
                                  TEST(advisory_is_lost_with_its_connection),
                                  TEST(rowlock_excludes_both_ways),
                                  TEST(held_locks_end_by_the_server)};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "format", cases, sizeof cases / sizeof *cases);
}
