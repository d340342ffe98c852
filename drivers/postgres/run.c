/* run.c - one statement: sent, waited for, its rows copied.
 *
 * Answers: how did this statement end?  A statement of the list is prepared on
 * a connection when it is first used there, in the same round trip (libpq's
 * pipeline), and afterwards called by name: one send, one wait, one receive.
 * Behind a pooler of transactions names mean nothing, since the next statement
 * may meet another server process: there the text goes along every time.
 *
 * Each statement is its own transaction; nothing is open between two calls, but
 * where that is asked for (pg_begin: locks that are transactions).
 * Reply lost, or the deadline passed after the first byte: SQL_LOST, and the
 * connection is marked, so that a late answer is never taken for the next
 * one's.  Only a connection that was known to be bad before anything was said
 * is SQL_BROKEN. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "postgres.h"

/* What came back so far. */
typedef struct answer {
    sql_end end;
    hf_error err;
    bool failed;   /* `end` and `err` are of an error of the server */
    unsigned good; /* results without an error */
    char state[6]; /* SQLSTATE of the error */
    sql_rows *rows;
} answer;

static sql_end broken(pg_conn *c, hf_error *err)
{
    c->broken = true;
    hfd_error(err, HF_EUNAVAIL, "postgres", 0,
              "the connection to %s is gone: it is made again",
              c->base.port->where);
    return SQL_BROKEN;
}

static sql_end lost(pg_conn *c, hf_error *err, const char *what)
{
    char line[PG_LINE];

    c->broken = true;
    pg_line(what, line);
    hfd_error(err, HF_EUNAVAIL, "postgres", 0,
              "the connection to %s was lost: %s", c->base.port->where, line);
    return SQL_LOST;
}

/* ---- The answer --------------------------------------------------------- */

static void copy_rows(const PGresult *r, sql_rows *to)
{
    const char *count = PQcmdTuples((PGresult *)r);
    int rows = PQntuples(r), cols = PQnfields(r);

    sql_rows_reset(to);
    for (int row = 0; row < rows; row++) {
        for (int col = 0; col < cols; col++) {
            if (PQgetisnull(r, row, col))
                sql_rows_add_null(to);
            else
                sql_rows_add(to, PQgetvalue(r, row, col),
                             (size_t)PQgetlength(r, row, col));
        }
        sql_rows_end_row(to);
    }
    to->affected = *count ? strtoll(count, NULL, 10) : -1;
}

static void take_result(pg_conn *c, const PGresult *r, answer *to)
{
    ExecStatusType status = PQresultStatus(r);

    if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK) {
        if (!to->failed)
            copy_rows(r, to->rows);
        to->good++;
    } else if (status != PGRES_PIPELINE_SYNC &&
               status != PGRES_PIPELINE_ABORTED && !to->failed) {
        const char *state = PQresultErrorField(r, PG_DIAG_SQLSTATE);

        to->failed = true;
        snprintf(to->state, sizeof to->state, "%s", state ? state : "");
        to->end = pg_judge(r, c->base.port->where, &to->err);
    }
}

/* libpq has read what it needs for the next result; false: the deadline. */
static bool wait_result(pg_conn *c, hf_nsec deadline)
{
    for (;;) {
        int more = PQflush(c->pg);
        short events = more > 0 ? POLLIN | POLLOUT : POLLIN;

        /* A failed write is told with the result, after what was read. */
        if (!PQisBusy(c->pg))
            return true;
        if (!pg_wait(PQsocket(c->pg), events, deadline))
            return false;
        if (!PQconsumeInput(c->pg))
            return true;
    }
}

/* All results up to the end of the exchange; false: the deadline. */
static bool take_results(pg_conn *c, bool piped, hf_nsec deadline, answer *to)
{
    bool over = false;

    while (!over) {
        PGresult *r;

        if (!wait_result(c, deadline))
            return false;
        r = PQgetResult(c->pg);
        if (!r) {
            over = !piped || PQstatus(c->pg) != CONNECTION_OK;
            continue;
        }
        take_result(c, r, to);
        over = PQresultStatus(r) == PGRES_PIPELINE_SYNC;
        PQclear(r);
    }
    if (piped && PQstatus(c->pg) == CONNECTION_OK && !PQexitPipelineMode(c->pg))
        c->broken = true;
    return true;
}

static void tell_doubt(pg_conn *c)
{
    sql_port *port = c->base.port;
    hf_error why;

    c->doubt = false;
    hfd_error(&why, HF_EUNAVAIL, "postgres", 0,
              "a commit at %s was not waited for at the standby: it may be "
              "lost in a failover",
              port->where);
    hfd_log(HF_LOG_WARN, "postgres: %s", why.text);
    if (port->doubt)
        port->doubt(port->store, &why);
}

static void forget_names(pg_conn *c)
{
    while (c->named_count > 0)
        hfd_free(c->named[--c->named_count].text);
}

/* The name is not known there, or somebody else's: another server process, so
 * a pooler stands between.  Or its plan is of tables that were made anew.  In
 * both cases nothing was done, and the next attempt goes another way. */
static bool is_about_names(pg_conn *c, const char *state)
{
    if (strcmp(state, "26000") == 0 || strcmp(state, "42P05") == 0)
        atomic_store(&((pg_port *)c->base.port)->pooled, true);
    else if (strcmp(state, "0A000") != 0)
        return false;
    forget_names(c);
    return true;
}

