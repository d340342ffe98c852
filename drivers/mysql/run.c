/* run.c - one statement on one connection, by a deadline.
 *
 * Answers: was it done, and what did the server answer?  Knows nothing of what
 * statements mean, but whether they write.
 *
 * A statement of the list is prepared when a connection uses it first; from
 * then on it is one packet there and one answer.  Every parameter goes as text
 * and every cell comes as text.
 *
 * Reply lost: what was sent and not answered may have been done (SQL_LOST), and
 * the connection is of no use, since a late answer would be taken for the next
 * one's.  What fails while a statement is being prepared was not done.  Rows of
 * a statement that writes are sent before its commit: they count only when the
 * end of the answer has come. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "my.h"

/* ---- Prepared statements ------------------------------------------------ */

static sql_end judge_stmt(my_conn *c, MYSQL_STMT *stmt, bool sent, bool writes,
                          hf_error *err)
{
    return my_judge(c, mysql_stmt_errno(stmt), mysql_stmt_sqlstate(stmt),
                    mysql_stmt_error(stmt), sent, writes, err);
}

/* A connection that was given up is not spoken on again. */
static sql_end say_broken(hf_error *err)
{
    hfd_error(err, HF_EUNAVAIL, "mysql", 0, "the connection was lost");
    return SQL_BROKEN;
}

static sql_end no_memory(hf_error *err)
{
    hfd_error(err, HF_ENOMEM, "mysql", 0, "out of memory");
    return SQL_REFUSED;
}

/* Closing tells the server, which does not answer. */
static void forget(my_conn *c, unsigned i)
{
    mysql_stmt_close(c->named[i].stmt);
    hfd_free(c->named[i].text);
    c->named[i] = c->named[--c->named_count];
    memset(&c->named[c->named_count], 0, sizeof c->named[0]);
}

static int find_named(const my_conn *c, const sql_text *text)
{
    for (unsigned i = 0; i < c->named_count; i++) {
        if (c->named[i].key == text &&
            strcmp(c->named[i].text, text->text) == 0)
            return (int)i;
    }
    return -1;
}

static sql_end prepare(my_conn *c, const sql_text *text, hf_nsec deadline,
                       MYSQL_STMT **ret, hf_error *err)
{
    size_t len = strlen(text->text);
    MYSQL_STMT *stmt = mysql_stmt_init(c->my);
    char *copy = hfd_alloc(len + 1);
    sql_end end;
    int failed = 1;

    if (stmt && copy) {
        memcpy(copy, text->text, len);
        MY_DRIVE(c, deadline,
                 mysql_stmt_prepare_start(&failed, stmt, copy, len),
                 mysql_stmt_prepare_cont(&failed, stmt, status));
        end = failed ? judge_stmt(c, stmt, false, text->writes, err) : SQL_DONE;
        if (!failed && mysql_stmt_param_count(stmt) != text->count) {
            hfd_error(err, HF_EINTERNAL, "mysql", 0,
                      "a statement with %lu parameters instead of %u",
                      mysql_stmt_param_count(stmt), text->count);
            end = SQL_REFUSED;
        }
    } else {
        end = no_memory(err);
    }
    if (end != SQL_DONE) {
        if (stmt)
            mysql_stmt_close(stmt);
        hfd_free(copy);
        return end;
    }
    if (c->named_count == MY_NAMED)
        forget(c, c->named_next++ % MY_NAMED);
    c->named[c->named_count].key = text;
    c->named[c->named_count].text = copy;
    c->named[c->named_count++].stmt = stmt;
    *ret = stmt;
    return SQL_DONE;
}

/* ---- Executing ---------------------------------------------------------- */

/* A cell that is longer than its place is asked for again, by itself. */
static bool add_long(my_conn *c, MYSQL_STMT *stmt, unsigned col, size_t len,
                     sql_rows *ret)
{
    unsigned long got = 0;
    MYSQL_BIND bind = {.buffer_type = MYSQL_TYPE_STRING, .length = &got};

    if (len > c->long_room) {
        char *more = hfd_realloc(c->long_cell, len + len / 2);

        if (!more)
            return false;
        c->long_cell = more;
        c->long_room = len + len / 2;
    }
    bind.buffer = c->long_cell;
    bind.buffer_length = len;
    if (mysql_stmt_fetch_column(stmt, &bind, col, 0) != 0)
        return false;
    sql_rows_add(ret, c->long_cell, len);
    return true;
}

