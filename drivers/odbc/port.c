/* port.c - one statement through ODBC.
 *
 * Prepared once per connection, its parameters bound once to buffers of ours:
 * a run copies the texts, calls SQLExecute, fetches to the end.  That is one
 * round trip with the drivers of PostgreSQL and MariaDB, and none with
 * SQLite's.  Row counts are passed on and trusted by nobody.
 *
 * Rows are always fetched to the end: SQLite commits a statement that answers
 * rows with its last step, so an error there is the error of the commit.
 *
 * Reply lost: the driver says so, or the guard has cut the socket; LOST, and
 * the connection is dead.  A statement that failed is prepared anew the next
 * time, whatever the reason was. */
#include <stdio.h>
#include <string.h>

#include "odbc.h"

enum {
    PARAM_ROOM = 256,
    VARCHAR_MAX = 4000, /* beyond, several databases want another type */
    CELL_ROOM = 4096,
    CELL_MAX = 64 * 1024 * 1024
};

static odbc_port *port_of(const odbc_conn *conn)
{
    return (odbc_port *)conn->base.port;
}

/* ---- Results ---- */

/* Room for more of the cell; false: none. */
static bool grow_cell(odbc_conn *conn)
{
    size_t room = conn->cell_room ? conn->cell_room * 4 : CELL_ROOM;
    char *larger = room > CELL_MAX ? NULL : hfd_realloc(conn->cell, room);

    if (!larger)
        return false;
    conn->cell = larger;
    conn->cell_room = room;
    return true;
}

typedef enum cell_end { CELL_READ, CELL_ERROR, CELL_NO_MEMORY } cell_end;

/* One cell, in as many pieces as the driver gives it. */
static cell_end read_cell(odbc_conn *conn, SQLHSTMT handle, SQLUSMALLINT col,
                          sql_rows *ret)
{
    size_t used = 0;

    for (;;) {
        SQLLEN len = 0;

        if (conn->cell_room - used < 2 && !grow_cell(conn))
            return CELL_NO_MEMORY;
        size_t room = conn->cell_room - used;
        SQLRETURN code = SQLGetData(handle, col, SQL_C_CHAR, conn->cell + used,
                                    (SQLLEN)room, &len);

        if (code == SQL_NO_DATA)
            break; /* the piece before was the last one */
        if (!SQL_SUCCEEDED(code))
            return CELL_ERROR;
        if (len == SQL_NULL_DATA) {
            sql_rows_add_null(ret);
            return CELL_READ;
        }
        if (len != SQL_NO_TOTAL && (size_t)len < room) {
            used += (size_t)len;
            break;
        }
        used += room - 1;
    }
    sql_rows_add(ret, conn->cell, used);
    return CELL_READ;
}

static sql_end fetch_rows(odbc_conn *conn, SQLHSTMT handle, bool writes,
                          SQLSMALLINT cols, sql_rows *ret, hf_error *err)
{
    cell_end cell = CELL_READ;
    SQLRETURN code = SQL_SUCCESS;

    while (cell == CELL_READ && SQL_SUCCEEDED(code = SQLFetch(handle))) {
        for (SQLSMALLINT i = 1; i <= cols && cell == CELL_READ; i++)
            cell = read_cell(conn, handle, (SQLUSMALLINT)i, ret);
        if (cell == CELL_READ)
            sql_rows_end_row(ret);
    }
    if (cell == CELL_NO_MEMORY || ret->failed) {
        hfd_error(err, HF_ENOMEM, "odbc", 0, "out of memory");
        return SQL_LOST;
    }
    if (cell == CELL_READ && code == SQL_NO_DATA)
        return SQL_DONE;
    return odbc_error_of(port_of(conn), SQL_HANDLE_STMT, handle, writes, err);
}

/* After a successful execution. */
static sql_end take_results(odbc_conn *conn, SQLHSTMT handle, bool writes,
                            sql_rows *ret, hf_error *err)
{
    SQLSMALLINT cols = 0;
    SQLLEN count = -1;

    if (!SQL_SUCCEEDED(SQLNumResultCols(handle, &cols)))
        return odbc_error_of(port_of(conn), SQL_HANDLE_STMT, handle, writes,
                             err);
    if (cols > 0)
        return fetch_rows(conn, handle, writes, cols, ret, err);
    if (SQL_SUCCEEDED(SQLRowCount(handle, &count)))
        ret->affected = count;
    return SQL_DONE;
}

/* ---- Parameters ---- */

