/* conn.c - a connection, from the string to the prepared statements.
 *
 * Connecting is bounded by the login timeout of ODBC (whole seconds) and by
 * nothing else: there is no socket yet that could be cut.  Afterwards the
 * socket is known (socket.c) and every call ends in time (guard.c).
 *
 * Two of us here: connects run side by side, on different handles.  Paused
 * here: nothing is held on the server.  After fork: the child closes its copies
 * of the descriptors and says nothing; the handles are left alone, since
 * freeing them would say goodbye in the parent's name. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "odbc.h"

static odbc_port *port_of(sql_port *port)
{
    return (odbc_port *)port;
}

/* ---- Prepared statements ---- */

static void free_stmt(odbc_stmt *stmt)
{
    if (stmt->handle)
        SQLFreeHandle(SQL_HANDLE_STMT, stmt->handle);
    for (size_t i = 0; i < SQL_PARAMS; i++)
        hfd_free(stmt->params[i].text);
    hfd_free(stmt);
}

void odbc_stmt_drop(odbc_conn *conn, odbc_stmt *stmt)
{
    odbc_stmt **at = &conn->stmts;

    while (*at && *at != stmt)
        at = &(*at)->next;
    if (*at)
        *at = stmt->next;
    free_stmt(stmt);
}

/* ---- The end ---- */

void odbc_disconnect(sql_conn *base, bool reset)
{
    odbc_conn *conn = (odbc_conn *)base;

    if (reset && conn->fd >= 0)
        odbc_socket_cut(conn->fd);
    while (conn->stmts)
        odbc_stmt_drop(conn, conn->stmts);
    /* A driver that is in the middle of something refuses; its handle is
     * leaked then, but not its socket. */
    if (!SQL_SUCCEEDED(SQLDisconnect(conn->dbc)))
        hfd_log(HF_LOG_DEBUG, "odbc: the driver did not disconnect");
    SQLFreeHandle(SQL_HANDLE_DBC, conn->dbc);
    if (conn->fd >= 0)
        close(conn->fd);
    hfd_free(conn->cell);
    hfd_free(conn);
}

void odbc_abandon(sql_conn *base)
{
    odbc_conn *conn = (odbc_conn *)base;
    struct stat ours, theirs;

    if (conn->fd < 0)
        return;
    if (fstat(conn->fd, &ours) == 0 && fstat(conn->theirs, &theirs) == 0 &&
        ours.st_ino == theirs.st_ino && ours.st_dev == theirs.st_dev)
        close(conn->theirs);
    close(conn->fd);
    conn->fd = -1;
}

bool odbc_stands(sql_conn *base)
{
    const odbc_conn *conn = (const odbc_conn *)base;

    return !conn->dead && (conn->fd < 0 || odbc_socket_quiet(conn->fd));
}

/* ---- The beginning ---- */

static SQLUINTEGER seconds_left(hf_nsec deadline)
{
    hf_nsec left = deadline - hfd_now();

    if (deadline == HF_NEVER || left > HF_MS(60000))
        return 60;
    return left <= HF_MS(1000)
               ? 1
               : (SQLUINTEGER)((left + HF_MS(999)) / HF_MS(1000));
}

static SQLPOINTER number_value(SQLUINTEGER number)
{
    return (SQLPOINTER)(uintptr_t)number; /* how ODBC passes numbers */
}

/* Before the connect: how long it may take, and each statement by itself. */
static void set_attributes(odbc_conn *conn, hf_nsec deadline)
{
    SQLSetConnectAttr(conn->dbc, SQL_ATTR_LOGIN_TIMEOUT,
                      number_value(seconds_left(deadline)), SQL_IS_UINTEGER);
    SQLSetConnectAttr(conn->dbc, SQL_ATTR_AUTOCOMMIT,
                      number_value(SQL_AUTOCOMMIT_ON), SQL_IS_UINTEGER);
}