/* All of it is here: nothing is waited for any more. */
static bool take_rows(my_conn *c, MYSQL_STMT *stmt, unsigned cols,
                      const unsigned long *lens, const my_bool *nulls,
                      sql_rows *ret)
{
    int code;

    while ((code = mysql_stmt_fetch(stmt)) == 0 ||
           code == MYSQL_DATA_TRUNCATED) {
        for (unsigned i = 0; i < cols; i++) {
            if (nulls[i])
                sql_rows_add_null(ret);
            else if (lens[i] <= MY_CELL)
                sql_rows_add(ret, c->cells + (size_t)i * MY_CELL, lens[i]);
            else if (!add_long(c, stmt, i, lens[i], ret))
                return false;
        }
        sql_rows_end_row(ret);
    }
    return code == MYSQL_NO_DATA && !ret->failed;
}

/* A failure here is after the statement ran: whether it was done is known, but
 * not what it answered. */
static sql_end read_rows(my_conn *c, MYSQL_STMT *stmt, bool writes,
                         hf_nsec deadline, sql_rows *ret, hf_error *err)
{
    unsigned cols = mysql_stmt_field_count(stmt);
    unsigned long lens[MY_COLUMNS];
    my_bool nulls[MY_COLUMNS];
    MYSQL_BIND binds[MY_COLUMNS] = {0};
    int failed = 1;

    for (unsigned i = 0; i < cols && i < MY_COLUMNS; i++) {
        binds[i].buffer_type = MYSQL_TYPE_STRING;
        binds[i].buffer = c->cells + (size_t)i * MY_CELL;
        binds[i].buffer_length = MY_CELL;
        binds[i].length = &lens[i];
        binds[i].is_null = &nulls[i];
    }
    if (cols > MY_COLUMNS) { /* a statement that is none of ours */
        c->broken = true;
        hfd_error(err, HF_EINTERNAL, "mysql", 0, "an answer of %u columns",
                  cols);
        return SQL_LOST;
    }
    if (mysql_stmt_bind_result(stmt, binds) == 0)
        MY_DRIVE(c, deadline, mysql_stmt_store_result_start(&failed, stmt),
                 mysql_stmt_store_result_cont(&failed, stmt, status));
    if (failed)
        return judge_stmt(c, stmt, true, writes, err);
    ret->cols = cols;
    if (!take_rows(c, stmt, cols, lens, nulls, ret)) {
        hfd_error(err, HF_ENOMEM, "mysql", 0, "out of memory for an answer");
        c->broken = true;
        return writes ? SQL_LOST : SQL_BROKEN;
    }
    mysql_stmt_free_result(stmt);
    return SQL_DONE;
}

static sql_end execute(my_conn *c, MYSQL_STMT *stmt, const sql_text *text,
                       const char *const *params, hf_nsec deadline,
                       sql_rows *ret, hf_nsec *ret_sent, hf_error *err)
{
    MYSQL_BIND binds[SQL_PARAMS] = {0};
    int failed = 1;

    for (unsigned i = 0; i < text->count; i++) {
        const char *param = params[text->order[i]];

        binds[i].buffer_type = param ? MYSQL_TYPE_STRING : MYSQL_TYPE_NULL;
        binds[i].buffer = (void *)param;
        binds[i].buffer_length = param ? strlen(param) : 0;
    }
    if (text->count && mysql_stmt_bind_param(stmt, binds) != 0)
        return judge_stmt(c, stmt, false, text->writes, err);
    if (ret_sent)
        *ret_sent = hfd_now();
    MY_DRIVE(c, deadline, mysql_stmt_execute_start(&failed, stmt),
             mysql_stmt_execute_cont(&failed, stmt, status));
    if (failed)
        return judge_stmt(c, stmt, true, text->writes, err);
    if (mysql_stmt_field_count(stmt) > 0) {
        sql_end end = read_rows(c, stmt, text->writes, deadline, ret, err);
        int at = find_named(c, text);

        /* Refused where its rows would be, the library believes that they are
         * still to come: this one is not used again. */
        if (end != SQL_DONE && !c->broken && at >= 0)
            forget(c, (unsigned)at);
        return end;
    }
    ret->affected = (int64_t)mysql_stmt_affected_rows(stmt);
    return SQL_DONE;
}

