/* tidy.c - what crashes leave behind, and keys that nobody uses any more.
 *
 * Done now and then by who renews or attaches, a bounded piece at a time, after
 * its own answer is known; a failure here is nobody's failure, the next one
 * comes by.  Nor may its slowness be: no statement is begun when half of the
 * operation's time is over, because one that its deadline cuts off costs the
 * connection, and that makes every hold doubtful.
 *
 * Sessions that are over are evicted; queues that nobody has touched for long
 * lose what belongs to sessions without a row; and a queue that is empty is
 * purged.  Before that the floor is raised to the largest counter that goes:
 * a row made anew begins behind the floor, which it reads under a share lock,
 * so numbers never come twice.  The purge judges each row as it is then: one
 * that was used meanwhile stays.
 *
 * What is looked at and stays (a lock that is held for days) must not stand
 * before what can go: such rows are visited in the order of their keys, each
 * time on from the last, and each time another chore is the first.
 *
 * Two of us here: evictions and cuts are of exact things; a purge that meets
 * another purge deletes what is left. */
#include <stdio.h>
#include <string.h>

#include "native.h"

#define STALE_US INT64_C(60000000)   /* a session, after its end */
#define IDLE_US INT64_C(300000000)   /* a queue, since it was used */
#define VALUE_US INT64_C(3600000000) /* a value, since it was set */
enum { PIECES = 8 };                 /* of SQL_MANY queues each */

/* Cells that must outlive the next statement. */
static sql_rows take_rows(sql_use *use)
{
    sql_rows rows = use->rows;

    use->rows = (sql_rows){.rows = 0};
    return rows;
}

/* Is the first half of the operation's time not over yet? */
static bool has_time(const sql_use *use)
{
    const hf_op *op = use->op;

    return hfd_now() < op->sent + (op->deadline - op->sent) / 2;
}

/* How far the last one came; two who tidy at once do the same piece. */
static void take_mark(sql_native_data *data, const char *mark, char *ret,
                      size_t size)
{
    pthread_mutex_lock(&data->mu);
    memcpy(ret, mark, size);
    pthread_mutex_unlock(&data->mu);
}

static void put_mark(sql_native_data *data, char *mark, const char *at,
                     size_t size)
{
    pthread_mutex_lock(&data->mu);
    memcpy(mark, at, size);
    pthread_mutex_unlock(&data->mu);
}

/* ---- Sessions that are over --------------------------------------------- */

static bool evict_stale(sql_use *use)
{
    char number[SQL_NUMBER_MAX];
    const char *params[] = {sql_number_text(STALE_US, number)};
    sql_rows rows;
    bool done = sql_run(use, SQL_STALE, params);

    rows = take_rows(use);
    for (size_t i = 0; done && i < rows.rows && has_time(use); i++) {
        const char *sid = sql_cell(&rows, i, 0);
        bool gone;
        hf_id id;

        if (sid && sql_id_from(sid, strlen(sid), &id))
            done = sql_evict(use, &id, 0, &gone);
    }
    sql_rows_done(&rows);
    return done;
}

/* An observer judges what he has seen twice: each piece is looked at by two
 * tidyings, one behind the other, before the next one is; of more he could not
 * remember what he saw. */
static void turn_page(sql_native_data *data, const char *last)
{
    pthread_mutex_lock(&data->mu);
    if (!last[0] || data->tidy.seen_once)
        memcpy(data->tidy.session, last, sizeof data->tidy.session);
    data->tidy.seen_once = last[0] && !data->tidy.seen_once;
    pthread_mutex_unlock(&data->mu);
}

static bool evict_silent(sql_use *use)
{
    sql_native_data *data = sql_native_of(use->store);
    char at[SQL_ID_LEN + 1], last[SQL_ID_LEN + 1] = "";
    const char *params[] = {at};
    hf_nsec sent = hfd_now();
    sql_rows rows;
    bool done;

    take_mark(data, data->tidy.session, at, sizeof at);
    done = sql_run(use, SQL_OVER, params);
    rows = take_rows(use);
    for (size_t i = 0;
         done && i < rows.rows && i < SQL_SEEN / 2 && has_time(use); i++) {
        const char *sid = sql_cell(&rows, i, 0);
        int64_t version = sql_number(&rows, i, 1, 0);
        int64_t ttl = sql_span(&rows, i, 2, 0);
        bool gone;
        hf_id id;

        if (!sid)
            continue;
        snprintf(last, sizeof last, "%s", sid);
        if (!sql_id_from(sid, strlen(sid), &id) || ttl <= 0)
            continue;
        sql_seen_note(use->store, &id, version, ttl, ttl, sent);
        if (sql_seen_left(data, &id) == 0)
            done = sql_evict(use, &id, version, &gone);
    }
    sql_rows_done(&rows);
    if (done)
        turn_page(data, last);
    return done;
}

/* Tombs of sessions that are over: "RID.SID;". */
static bool clear_tombs(sql_use *use, const char *hex, const char *tombs)
{
    for (const char *at = tombs; at && *at && has_time(use);) {
        char text[2 * SQL_ID_LEN + 3];
        const char *untomb[] = {hex, text}, *session[] = {NULL};
        const char *end = strchr(at, ';');

        if (!end || end - at != 2 * SQL_ID_LEN + 1)
            return true;
        memcpy(text, at, (size_t)(end - at));
        text[end - at] = '\0';
        at = end + 1;
        session[0] = text + SQL_ID_LEN + 1;
        if (!sql_run(use, SQL_SESSION, session))
            return false;
        if (use->rows.rows > 0)
            continue;
        memcpy(text + 2 * SQL_ID_LEN + 1, ";", 2);
        if (!sql_run(use, SQL_UNTOMB, untomb))
            return false;
    }
    return true;
}

