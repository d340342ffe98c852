/* tidy.c - what crashes leave behind, and keys that nobody uses any more.
 *
 * Done now and then by who renews or attaches, a bounded piece at a time, after
 * its own answer is known; a failure here is nobody's failure, the next one
 * comes by.
 *
 * Sessions that are over are evicted; queues that nobody has touched for long
 * lose what belongs to sessions without a row; and a queue that is empty is
 * purged.  Before that the floor is raised to the largest counter that goes:
 * a row made anew begins behind the floor, which it reads under a share lock,
 * so numbers never come twice.  The purge judges each row as it is then: one
 * that was used meanwhile stays.
 *
 * Two of us here: evictions and cuts are of exact things; a purge that meets
 * another purge deletes what is left. */
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

static bool evict_stale(sql_use *use)
{
    char number[SQL_NUMBER_MAX];
    const char *params[] = {sql_number_text(STALE_US, number)};
    sql_rows rows;
    bool done = sql_run(use, SQL_STALE, params);

    rows = take_rows(use);
    for (size_t i = 0; done && i < rows.rows; i++) {
        const char *sid = sql_cell(&rows, i, 0);
        bool gone;
        hf_id id;

        if (sid && sql_id_from(sid, strlen(sid), &id))
            done = sql_evict(use, &id, 0, &gone);
    }
    sql_rows_done(&rows);
    return done;
}

/* An observer has to see them all, again and again. */
static bool evict_silent(sql_use *use)
{
    sql_rows rows;
    hf_nsec sent = hfd_now();
    bool done = sql_run(use, SQL_OVER, NULL);

    rows = take_rows(use);
    for (size_t i = 0; done && i < rows.rows && i < SQL_SEEN / 2; i++) {
        const char *sid = sql_cell(&rows, i, 0);
        int64_t version = sql_number(&rows, i, 1, 0);
        int64_t ttl = sql_span(&rows, i, 2, 0);
        bool gone;
        hf_id id;

        if (!sid || !sql_id_from(sid, strlen(sid), &id) || ttl <= 0)
            continue;
        sql_seen_note(use->store, &id, version, ttl, ttl, sent);
        if (sql_seen_left(sql_native_of(use->store), &id) == 0)
            done = sql_evict(use, &id, version, &gone);
    }
    sql_rows_done(&rows);
    return done;
}

/* Tombs of sessions that are over: "RID.SID;". */
static bool clear_tombs(sql_use *use, const char *hex, const char *tombs)
{
    for (const char *at = tombs; at && *at;) {
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

/* One idle queue that is not empty. */
static bool clear_queue(sql_use *use, const char *hex, const char *tombs)
{
    sql_queue queue = {.there = false};
    bool done = sql_queue_look(use, hex, &queue) &&
                sql_drop_dead(use, hex, &queue, true, NULL, NULL);

    sql_queue_done(&queue);
    return done && clear_tombs(use, hex, tombs);
}

/* Up to SQL_MANY idle queues, from rows[*io] on. */
static bool purge_piece(sql_use *use, const sql_rows *rows, size_t *io)
{
    char idle[SQL_NUMBER_MAX], floor[SQL_NUMBER_MAX];
    const char *params[SQL_MANY + 2], *raise[] = {floor};
    int64_t highest = 0;
    size_t n = 0;

    for (; *io < rows->rows && n < SQL_MANY; ++*io) {
        const char *hex = sql_cell(rows, *io, 0);
        const char *body = sql_cell(rows, *io, 2);
        const char *tombs = sql_cell(rows, *io, 3);
        int64_t counter = sql_number(rows, *io, 1, 0);

        if (!hex)
            continue;
        if (((body && body[0]) || (tombs && tombs[0])) &&
            !clear_queue(use, hex, tombs))
            return false;
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
    bool done = sql_run(use, SQL_IDLE, params);

    rows = take_rows(use);
    for (unsigned i = 0; done && i < PIECES && at < rows.rows; i++)
        done = purge_piece(use, &rows, &at);
    sql_rows_done(&rows);
    return done;
}

/* Values whose entry is in no queue. */
static bool drop_old_values(sql_use *use)
{
    char number[SQL_NUMBER_MAX];
    const char *params[] = {sql_number_text(VALUE_US, number)};
    sql_rows rows;
    bool done = sql_run(use, SQL_VALUES_OLD, params);

    rows = take_rows(use);
    for (size_t i = 0; done && i < rows.rows && i < SQL_MANY; i++) {
        const char *rid[] = {sql_cell(&rows, i, 0)};

        if (!rid[0])
            continue;
        done = sql_run(use, SQL_MINE, rid);
        if (done && use->rows.rows == 0)
            done = sql_run(use, SQL_VALUE_DROP, rid);
    }
    sql_rows_done(&rows);
    return done;
}

void sql_tidy(sql_use *use)
{
    bool done = use->store->observer ? evict_silent(use)
                                     : evict_stale(use) &&
                                           (!use->store->port->dialect->share ||
                                            purge_idle(use)) &&
                                           drop_old_values(use);

    if (!done)
        hfd_log(HF_LOG_DEBUG, "%s: tidying stopped: %s",
                use->store->port->class->driver, use->err.text);
    /* Whatever it met, the operation that brought us here is done. */
    use->err = (hf_error){.code = 0};
}