static bool bind_param(odbc_stmt *stmt, size_t place, size_t need)
{
    odbc_param *param = &stmt->params[place];
    size_t room = PARAM_ROOM;

    while (room < need)
        room *= 2;
    hfd_free(param->text);
    param->text = hfd_alloc(room);
    param->room = param->text ? room : 0;
    return param->text &&
           SQL_SUCCEEDED(SQLBindParameter(
               stmt->handle, (SQLUSMALLINT)(place + 1), SQL_PARAM_INPUT,
               SQL_C_CHAR, room > VARCHAR_MAX ? SQL_LONGVARCHAR : SQL_VARCHAR,
               room - 1, 0, param->text, (SQLLEN)room, &param->len));
}

static bool fill_params(odbc_stmt *stmt, const char *const *params)
{
    for (size_t i = 0; i < stmt->text->count; i++) {
        const char *value = params[stmt->text->order[i]];
        size_t len = value ? strlen(value) : 0;

        if (stmt->params[i].room < len + 1 && !bind_param(stmt, i, len + 1))
            return false;
        if (value)
            memcpy(stmt->params[i].text, value, len + 1);
        stmt->params[i].len = value ? (SQLLEN)len : SQL_NULL_DATA;
    }
    return true;
}

/* ---- Statements ---- */

static SQLHSTMT new_handle(odbc_conn *conn)
{
    SQLHSTMT handle = NULL;

    if (!SQL_SUCCEEDED(SQLAllocHandle(SQL_HANDLE_STMT, conn->dbc, &handle)))
        return NULL;
    /* Our texts have no escapes in braces. */
    SQLSetStmtAttr(handle, SQL_ATTR_NOSCAN, (SQLPOINTER)SQL_NOSCAN_ON,
                   SQL_IS_UINTEGER);
    /* Where no session setting bounds a statement, the driver may. */
    if (!*port_of(conn)->known->hello)
        SQLSetStmtAttr(handle, SQL_ATTR_QUERY_TIMEOUT,
                       (SQLPOINTER)(uintptr_t)(ODBC_STATEMENT_MS / 1000),
                       SQL_IS_UINTEGER);
    return handle;
}

static sql_end refuse(odbc_conn *conn, int code, const char *text,
                      hf_error *err)
{
    conn->dead = true;
    hfd_error(err, code, "odbc", 0, "%s", text);
    return SQL_BROKEN;
}

static const char *prefix_of(const odbc_conn *conn, const sql_text *text)
{
    const odbc_port *port = port_of(conn);

    return text->writes && port->dialect.returning &&
                   strstr(text->text, " RETURNING ")
               ? port->known->rows_prefix
               : "";
}

static sql_end prepare(odbc_conn *conn, const sql_text *text, odbc_stmt **ret,
                       hf_error *err)
{
    char whole[SQL_TEXT_MAX + 64];
    odbc_stmt *stmt = hfd_alloc(sizeof *stmt);
    sql_end end = SQL_DONE;

    if (!stmt)
        return refuse(conn, HF_ENOMEM, "out of memory", err);
    stmt->text = text;
    stmt->next = conn->stmts;
    conn->stmts = stmt;
    stmt->handle = new_handle(conn);
    snprintf(whole, sizeof whole, "%s%s", prefix_of(conn, text), text->text);
    if (!stmt->handle)
        end = refuse(conn, HF_ENOMEM, "no statement handle", err);
    else if (!SQL_SUCCEEDED(
                 SQLPrepare(stmt->handle, (SQLCHAR *)whole, SQL_NTS)))
        end = odbc_error_of(port_of(conn), SQL_HANDLE_STMT, stmt->handle, false,
                            err);
    /* Nothing can have been applied by a text that was only read. */
    if (end == SQL_LOST)
        end = SQL_BROKEN;
    *ret = stmt;
    return end;
}

static odbc_stmt *find_stmt(odbc_conn *conn, const sql_text *text)
{
    odbc_stmt *stmt = conn->stmts;

    while (stmt && stmt->text != text)
        stmt = stmt->next;
    return stmt;
}

static sql_end execute(odbc_conn *conn, odbc_stmt *stmt,
                       const char *const *params, sql_rows *ret,
                       hf_nsec *ret_sent, hf_error *err)
{
    bool writes = stmt->text->writes;
    SQLRETURN code;
    sql_end end;

    if (!fill_params(stmt, params))
        return refuse(conn, HF_ENOMEM, "out of memory", err);
    if (ret_sent)
        *ret_sent = hfd_now();
    code = SQLExecute(stmt->handle);
    /* NO_DATA: an UPDATE or DELETE that found no row. */
    if (code == SQL_SUCCESS_WITH_INFO && writes)
        odbc_warning_of(port_of(conn), stmt->handle);
    if (code == SQL_NO_DATA) {
        ret->affected = 0;
        end = SQL_DONE;
    } else if (SQL_SUCCEEDED(code)) {
        end = take_results(conn, stmt->handle, writes, ret, err);
    } else {
        end = odbc_error_of(port_of(conn), SQL_HANDLE_STMT, stmt->handle,
                            writes, err);
    }
    SQLFreeStmt(stmt->handle, SQL_CLOSE);
    return end;
}

