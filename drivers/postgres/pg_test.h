/* pg_test.h - a server, a port to it, and statements, for the tests of the
 * postgres driver.  Every wait has an end. */
#ifndef HF_DRIVERS_PG_TEST_H
#define HF_DRIVERS_PG_TEST_H

#include "base/url.h"
#include "harness/expect.h"
#include "harness/runner.h"
#include "harness/server.h"
#include "harness/sql_server.h"
#include "postgres.h"

enum { PATIENCE_MS = 20000 };

#define AWAIT(condition)                                                       \
    do {                                                                       \
        if (!WAIT_FOR(condition, PATIENCE_MS))                                 \
            FAIL_TEST("waited in vain for: %s", #condition);                   \
    } while (0)

static inline hf_nsec in_ms(int ms)
{
    return hfd_now() + HF_MS(ms);
}

/* What the store would be told. */
typedef struct ears {
    int told, deaf, doubts;
    char rid[32];
    uint64_t num;
    uint32_t run;
    hf_error why;
} ears;

static inline void on_told(void *store, const char *rid, uint64_t num,
                           uint32_t run)
{
    ears *e = store;

    e->told++;
    snprintf(e->rid, sizeof e->rid, "%s", rid ? rid : "");
    e->num = num;
    e->run = run;
}

static inline void on_deaf(void *store, const hf_error *why)
{
    ears *e = store;

    e->deaf++;
    e->why = *why;
}

static inline void on_doubt(void *store, const hf_error *why)
{
    ears *e = store;

    e->doubts++;
    e->why = *why;
}

static inline int try_port(const char *text, ears *e, sql_port **ret,
                           hf_error *err)
{
    hf_url *url = NULL;
    pg_port *port = NULL;
    int code = hf__url_parse(&url, text, err);

    if (code == 0)
        code = pg_port_open(&port, url, err);
    hf__url_free(url);
    if (code)
        return code;
    port->base.told = on_told;
    port->base.deaf = on_deaf;
    port->base.doubt = on_doubt;
    port->base.store = e;
    *ret = &port->base;
    return 0;
}

static inline sql_port *port_at(const char *text, ears *e)
{
    sql_port *port = NULL;
    hf_error err;

    EXPECT_OK(try_port(text, e, &port, &err), err);
    return port;
}

static inline sql_conn *conn_to(sql_port *port)
{
    sql_conn *conn = NULL;
    hf_error err;

    EXPECT_OK(port->class->connect(port, in_ms(PATIENCE_MS), &conn, &err), err);
    return conn;
}

/* The code and the text of a connection that must not come about. */
static inline int refusal(const char *url, hf_error *err)
{
    sql_port *port = port_at(url, NULL);
    sql_conn *conn = NULL;
    int code = port->class->connect(port, in_ms(3000), &conn, err);

    if (code == 0)
        port->class->disconnect(conn, false);
    port->class->close(port);
    return code;
}

/* The first cell; must succeed.  Good until the next call. */
static inline const char *ask(sql_conn *conn, const char *text)
{
    static char kept[200];
    sql_rows rows = {0};
    hf_error err = {0};
    sql_end end =
        conn->port->class->say(conn, text, in_ms(PATIENCE_MS), &rows, &err);
    const char *cell = sql_cell(&rows, 0, 0);

    if (end != SQL_DONE)
        FAIL_TEST("%s ended as %d: %s", text, (int)end, err.text);
    snprintf(kept, sizeof kept, "%s", cell ? cell : "");
    sql_rows_done(&rows);
    return kept;
}

/* How a statement ends that may fail. */
static inline sql_end end_of(sql_conn *conn, const char *text, int ms,
                             hf_error *err)
{
    sql_rows rows = {0};
    sql_end end;

    *err = (hf_error){0};
    end = conn->port->class->say(conn, text, in_ms(ms), &rows, err);
    sql_rows_done(&rows);
    return end;
}

/* A statement with parameters in order, as the list has them. */
static inline void make_text(sql_text *text, const char *words, unsigned count)
{
    *text =
        (sql_text){.id = SQL_COUNT, .writes = true, .count = (uint8_t)count};
    for (unsigned i = 0; i < count; i++)
        text->order[i] = (uint8_t)i;
    snprintf(text->text, sizeof text->text, "%s", words);
}

#endif
