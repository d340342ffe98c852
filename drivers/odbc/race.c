/* race.c - does this database really compare and set?
 *
 * Everything here stands on one thing: of two who change a row under a
 * condition that only one can meet, one meets it, and both see who.  For a
 * database that is reached through a driver that nobody of us knows, that is
 * tried, not believed: two connections on two threads, round after round, on a
 * row of our own in the table of values.
 *
 * A round: the row says N; one writes "N.a" where it still says N, the other
 * "N.b", at the same moment; each then reads who won.  If they disagree, one of
 * them was overwritten.  The row is removed at the end; should we be paused or
 * cut here, one idle row is left, which tidying removes like any value without
 * an owner. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "race.h"

typedef struct racer {
    const odbc_race *race;
    sql_conn *conn;
    char letter;
    sql_rows rows;
    char seen[40];
    sql_end end;
    hf_error err;
} racer;

struct odbc_race {
    pthread_barrier_t gate;
    atomic_bool over;
    char table[200], rid[23];
    unsigned round;
    hf_nsec deadline;
    racer two[2];
};

static void ask(racer *r, const char *text)
{
    if (r->end == SQL_DONE)
        r->end = odbc_say(r->conn, text, r->race->deadline, &r->rows, &r->err);
}

static void run_round(racer *r)
{
    const odbc_race *race = r->race;
    char text[400];

    r->end = SQL_DONE;
    r->seen[0] = '\0';
    snprintf(text, sizeof text,
             "UPDATE %s SET v = '%u.%c' WHERE rid = '%s' AND v = '%u'",
             race->table, race->round, r->letter, race->rid, race->round);
    ask(r, text);
    if (r->end == SQL_CLASH)
        r->end = SQL_DONE; /* not applied: the other one has won */
    snprintf(text, sizeof text, "SELECT v FROM %s WHERE rid = '%s'",
             race->table, race->rid);
    ask(r, text);
    if (r->end == SQL_DONE && sql_cell(&r->rows, 0, 0))
        snprintf(r->seen, sizeof r->seen, "%s", sql_cell(&r->rows, 0, 0));
}

/* The second thread: from gate to gate until it is over. */
static void *run_second(void *arg)
{
    odbc_race *race = arg;

    for (;;) {
        pthread_barrier_wait(&race->gate);
        if (atomic_load(&race->over))
            return NULL;
        run_round(&race->two[1]);
        pthread_barrier_wait(&race->gate);
    }
}

/* The row says the number of the round; false: the database refuses. */
static bool set_row(odbc_race *race)
{
    char text[400];

    race->two[0].end = SQL_DONE;
    snprintf(text, sizeof text, "UPDATE %s SET v = '%u' WHERE rid = '%s'",
             race->table, race->round, race->rid);
    ask(&race->two[0], text);
    return race->two[0].end == SQL_DONE;
}

static odbc_race_end judge_round(const odbc_race *race)
{
    const racer *a = &race->two[0], *b = &race->two[1];
    char begin[24];

    if (a->end != SQL_DONE || b->end != SQL_DONE)
        return ODBC_RACE_FAILED;
    snprintf(begin, sizeof begin, "%u.", race->round);
    if (strncmp(a->seen, begin, strlen(begin)) != 0 ||
        strcmp(a->seen, b->seen) != 0)
        return ODBC_RACE_LOST;
    return ODBC_RACE_FINE;
}

static odbc_race_end run_rounds(odbc_race *race, hf_nsec until)
{
    odbc_race_end end = ODBC_RACE_FINE;

    while (end == ODBC_RACE_FINE && race->round < ODBC_RACE_ROUNDS &&
           hfd_now() < until) {
        race->round++;
        if (!set_row(race))
            return ODBC_RACE_FAILED;
        pthread_barrier_wait(&race->gate);
        run_round(&race->two[0]);
        pthread_barrier_wait(&race->gate);
        end = judge_round(race);
    }
    return end;
}

/* On a row that is there. */
static odbc_race_end run_both(odbc_race *race, hf_nsec until)
{
    odbc_race_end end = ODBC_RACE_FAILED;
    sigset_t all, old;
    pthread_t second;
    int code;

    if (pthread_barrier_init(&race->gate, NULL, 2) != 0)
        return end;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    code = pthread_create(&second, NULL, run_second, race);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (code == 0) {
        end = run_rounds(race, until);
        atomic_store(&race->over, true);
        pthread_barrier_wait(&race->gate);
        pthread_join(second, NULL);
    }
    pthread_barrier_destroy(&race->gate);
    return end;
}

static odbc_race_end run_on_row(odbc_race *race, hf_nsec until)
{
    odbc_race_end end = ODBC_RACE_FAILED;
    char text[400];

    snprintf(text, sizeof text,
             "INSERT INTO %s(rid, v, used_us) VALUES ('%s', '0', 0)",
             race->table, race->rid);
    ask(&race->two[0], text);
    if (race->two[0].end != SQL_DONE)
        return end;
    end = run_both(race, until);
    race->two[0].end = SQL_DONE;
    snprintf(text, sizeof text, "DELETE FROM %s WHERE rid = '%s'", race->table,
             race->rid);
    ask(&race->two[0], text);
    return end;
}

odbc_race_end odbc_race_run(sql_conn *one, sql_conn *other, const char *table,
                            hf_nsec until, unsigned *ret_rounds, hf_error *err)
{
    odbc_race race = {.deadline = until + HF_MS(2000)};
    uint64_t draw;
    odbc_race_end end;

    hfd_random(&draw, sizeof draw);
    snprintf(race.rid, sizeof race.rid, "doctor%016llx",
             (unsigned long long)draw);
    snprintf(race.table, sizeof race.table, "%s", table);
    race.two[0] = (racer){.race = &race, .conn = one, .letter = 'a'};
    race.two[1] = (racer){.race = &race, .conn = other, .letter = 'b'};
    end = run_on_row(&race, until);
    *ret_rounds = race.round;
    *err = race.two[0].err.code ? race.two[0].err : race.two[1].err;
    for (int i = 0; i < 2; i++)
        sql_rows_done(&race.two[i].rows);
    return end;
}