/* ";Name=value" unless the string has that name. */
static void add_pair(char *string, size_t room, const char *pair)
{
    size_t len = strlen(string), name = strcspn(pair, "=");
    char sought[40];

    snprintf(sought, sizeof sought, ";%.*s=", (int)name, pair);
    if (!strcasestr(string, sought) && len + strlen(pair) + 2 < room)
        snprintf(string + len, room - len, ";%s", pair);
}

/* MariaDB's driver takes its patience from the string alone; while nobody knows
 * whose driver it is, that is said to any (who does not know it ignores it). */
static void make_whole(const odbc_port *port, hf_nsec deadline, char *ret,
                       size_t room)
{
    const char *patience =
        port->known ? port->known->patience : "CONN_TIMEOUT=%u";
    char pair[40];

    snprintf(ret, room, "%s", port->string);
    if (patience) {
        snprintf(pair, sizeof pair, patience, seconds_left(deadline));
        add_pair(ret, room, pair);
    }
    if (port->known && port->known->more)
        add_pair(ret, room, port->known->more);
}

/* One at a time in this process: psqlodbc sets the locale of all threads while
 * it connects, and frees what another one has just set; and of two connections
 * made at once nobody could tell whose socket is whose. */
static pthread_mutex_t one_dials = PTHREAD_MUTEX_INITIALIZER;

static int dial(odbc_port *port, odbc_conn *conn, hf_nsec deadline,
                hf_error *err)
{
    char whole[ODBC_STRING_MAX + 100];
    odbc_sockets before;
    SQLRETURN code;

    pthread_mutex_lock(&one_dials);
    if (hfd_now() >= deadline) {
        pthread_mutex_unlock(&one_dials);
        return hfd_error(err, HF_EUNAVAIL, "odbc", 0,
                         "no connection in time: another thread was "
                         "connecting");
    }
    set_attributes(conn, deadline);
    make_whole(port, deadline, whole, sizeof whole);
    odbc_sockets_note(&before);
    code = SQLDriverConnect(conn->dbc, NULL, (SQLCHAR *)whole, SQL_NTS, NULL, 0,
                            NULL, SQL_DRIVER_NOPROMPT);
    explicit_bzero(whole, sizeof whole);
    if (SQL_SUCCEEDED(code) && (!port->known || port->known->socket))
        conn->fd = odbc_sockets_find(&before, &conn->theirs);
    pthread_mutex_unlock(&one_dials);
    odbc_sockets_done(&before);
    conn->watch.fd = conn->fd;
    if (!SQL_SUCCEEDED(code))
        return odbc_connect_error(port, conn->dbc, err);
    atomic_store(&port->stood, true);
    return 0;
}

/* A driver that was found out not to speak over a socket: the one that came
 * meanwhile is somebody else's. */
static void forget_socket(odbc_conn *conn)
{
    if (conn->fd >= 0)
        close(conn->fd);
    conn->fd = conn->watch.fd = -1;
}

static void tell_blind(odbc_port *port, const odbc_conn *conn)
{
    bool told;

    if (conn->fd >= 0 || !port->known->socket)
        return;
    pthread_mutex_lock(&port->mu);
    told = port->told_blind;
    port->told_blind = true;
    pthread_mutex_unlock(&port->mu);
    if (!told)
        hfd_log(HF_LOG_WARN,
                "odbc: the socket of a connection could not be told from "
                "others: its statements end by the server's timeouts alone");
}

static bool is_false(const char *cell)
{
    return !cell || strcmp(cell, "0") == 0 || strcasecmp(cell, "OFF") == 0;
}

/* What the last statement of the greeting answered. */
static int judge_hello(odbc_port *port, odbc_conn *conn, const sql_rows *rows,
                       hf_error *err)
{
    const char *version = sql_cell(rows, 0, 1);
    const char *file = sql_cell(rows, 0, 2);

    snprintf(conn->version, sizeof conn->version, "%s", version ? version : "");
    if (!is_false(sql_cell(rows, 0, 0)))
        return hfd_error(err, HF_EUNAVAIL, "odbc", 0,
                         "the server takes no writes (a standby, or "
                         "read_only): give the address of the primary");
    if (rows->cols > 2 && (!file || !*file))
        return hfd_error(err, HF_EURL, "odbc", 0,
                         "a SQLite database in memory belongs to one "
                         "connection alone: name a file in Database=");
    (void)port;
    return 0;
}

