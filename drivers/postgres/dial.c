/* dial.c - a connection to PostgreSQL: made, looked at, ended.
 *
 * Answers: how do we come to a connection that stands by a deadline, with the
 * settings that our statements need, and how do we leave it?  Knows nothing of
 * statements' meaning.
 *
 * libpq connects without blocking, driven from here, so that a deadline holds
 * (but for the resolver of names, which knows none).  Hosts are tried one by
 * one, each with its share of the time: a dead first one does not eat it all.
 *
 * The settings go out in one round trip.  Behind a pooler of transactions the
 * server's session is not ours: settings would reach other people.  A pooler
 * gives itself away by the process number in the handshake, which is its own
 * invention and not the server's; the very statement that sets them compares
 * the two, and behind a pooler they last for that statement alone.
 *
 * Two of us here: a connection has one owner.  Paused here: the server sees an
 * idle session.  After a statement that was given up the connection is ended by
 * a reset, so that its bytes do not arrive later. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "postgres.h"

enum { SETUP_MAX = 1400, OPTIONS_MAX = 20 };

int pg_wait(int fd, short events, hf_nsec deadline)
{
    struct pollfd poll_fd = {.fd = fd, .events = events};

    for (;;) {
        hf_nsec left =
            deadline == HF_NEVER ? HF_MS(3600000) : deadline - hfd_now();
        struct timespec wait = {.tv_sec = left / HF_MS(1000),
                                .tv_nsec = left % HF_MS(1000)};
        int n;

        if (left <= 0)
            wait = (struct timespec){0};
        n = ppoll(&poll_fd, 1, &wait, NULL);
        if (n > 0)
            return poll_fd.revents;
        if (n == 0 && left <= 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return POLLERR;
    }
}

/* ---- Ending ------------------------------------------------------------- */

void pg_disconnect(sql_conn *conn, bool reset)
{
    pg_conn *c = (pg_conn *)conn;

    if (!c)
        return;
    if (reset)
        sql_reset_socket(PQsocket(c->pg));
    PQfinish(c->pg);
    for (unsigned i = 0; i < c->named_count; i++)
        hfd_free(c->named[i].text);
    hfd_free(c);
}

/* The memory stays: libpq would say goodbye on the parent's connection. */
void pg_abandon(sql_conn *conn)
{
    int fd = PQsocket(((pg_conn *)conn)->pg);

    if (fd >= 0)
        close(fd);
}

bool pg_stands(sql_conn *conn)
{
    pg_conn *c = (pg_conn *)conn;
    int fd = PQsocket(c->pg);
    int seen;

    if (c->broken || fd < 0 || PQstatus(c->pg) != CONNECTION_OK)
        return false;
    seen = pg_wait(fd, POLLIN | POLLRDHUP, 0);
    if (seen & POLLIN) {
        /* A setting that was changed, a notice; or its last words. */
        if (!PQconsumeInput(c->pg))
            c->broken = true;
        (void)PQisBusy(c->pg);
    }
    if ((seen & ~POLLIN) || PQstatus(c->pg) != CONNECTION_OK)
        c->broken = true;
    return !c->broken;
}

/* ---- Connecting --------------------------------------------------------- */

/* What the server says beside an answer. */
static void on_notice(void *arg, const PGresult *notice)
{
    pg_conn *c = arg;
    const char *severity =
        PQresultErrorField(notice, PG_DIAG_SEVERITY_NONLOCALIZED);

    if (pg_is_unreplicated(notice))
        c->doubt = true;
    else if (severity && strcmp(severity, "FATAL") == 0)
        c->broken = true; /* it ended an idle connection */
}

static const char *ssl_mode(const sql_place *place)
{
    if (place->tls != SQL_TLS_YES)
        return place->tls == SQL_TLS_NO ? "disable" : "prefer";
    return place->tls_verify ? "verify-full" : "require";
}

static PGconn *start_dial(const sql_place *place, size_t host)
{
    char number[16];
    const char *names[OPTIONS_MAX], *values[OPTIONS_MAX];
    const char *const all[][2] = {
        {"host", place->socket ? place->socket : place->hosts[host]},
        {"port", number},
        {"user", place->user},
        {"password", place->password},
        {"dbname", place->database},
        {"sslmode", ssl_mode(place)},
        {"sslrootcert", place->ca_file},
        {"sslcert", place->cert_file},
        {"sslkey", place->key_file},
        {"gssencmode", "disable"},
        {"target_session_attrs", "read-write"},
        {"application_name", "holdfast"},
        {"client_encoding", "UTF8"},
        {"keepalives_idle", "5"},
        {"keepalives_interval", "2"},
        {"keepalives_count", "3"},
    };
    size_t n = 0;

    _Static_assert(sizeof all / sizeof *all < OPTIONS_MAX, "room");
    snprintf(number, sizeof number, "%u", place->ports[host]);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (!all[i][1] || !*all[i][1])
            continue;
        names[n] = all[i][0];
        values[n++] = all[i][1];
    }
    names[n] = values[n] = NULL;
    return PQconnectStartParams(names, values, 0);
}

