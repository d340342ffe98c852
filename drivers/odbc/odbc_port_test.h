/* odbc_port_test.h - a port on a server of the test's own, without locks. */
#ifndef HF_DRIVERS_ODBC_PORT_TEST_H
#define HF_DRIVERS_ODBC_PORT_TEST_H

#include "base/url.h"
#include "odbc.h"
#include "odbc_test.h"

enum { SECONDS = 10 };

typedef struct world {
    sql_server *server; /* NULL: SQLite */
    odbc_port *port;
    sql_conn *conn;
    sql_rows rows;
    hf_error err;
} world;

static inline hf_nsec soon(void)
{
    return hfd_now() + HF_MS(SECONDS * 1000);
}

static inline int open_url(const char *text, odbc_port **ret, hf_error *err)
{
    hf_url *url;
    int code;

    EXPECT_OK(hf__url_parse(&url, text, err), *err);
    code = odbc_port_open(ret, url, err);
    hf__url_free(url);
    return code;
}

static inline sql_conn *connect_more(world *w)
{
    sql_conn *conn;

    EXPECT_OK(odbc_connect(&w->port->base, soon(), &conn, &w->err), w->err);
    return conn;
}

/* kind -1: SQLite. */
static inline void begin_with(world *w, int kind, const sql_server_options *opt)
{
    char url[400];

    memset(w, 0, sizeof *w);
    use_plain_drivers();
    if (kind >= 0)
        w->server = sql_server_start((sql_server_kind)kind, opt);
    odbc_test_url(w->server, "", url, sizeof url);
    EXPECT_OK(open_url(url, &w->port, &w->err), w->err);
    w->conn = connect_more(w);
}

static inline void begin(world *w, int kind)
{
    begin_with(w, kind, NULL);
}

static inline void end(world *w)
{
    if (w->conn)
        odbc_disconnect(w->conn, false);
    w->port->base.class->close(&w->port->base);
    sql_rows_done(&w->rows);
    sql_server_stop(w->server);
}

static inline sql_end say(world *w, const char *text)
{
    return odbc_say(w->conn, text, soon(), &w->rows, &w->err);
}

#define SAY(w, said)                                                           \
    do {                                                                       \
        if (say(w, said) != SQL_DONE)                                          \
            FAIL_TEST("%s: %s", said, (w)->err.text);                          \
    } while (0)

static inline void make_text(sql_text *text, bool writes, unsigned count,
                             const char *sql)
{
    *text = (sql_text){.id = SQL_COUNT, .writes = writes};
    text->count = (uint8_t)count;
    for (unsigned i = 0; i < count; i++)
        text->order[i] = (uint8_t)i;
    snprintf(text->text, sizeof text->text, "%s", sql);
}

static inline sql_end run(world *w, const sql_text *text, const char *a,
                          const char *b)
{
    const char *params[] = {a, b};

    return odbc_run(w->conn, text, params, soon(), &w->rows, NULL, &w->err);
}

static inline void make_table(world *w)
{
    SAY(w, "CREATE TABLE t(k VARCHAR(100) NOT NULL PRIMARY KEY, n INTEGER)");
    SAY(w, "INSERT INTO t VALUES ('a', 1)");
    SAY(w, "INSERT INTO t VALUES ('b', NULL)");
}

#endif