/* The guard has the last word about what a failure was. */
static sql_end conclude(odbc_conn *conn, sql_end end, bool sent, hf_error *err)
{
    bool cut = odbc_guard_end(&port_of(conn)->guard, &conn->watch);

    if (cut && end != SQL_DONE) {
        hfd_error(err, HF_EUNAVAIL, "odbc", 0,
                  "no answer from the server in time");
        end = sent ? SQL_LOST : SQL_BROKEN;
    }
    if (cut || end == SQL_LOST || end == SQL_BROKEN)
        conn->dead = true;
    return end;
}

static bool is_over(const odbc_conn *conn, hf_nsec deadline, hf_error *err,
                    sql_end *ret)
{
    if (conn->dead)
        hfd_error(err, HF_EUNAVAIL, "odbc", 0, "the connection is broken");
    else if (hfd_now() >= deadline)
        hfd_error(err, HF_EUNAVAIL, "odbc", 0, "no time left");
    else
        return false;
    *ret = conn->dead ? SQL_BROKEN : SQL_REFUSED;
    return true;
}

sql_end odbc_run(sql_conn *base, const sql_text *text,
                 const char *const *params, hf_nsec deadline, sql_rows *ret,
                 hf_nsec *ret_sent, hf_error *err)
{
    odbc_conn *conn = (odbc_conn *)base;
    odbc_stmt *stmt = find_stmt(conn, text);
    sql_end end = SQL_DONE;
    bool sent = false;

    sql_rows_reset(ret);
    ret->affected = -1;
    if (is_over(conn, deadline, err, &end))
        return end;
    odbc_guard_begin(&port_of(conn)->guard, &conn->watch, deadline);
    if (!stmt)
        end = prepare(conn, text, &stmt, err);
    if (end == SQL_DONE) {
        sent = true;
        end = execute(conn, stmt, params, ret, ret_sent, err);
    }
    end = conclude(conn, end, sent, err);
    if (end != SQL_DONE && end != SQL_CLASH && stmt)
        odbc_stmt_drop(conn, stmt);
    return end;
}

sql_end odbc_say(sql_conn *base, const char *text, hf_nsec deadline,
                 sql_rows *ret, hf_error *err)
{
    odbc_conn *conn = (odbc_conn *)base;
    SQLHSTMT handle;
    SQLRETURN code;
    sql_end end;

    sql_rows_reset(ret);
    ret->affected = -1;
    if (is_over(conn, deadline, err, &end))
        return end;
    handle = new_handle(conn);
    if (!handle)
        return refuse(conn, HF_ENOMEM, "no statement handle", err);
    odbc_guard_begin(&port_of(conn)->guard, &conn->watch, deadline);
    code = SQLExecDirect(handle, (SQLCHAR *)(uintptr_t)text, SQL_NTS);
    if (code == SQL_NO_DATA)
        end = SQL_DONE;
    else if (SQL_SUCCEEDED(code))
        end = take_results(conn, handle, true, ret, err);
    else
        end = odbc_error_of(port_of(conn), SQL_HANDLE_STMT, handle, true, err);
    SQLFreeHandle(SQL_HANDLE_STMT, handle);
    return conclude(conn, end, true, err);
}

/* Others on the same PostgreSQL may listen, although nobody here can.  The ids
 * are letters, digits, '-' and '_': nothing to quote. */
void odbc_wake(sql_conn *base, const sql_wake *wakes, size_t n,
               hf_nsec deadline)
{
    const odbc_conn *conn = (const odbc_conn *)base;
    char text[SQL_TEXT_MAX];
    sql_rows rows = {0};
    size_t used = 0;
    hf_error err;

    if (strcmp(port_of(conn)->known->name, "postgres") != 0)
        return;
    for (size_t i = 0; i < n && used + 120 < sizeof text; i++)
        used +=
            (size_t)snprintf(text + used, sizeof text - used,
                             "%s pg_notify('hf_%s', '%s %llu %u')",
                             i ? "," : "SELECT", wakes[i].sid, wakes[i].rid,
                             (unsigned long long)wakes[i].num, wakes[i].run);
    if (used && odbc_say(base, text, deadline, &rows, &err) != SQL_DONE)
        hfd_log(HF_LOG_DEBUG, "odbc: could not notify: %s", err.text);
    sql_rows_done(&rows);
}