/* ---- Idle queues -------------------------------------------------------- */

/* One that is not empty. */
static bool clear_queue(sql_use *use, const char *hex, const char *tombs)
{
    sql_queue queue = {.there = false};
    bool done = sql_queue_look(use, hex, &queue) &&
                sql_drop_dead(use, hex, &queue, true, NULL, NULL);

    sql_queue_done(&queue);
    return done && clear_tombs(use, hex, tombs);
}

static bool visit_idle(sql_use *use)
{
    sql_native_data *data = sql_native_of(use->store);
    char number[SQL_NUMBER_MAX], at[SQL_HEX_MAX];
    const char *params[] = {sql_number_text(IDLE_US, number), at};
    sql_rows rows;
    bool done;

    take_mark(data, data->tidy.key, at, sizeof at);
    done = sql_run(use, SQL_IN_USE, params);
    rows = take_rows(use);
    if (done && rows.rows == 0)
        at[0] = '\0'; /* the end: from the first again */
    for (size_t i = 0; done && i < rows.rows && has_time(use); i++) {
        const char *hex = sql_cell(&rows, i, 0);

        if (!hex)
            continue;
        snprintf(at, sizeof at, "%s", hex);
        done = clear_queue(use, hex, sql_cell(&rows, i, 1));
    }
    sql_rows_done(&rows);
    put_mark(data, data->tidy.key, at, sizeof at);
    return done;
}

/* Up to SQL_MANY queues that were empty, from rows[*io] on. */
static bool purge_piece(sql_use *use, const sql_rows *rows, size_t *io)
{
    char idle[SQL_NUMBER_MAX], floor[SQL_NUMBER_MAX];
    const char *params[SQL_MANY + 2], *raise[] = {floor};
    int64_t highest = 0;
    size_t n = 0;

    for (; *io < rows->rows && n < SQL_MANY; ++*io) {
        const char *hex = sql_cell(rows, *io, 0);
        int64_t counter = sql_number(rows, *io, 1, 0);

        if (!hex)
            continue;
        params[n++] = hex;
        if (counter > highest)
            highest = counter;
    }
    if (n == 0)
        return true;
    for (size_t i = n; i < SQL_MANY; i++)
        params[i] = params[n - 1];
    params[SQL_MANY] = sql_number_text(highest, floor);
    params[SQL_MANY + 1] = sql_number_text(IDLE_US, idle);
    return sql_run(use, SQL_FLOOR, raise) && sql_run(use, SQL_PURGE, params);
}

static bool purge_idle(sql_use *use)
{
    char number[SQL_NUMBER_MAX];
    const char *params[] = {sql_number_text(IDLE_US, number)};
    sql_rows rows;
    size_t at = 0;
    bool done;

    if (!use->store->port->dialect->share)
        return true; /* nobody could rely on the floor */
    done = sql_run(use, SQL_IDLE, params);
    rows = take_rows(use);
    for (unsigned i = 0; done && i < PIECES && at < rows.rows && has_time(use);
         i++)
        done = purge_piece(use, &rows, &at);
    sql_rows_done(&rows);
    return done;
}

/* ---- Values whose entry is in no queue ---------------------------------- */

static bool drop_old_values(sql_use *use)
{
    sql_native_data *data = sql_native_of(use->store);
    char number[SQL_NUMBER_MAX], at[SQL_ID_LEN + 1];
    const char *params[] = {sql_number_text(VALUE_US, number), at};
    sql_rows rows;
    bool done;

    take_mark(data, data->tidy.value, at, sizeof at);
    done = sql_run(use, SQL_VALUES_OLD, params);
    rows = take_rows(use);
    if (done && rows.rows == 0)
        at[0] = '\0';
    for (size_t i = 0; done && i < rows.rows && i < SQL_MANY && has_time(use);
         i++) {
        const char *rid[] = {sql_cell(&rows, i, 0)};

        if (!rid[0])
            continue;
        snprintf(at, sizeof at, "%s", rid[0]);
        done = sql_run(use, SQL_MINE, rid);
        if (done && use->rows.rows == 0)
            done = sql_run(use, SQL_VALUE_DROP, rid);
    }
    sql_rows_done(&rows);
    put_mark(data, data->tidy.value, at, sizeof at);
    return done;
}

/* ---- All of it ---------------------------------------------------------- */

static bool do_chores(sql_use *use)
{
    static bool (*const chores[])(sql_use *) = {evict_stale, purge_idle,
                                                drop_old_values, visit_idle};
    enum { CHORES = sizeof chores / sizeof *chores };
    sql_native_data *data = sql_native_of(use->store);
    unsigned first;

    if (use->store->observer)
        return evict_silent(use);
    pthread_mutex_lock(&data->mu);
    first = data->tidy.turn++;
    pthread_mutex_unlock(&data->mu);
    for (unsigned i = 0; i < CHORES && has_time(use); i++) {
        if (!chores[(first + i) % CHORES](use))
            return false;
    }
    return true;
}

void sql_tidy(sql_use *use)
{
    bool done = do_chores(use);

    if (!done)
        hfd_log(HF_LOG_DEBUG, "%s: tidying stopped: %s",
                use->store->port->class->driver, use->err.text);
    /* Whatever it met, the operation that brought us here is done. */
    use->err = (hf_error){.code = 0};
}