static int drive_dial(pg_conn *c, const char *where, hf_nsec deadline,
                      hf_error *err)
{
    PostgresPollingStatusType state = PGRES_POLLING_WRITING;

    if (PQstatus(c->pg) == CONNECTION_BAD)
        return pg_judge_dial(c->pg, where, err);
    PQsetErrorVerbosity(c->pg, PQERRORS_VERBOSE);
    PQsetNoticeReceiver(c->pg, on_notice, c);
    while (state != PGRES_POLLING_OK) {
        if (!pg_wait(PQsocket(c->pg),
                     state == PGRES_POLLING_READING ? POLLIN : POLLOUT,
                     deadline))
            return hfd_error(err, HF_EUNAVAIL, "postgres", 0,
                             "no answer from %s in time", where);
        state = PQconnectPoll(c->pg);
        if (state == PGRES_POLLING_FAILED)
            return pg_judge_dial(c->pg, where, err);
    }
    if (PQsetnonblocking(c->pg, 1) != 0)
        return hfd_error(err, HF_ENOMEM, "postgres", 0, "out of memory");
    return 0;
}

/* $p is true behind a pooler: then for this statement alone.
 * synchronous_commit is raised to `on` where it is lower, never lowered. */
static void write_setup(const pg_port *port, const pg_conn *c,
                        char ret[SETUP_MAX])
{
    static const char *const pooled[] = {[PG_POOLER_ASK] = "",
                                         [PG_POOLER_YES] = " OR true",
                                         [PG_POOLER_NO] = " AND false"};

    snprintf(
        ret, SETUP_MAX,
        "SELECT pg_backend_pid(),"
        " set_config('statement_timeout', '%u', p),"
        " set_config('lock_timeout', '%d', p),"
        " set_config('idle_in_transaction_session_timeout', '2000', p),"
        "%s"
        " set_config('default_transaction_isolation', 'read committed', p),"
        " set_config('synchronous_commit',"
        " CASE WHEN current_setting('synchronous_commit') IN"
        " ('off', 'local', 'remote_write') THEN 'on'"
        " ELSE current_setting('synchronous_commit') END, p)"
        " FROM (SELECT pg_backend_pid() <> %d%s AS p) AS s",
        port->base.statement_ms, PG_LOCK_MS,
        PQserverVersion(c->pg) >= 140000
            ? " set_config('idle_session_timeout', '0', p),"
            : "",
        PQbackendPID(c->pg), pooled[port->pooler]);
}

static int set_up(pg_port *port, pg_conn *c, hf_nsec deadline, hf_error *err)
{
    char text[SETUP_MAX];
    sql_rows rows = {0};
    int code = 0;

    write_setup(port, c, text);
    if (pg_say(&c->base, text, deadline, &rows, err) != SQL_DONE) {
        code = err && err->code ? err->code : HF_EUNAVAIL;
    } else if (port->pooler == PG_POOLER_YES ||
               (port->pooler == PG_POOLER_ASK &&
                sql_number(&rows, 0, 0, -1) != PQbackendPID(c->pg))) {
        if (!atomic_exchange(&port->pooled, true))
            port->base.mute = true;
    }
    sql_rows_done(&rows);
    return code;
}

static int connect_to(pg_port *port, size_t host, hf_nsec deadline,
                      pg_conn **ret, hf_error *err)
{
    pg_conn *c = hfd_alloc(sizeof *c);
    char where[120];
    int code;

    if (!c)
        return hfd_error(err, HF_ENOMEM, "postgres", 0, "out of memory");
    sql_place_say_host(&port->place, host, where, sizeof where);
    c->base.port = &port->base;
    c->pg = start_dial(&port->place, host);
    if (!c->pg)
        code = hfd_error(err, HF_ENOMEM, "postgres", 0, "out of memory");
    else
        code = drive_dial(c, where, deadline, err);
    if (code == 0)
        code = set_up(port, c, deadline, err);
    if (code) {
        pg_disconnect(&c->base, true);
        return code;
    }
    *ret = c;
    return 0;
}

int pg_connect(sql_port *base, hf_nsec deadline, sql_conn **ret, hf_error *err)
{
    pg_port *port = (pg_port *)base;
    hf_error why = {0};
    pg_conn *c = NULL;
    int code = HF_EUNAVAIL;

    for (size_t i = 0; i < port->place.host_count; i++) {
        code = connect_to(port, i, sql_place_turn(&port->place, i, deadline),
                          &c, &why);
        if (code == 0) {
            *ret = &c->base;
            return 0;
        }
        if (code == HF_ENOMEM)
            break;
    }
    if (err)
        *err = why;
    return code;
}