/* SQLite's commits wait for the disk unless the string says otherwise. */
static bool wants_sync(const odbc_port *port)
{
    return strcmp(port->known->name, "sqlite") == 0 &&
           !strcasestr(port->string, "SyncPragma");
}

static int say_hello(odbc_port *port, odbc_conn *conn, hf_nsec deadline,
                     hf_error *err)
{
    const char *const *hello = port->known->hello;
    sql_rows rows = {0};
    int code = 0;

    while (code == 0 && *hello) {
        sql_end end = odbc_say(&conn->base, *hello, deadline, &rows, err);

        if (end == SQL_CLASH && hfd_now() < deadline)
            continue; /* it has slept for its own timeout already */
        if (end != SQL_DONE)
            code = err->code ? err->code : HF_EUNAVAIL;
        hello++;
    }
    if (code == 0 && hello != port->known->hello)
        code = judge_hello(port, conn, &rows, err);
    if (code == 0 && wants_sync(port) &&
        odbc_say(&conn->base, "PRAGMA synchronous = FULL", deadline, &rows,
                 err) != SQL_DONE)
        code = err->code;
    sql_rows_done(&rows);
    return code;
}

/* On the first connection of a port: who are you? */
static void learn(odbc_port *port, odbc_conn *conn, bool first)
{
    if (!first)
        return;
    port->known = odbc_known_settle(port->known, conn->version, &port->dialect);
    port->base.dialect = &port->dialect;
}

static odbc_conn *take_first(odbc_port *port)
{
    odbc_conn *conn;

    pthread_mutex_lock(&port->mu);
    conn = port->first;
    port->first = NULL;
    pthread_mutex_unlock(&port->mu);
    return conn;
}

/* A handle, connected; or none. */
static odbc_conn *new_conn(odbc_port *port, hf_nsec deadline, hf_error *err)
{
    odbc_conn *conn = hfd_alloc(sizeof *conn);

    if (!conn ||
        !SQL_SUCCEEDED(SQLAllocHandle(SQL_HANDLE_DBC, port->env, &conn->dbc))) {
        hfd_error(err, HF_ENOMEM, "odbc", 0, "no handle for a connection");
        hfd_free(conn);
        return NULL;
    }
    conn->base.port = &port->base;
    conn->fd = conn->theirs = conn->watch.fd = -1;
    if (dial(port, conn, deadline, err) != 0) {
        SQLFreeHandle(SQL_HANDLE_DBC, conn->dbc);
        hfd_free(conn);
        return NULL;
    }
    return conn;
}

/* The first of a port: whose is it?  If that changes how to connect, again. */
static odbc_conn *meet(odbc_port *port, hf_nsec deadline, hf_error *err)
{
    odbc_conn *conn = new_conn(port, deadline, err);

    if (!conn || port->known)
        return conn;
    port->known = odbc_known_of(conn->dbc);
    if (!port->known->more)
        return conn;
    odbc_disconnect(&conn->base, false);
    return new_conn(port, deadline, err);
}

int odbc_connect(sql_port *base, hf_nsec deadline, sql_conn **ret,
                 hf_error *err)
{
    odbc_port *port = port_of(base);
    odbc_conn *conn = take_first(port);
    hf_error why = {0};
    bool first = !base->dialect;
    int code;

    if (conn) {
        *ret = &conn->base;
        return 0;
    }
    conn = meet(port, deadline, &why);
    if (!conn) {
        if (err)
            *err = why;
        return why.code;
    }
    if (!port->known->socket)
        forget_socket(conn);
    tell_blind(port, conn);
    code = say_hello(port, conn, deadline, &why);
    if (code) {
        odbc_disconnect(&conn->base, true);
        if (err)
            *err = why;
        return code;
    }
    learn(port, conn, first);
    *ret = &conn->base;
    return 0;
}