static sql_end finish(pg_conn *c, bool piped, hf_nsec deadline, answer *got,
                      hf_error *err)
{
    if (!take_results(c, piped, deadline, got))
        return lost(c, err, "no answer in time");
    if (c->doubt)
        tell_doubt(c);
    if (PQstatus(c->pg) != CONNECTION_OK && !got->failed)
        return lost(c, err, PQerrorMessage(c->pg));
    if (PQstatus(c->pg) != CONNECTION_OK || got->end == SQL_LOST ||
        got->end == SQL_BROKEN)
        c->broken = true;
    if (got->end == SQL_DONE && got->rows->failed) {
        c->broken = true;
        hfd_error(err, HF_ENOMEM, "postgres", 0,
                  "out of memory for the answer");
        return SQL_LOST;
    }
    if (got->failed && err)
        *err = got->err;
    return got->end;
}

/* ---- The question ------------------------------------------------------- */

/* The number of the statement on this connection; 0: it has none yet. */
static unsigned find_name(const pg_conn *c, const sql_text *text)
{
    for (unsigned i = 0; i < c->named_count; i++) {
        if (c->named[i].key == text &&
            strcmp(c->named[i].text, text->text) == 0)
            return c->named[i].number;
    }
    return 0;
}

/* Once the server has it; that outlives an error of the execution. */
static void note_name(pg_conn *c, const sql_text *text, unsigned number)
{
    size_t len = strlen(text->text) + 1;
    char *copy;

    if (c->named_count == PG_NAMED)
        return;
    copy = hfd_alloc(len);
    if (!copy)
        return;
    memcpy(copy, text->text, len);
    c->named[c->named_count].key = text;
    c->named[c->named_count].text = copy;
    c->named[c->named_count++].number = number;
}

typedef struct question {
    const sql_text *text;
    const char *values[SQL_PARAMS];
    bool begins;   /* behind a BEGIN, in the same round trip */
    bool is_new;   /* is given its name before */
    char name[16]; /* "": none */
} question;

static bool send_it(pg_conn *c, const question *q, bool piped)
{
    const sql_text *text = q->text;

    if (piped && !PQenterPipelineMode(c->pg))
        return false;
    if (q->begins &&
        !PQsendQueryParams(c->pg, "BEGIN", 0, NULL, NULL, NULL, NULL, 0))
        return false;
    if (q->is_new && !PQsendPrepare(c->pg, q->name, text->text, 0, NULL))
        return false;
    if (!(q->name[0] ? PQsendQueryPrepared(c->pg, q->name, text->count,
                                           q->values, NULL, NULL, 0)
                     : PQsendQueryParams(c->pg, text->text, text->count, NULL,
                                         q->values, NULL, NULL, 0)))
        return false;
    return !piped || PQpipelineSync(c->pg);
}

/* *ret_again: nothing was done, because of a name, and the next attempt goes
 * another way. */
static sql_end run_once(pg_conn *c, question *q, hf_nsec deadline,
                        sql_rows *ret, bool *ret_again, hf_error *err)
{
    unsigned number = find_name(c, q->text);
    bool named = !atomic_load(&((pg_port *)c->base.port)->pooled), piped;
    answer got = {.end = SQL_DONE, .rows = ret};
    sql_end end;

    *ret_again = false;
    sql_rows_reset(ret);
    if (c->broken || PQstatus(c->pg) != CONNECTION_OK)
        return broken(c, err);
    q->is_new = named && !number && c->named_count < PG_NAMED;
    if (q->is_new)
        number = ++c->number;
    q->name[0] = '\0';
    if (named && number)
        snprintf(q->name, sizeof q->name, "hf%u", number);
    piped = q->is_new || q->begins;
    if (!send_it(c, q, piped))
        return lost(c, err, PQerrorMessage(c->pg));
    end = finish(c, piped, deadline, &got, err);
    if (q->is_new && got.good > (q->begins ? 1 : 0))
        note_name(c, q->text, number);
    *ret_again = end == SQL_REFUSED && named && is_about_names(c, got.state);
    return end;
}

static void put_values(question *q, const char *const *params)
{
    for (unsigned i = 0; i < q->text->count; i++)
        q->values[i] = params[q->text->order[i]];
}

sql_end pg_run(sql_conn *conn, const sql_text *text, const char *const *params,
               hf_nsec deadline, sql_rows *ret, hf_nsec *ret_sent,
               hf_error *err)
{
    question q = {.text = text};
    bool again;
    sql_end end;

    put_values(&q, params);
    if (ret_sent)
        *ret_sent = hfd_now();
    end = run_once((pg_conn *)conn, &q, deadline, ret, &again, err);
    return again ? SQL_CLASH : end;
}

sql_end pg_begin(sql_conn *conn, const sql_text *text,
                 const char *const *params, hf_nsec deadline, sql_rows *ret,
                 hf_error *err)
{
    question q = {.text = text, .begins = true};
    bool again;
    sql_end end;

    put_values(&q, params);
    end = run_once((pg_conn *)conn, &q, deadline, ret, &again, err);
    if (!again)
        return end;
    /* Not a clash: that would be told as somebody else's lock. */
    end = pg_say(conn, "ROLLBACK", deadline, ret, err);
    if (end != SQL_DONE)
        return end;
    return run_once((pg_conn *)conn, &q, deadline, ret, &again, err);
}

sql_end pg_say(sql_conn *conn, const char *text, hf_nsec deadline,
               sql_rows *ret, hf_error *err)
{
    pg_conn *c = (pg_conn *)conn;
    answer got = {.end = SQL_DONE, .rows = ret};

    sql_rows_reset(ret);
    if (c->broken || PQstatus(c->pg) != CONNECTION_OK)
        return broken(c, err);
    if (!PQsendQuery(c->pg, text))
        return lost(c, err, PQerrorMessage(c->pg));
    return finish(c, false, deadline, &got, err);
}