/* The server has dropped the prepared form (a table was altered, a proxy went
 * elsewhere), and has done nothing. */
static bool is_forgotten(const hf_error *err)
{
    return err->native == 1243 || err->native == 1615;
}

sql_end my_run(sql_conn *conn, const sql_text *text, const char *const *params,
               hf_nsec deadline, sql_rows *ret, hf_nsec *ret_sent,
               hf_error *err)
{
    my_conn *c = (my_conn *)conn;
    sql_end end = SQL_DONE;
    hf_error why = {0};
    my_quiet quiet;

    if (c->broken)
        return say_broken(err);
    my_quiet_begin(&quiet, c->tls);
    for (int attempt = 0; attempt < 2; attempt++) {
        MYSQL_STMT *stmt = NULL;
        int at = find_named(c, text);

        sql_rows_reset(ret);
        c->late = false;
        end = SQL_DONE;
        if (at >= 0)
            stmt = c->named[at].stmt;
        else
            end = prepare(c, text, deadline, &stmt, &why);
        if (end == SQL_DONE)
            end = execute(c, stmt, text, params, deadline, ret, ret_sent, &why);
        if (end != SQL_REFUSED || !is_forgotten(&why))
            break;
        at = find_named(c, text);
        if (at >= 0)
            forget(c, (unsigned)at);
    }
    my_quiet_end(&quiet);
    if (end != SQL_DONE && err)
        *err = why;
    return end;
}

/* ---- Plain text --------------------------------------------------------- */

static void copy_result(MYSQL_RES *result, sql_rows *ret)
{
    unsigned cols = mysql_num_fields(result);
    MYSQL_ROW row;

    ret->cols = cols;
    while ((row = mysql_fetch_row(result))) {
        const unsigned long *lens = mysql_fetch_lengths(result);

        for (unsigned i = 0; i < cols; i++) {
            if (row[i])
                sql_rows_add(ret, row[i], lens[i]);
            else
                sql_rows_add_null(ret);
        }
        sql_rows_end_row(ret);
    }
}

static sql_end judge_text(my_conn *c, bool writes, hf_error *err)
{
    return my_judge(c, mysql_errno(c->my), mysql_sqlstate(c->my),
                    mysql_error(c->my), true, writes, err);
}

sql_end my_say(sql_conn *conn, const char *text, hf_nsec deadline,
               sql_rows *ret, hf_error *err)
{
    my_conn *c = (my_conn *)conn;
    bool writes = strncasecmp(text, "SELECT", 6) != 0 &&
                  strncasecmp(text, "SHOW", 4) != 0;
    MYSQL_RES *result = NULL;
    sql_end end = SQL_DONE;
    my_quiet quiet;
    int failed = 1;

    sql_rows_reset(ret);
    if (c->broken)
        return say_broken(err);
    c->late = false;
    my_quiet_begin(&quiet, c->tls);
    MY_DRIVE(c, deadline,
             mysql_real_query_start(&failed, c->my, text, strlen(text)),
             mysql_real_query_cont(&failed, c->my, status));
    if (failed) {
        end = judge_text(c, writes, err);
    } else if (mysql_field_count(c->my) == 0) {
        ret->affected = (int64_t)mysql_affected_rows(c->my);
    } else {
        MY_DRIVE(c, deadline, mysql_store_result_start(&result, c->my),
                 mysql_store_result_cont(&result, c->my, status));
        if (!result) {
            end = judge_text(c, writes, err);
        } else {
            copy_result(result, ret);
            mysql_free_result(result);
            if (ret->failed)
                end = no_memory(err);
        }
    }
    my_quiet_end(&quiet);
    return end;
}
