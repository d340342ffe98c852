/* port.c - a PostgreSQL database as a port: what the URL says about it.
 *
 * Answers: what is in the URL of PostgreSQL alone?  Where it is, as whom and
 * how secret is read by sql/place.c, as for every database.  What is not in the
 * URL is libpq's own: ~/.pgpass, PGPASSWORD. */
#include "postgres.h"

static void close_port(sql_port *base)
{
    pg_port *port = (pg_port *)base;

    pg_ear_done(port);
    sql_place_done(&port->place);
    hfd_free(port);
}

static void abandon_port(sql_port *base)
{
    pg_ear_abandon((pg_port *)base);
}

static const sql_port_class pg_class = {
    .driver = "postgres",
    .counts = true,
    .connect = pg_connect,
    .disconnect = pg_disconnect,
    .abandon = pg_abandon,
    .stands = pg_stands,
    .run = pg_run,
    .begin = pg_begin,
    .say = pg_say,
    .listen = pg_listen,
    .unlisten = pg_unlisten,
    .wake = pg_wake,
    .fd = pg_fd,
    .dispatch = pg_dispatch,
    .close = close_port,
    .abandon_port = abandon_port,
    .probe = pg_probe,
};

/* ---- The URL ------------------------------------------------------------ */

static int read_place(pg_port *port, const hf_url *url, hf_error *err)
{
    static const sql_place_words words = {"postgres", "host", 5432};
    const char *socket = hfd_url_option(url, "host");

    if (socket && (*socket != '/' || hfd_url_host_count(url) > 0))
        return hfd_error(err, HF_EURL, "postgres", 0,
                         "option host is the folder of a Unix socket, alone: "
                         "postgres:///database?host=/run/postgresql");
    return sql_place_read(&port->place, url, &words, err);
}

static int read_pooler(pg_port *port, const hf_url *url, hf_error *err)
{
    bool pooler = false;

    if (!hfd_url_option(url, "pooler"))
        return 0;
    if (hfd_url_flag(url, "pooler", &pooler, err) != 0)
        return HF_EURL;
    port->pooler = pooler ? PG_POOLER_YES : PG_POOLER_NO;
    atomic_store(&port->pooled, pooler);
    port->base.mute = pooler;
    return 0;
}

int pg_port_open(pg_port **ret, const hf_url *url, hf_error *err)
{
    pg_port *port = hfd_alloc(sizeof *port);
    int code;

    if (!port)
        return hfd_error(err, HF_ENOMEM, "postgres", 0, "out of memory");
    port->base.class = &pg_class;
    port->base.dialect = &sql_postgres;
    port->base.statement_ms = PG_STATEMENT_MS;
    port->ear.epoll_fd = port->ear.kick_fd = -1;
    code = pg_ear_init(port, err);
    if (code == 0)
        code = read_place(port, url, err);
    if (code == 0)
        code = read_pooler(port, url, err);
    if (code) {
        close_port(&port->base);
        return code;
    }
    sql_place_say(&port->place, port->base.where, sizeof port->base.where);
    *ret = port;
    return 0;
}
