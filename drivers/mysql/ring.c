/* ring.c - whose turn it is, told: the sleep of their connections is ended.
 *
 * Answers: where does this session sleep (its row says so, and it is remembered
 * here), and is that still true?  Knows nothing of queues.
 *
 * Numbers of connections begin anew when the server starts, so an address is
 * the number and the instant of that start; an address of another start is not
 * rung: that number may be anybody's.  Within one life of a server a number is
 * not used twice.  A session that changed its connection has a new address in
 * its row: a ring that finds nobody (1094) looks there once more.
 *
 * All of it is best effort.  Reply lost, nobody there, not permitted: the one
 * that waits looks by itself, a little later. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "my.h"

enum { BELL_COLUMN = 7, NOBODY = 1094, NOT_OURS = 1095 };

int my_server_start(my_conn *c, hf_nsec deadline, hf_error *err)
{
    sql_rows rows = {0};
    sql_end end;

    if (c->start)
        return 0;
    end = my_say(&c->base,
                 c->mariadb ? "SELECT UNIX_TIMESTAMP() - VARIABLE_VALUE"
                              " FROM information_schema.GLOBAL_STATUS"
                              " WHERE VARIABLE_NAME = 'UPTIME'"
                            : "SELECT UNIX_TIMESTAMP() - VARIABLE_VALUE"
                              " FROM performance_schema.global_status"
                              " WHERE VARIABLE_NAME = 'Uptime'",
                 deadline, &rows, err);
    if (end == SQL_DONE)
        c->start = sql_number(&rows, 0, 0, 0);
    sql_rows_done(&rows);
    if (end != SQL_DONE)
        return err && err->code ? err->code : HF_EUNAVAIL;
    if (!c->start)
        return hfd_error(err, HF_EPROTO, "mysql", 0,
                         "the server does not say when it was started");
    return 0;
}

/* ---- Addresses that are known ------------------------------------------- */

static bool recall(my_port *port, const char *sid, char ret[SQL_BELL_MAX])
{
    bool found = false;

    pthread_mutex_lock(&port->known_mu);
    for (int i = 0; i < MY_KNOWN && !found; i++) {
        if (strcmp(port->known[i].sid, sid) == 0) {
            memcpy(ret, port->known[i].bell, SQL_BELL_MAX);
            found = true;
        }
    }
    pthread_mutex_unlock(&port->known_mu);
    return found;
}

/* bell "": forget it. */
static void note(my_port *port, const char *sid, const char *bell)
{
    my_known *at = NULL;

    pthread_mutex_lock(&port->known_mu);
    for (int i = 0; i < MY_KNOWN && !at; i++) {
        if (strcmp(port->known[i].sid, sid) == 0)
            at = &port->known[i];
    }
    if (!at && *bell)
        at = &port->known[port->known_next++ % MY_KNOWN];
    if (at) {
        snprintf(at->sid, sizeof at->sid, "%s", *bell ? sid : "");
        snprintf(at->bell, sizeof at->bell, "%s", bell);
    }
    pthread_mutex_unlock(&port->known_mu);
}

/* Ask their rows; what has no bell stays unknown. */
static void look_up(my_conn *c, const char *const *sids, size_t n,
                    hf_nsec deadline)
{
    my_port *port = (my_port *)c->base.port;
    const hf_store *store = port->base.store;
    const char *params[SQL_PARAMS];
    sql_rows rows = {0};

    if (n == 0 || !store->texts)
        return;
    for (size_t i = 0; i < SQL_PARAMS; i++)
        params[i] = sids[i < n ? i : 0];
    if (my_run(&c->base, &store->texts[SQL_SESSIONS], params, deadline, &rows,
               NULL, NULL) == SQL_DONE) {
        for (size_t i = 0; i < rows.rows; i++) {
            const char *sid = sql_cell(&rows, i, 0);
            const char *bell = sql_cell(&rows, i, BELL_COLUMN);

            if (sid && bell)
                note(port, sid, bell);
        }
    }
    sql_rows_done(&rows);
}

/* ---- Ringing ------------------------------------------------------------ */

/* false: nobody is there. */
static bool ring(my_conn *c, const char *bell, hf_nsec deadline)
{
    my_port *port = (my_port *)c->base.port;
    char text[64];
    uint64_t number;
    int64_t start;
    sql_rows rows = {0};
    hf_error err = {0};

    if (sscanf(bell, "%" SCNu64 "@%" SCNd64, &number, &start) != 2 ||
        start != c->start)
        return false;
    snprintf(text, sizeof text, "KILL QUERY %" PRIu64, number);
    if (my_say(&c->base, text, deadline, &rows, &err) == SQL_DONE)
        err.native = 0;
    sql_rows_done(&rows);
    if (err.native == NOT_OURS && !atomic_exchange(&port->stranger_told, true))
        hfd_log(HF_LOG_WARN,
                "mysql: a session of another account waits on %.80s and cannot "
                "be rung: let all use one account (until then it looks)",
                port->base.where);
    return err.native != NOBODY;
}

/* Those of one look-up. */
static void wake_some(my_conn *c, const sql_wake *wakes, size_t n,
                      hf_nsec deadline)
{
    my_port *port = (my_port *)c->base.port;
    const char *again[SQL_MANY];
    char bell[SQL_BELL_MAX];
    size_t unknown = 0;

    for (size_t i = 0; i < n; i++) {
        if (recall(port, wakes[i].sid, bell) && ring(c, bell, deadline))
            continue;
        note(port, wakes[i].sid, "");
        again[unknown++] = wakes[i].sid;
    }
    look_up(c, again, unknown, deadline);
    for (size_t i = 0; i < unknown && !c->broken; i++) {
        if (recall(port, again[i], bell))
            (void)ring(c, bell, deadline);
    }
}

void my_wake(sql_conn *conn, const sql_wake *wakes, size_t n, hf_nsec deadline)
{
    my_conn *c = (my_conn *)conn;
    hf_error err;

    if (my_server_start(c, deadline, &err) != 0)
        return;
    for (size_t i = 0; i < n && !c->broken; i += SQL_MANY)
        wake_some(c, wakes + i, n - i < SQL_MANY ? n - i : SQL_MANY, deadline);
}
