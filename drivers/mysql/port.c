/* port.c - a MariaDB or MySQL database as a port: what the URL says about it.
 *
 * Answers: what is in the URL of MariaDB alone, and which words does it know?
 * Where it is, as whom and how secret is read by sql/place.c, as for every
 * database.
 *
 * Which words: asked of the server itself, by the first connection, which is
 * kept and becomes the first of the pool. */
#include <string.h>

#include "my.h"

enum { OPEN_MS = 10000 };

static void close_port(sql_port *base)
{
    my_port *port = (my_port *)base;
    my_conn *spare = atomic_exchange(&port->spare, NULL);

    if (spare)
        my_disconnect(&spare->base, false);
    my_bell_done(port);
    pthread_mutex_destroy(&port->known_mu);
    sql_place_done(&port->place);
    hfd_free(port);
}

static void abandon_port(sql_port *base)
{
    my_port *port = (my_port *)base;
    my_conn *spare = atomic_load(&port->spare);

    if (spare)
        my_abandon(&spare->base);
    my_bell_abandon(port);
}

static const sql_port_class my_class = {
    .driver = "mysql",
    .counts = true,
    .connect = my_connect,
    .disconnect = my_disconnect,
    .abandon = my_abandon,
    .stands = my_stands,
    .run = my_run,
    .say = my_say,
    .listen = my_listen,
    .unlisten = my_unlisten,
    .wake = my_wake,
    .fd = my_fd,
    .dispatch = my_dispatch,
    .close = close_port,
    .abandon_port = abandon_port,
    .probe = my_probe,
};

/* ---- The URL ------------------------------------------------------------ */

static int read_place(my_port *port, const hf_url *url, hf_error *err)
{
    static const sql_place_words words = {"mysql", "socket", 3306};
    const char *path = hfd_url_path(url);
    const char *socket = hfd_url_option(url, "socket");
    int code;

    if (socket && (*socket != '/' || hfd_url_host_count(url) > 0))
        return hfd_error(err, HF_EURL, "mysql", 0,
                         "option socket is the path of a Unix socket, without "
                         "a host: mysql:///database?socket=/run/mysqld/"
                         "mysqld.sock");
    if (!path[0] || strcmp(path, "/") == 0)
        return hfd_error(err, HF_EURL, "mysql", 0,
                         "the URL names no database: mysql://host/database");
    code = sql_place_read(&port->place, url, &words, err);
    if (code == 0 && port->place.tls == SQL_TLS_YES && socket)
        return hfd_error(err, HF_EURL, "mysql", 0,
                         "tls=yes is for TCP: a Unix socket needs none");
    return code;
}

/* ---- Opening ------------------------------------------------------------ */

static int ask_server(my_port *port, hf_error *err)
{
    sql_conn *conn = NULL;
    int code = my_connect(&port->base, hfd_now() + HF_MS(OPEN_MS), &conn, err);
    my_conn *c = (my_conn *)conn;

    if (code)
        return code;
    port->base.dialect = c->returning ? &sql_mariadb : &sql_mysql;
    atomic_store(&port->spare, c);
    return 0;
}

int my_port_open(my_port **ret, const hf_url *url, hf_error *err)
{
    my_port *port = hfd_alloc(sizeof *port);
    bool returning = true;
    int code;

    if (!port)
        return hfd_error(err, HF_ENOMEM, "mysql", 0, "out of memory");
    port->base.class = &my_class;
    port->base.dialect = &sql_mysql;
    port->base.statement_ms = MY_STATEMENT_MS;
    port->bell.epoll_fd = -1;
    pthread_mutex_init(&port->known_mu, NULL);
    code = my_bell_init(port, err);
    if (code == 0)
        code = my_library(err);
    if (code == 0)
        code = read_place(port, url, err);
    if (code == 0)
        code = hfd_url_flag(url, "returning", &returning, err);
    if (code == 0) {
        port->no_returning = !returning;
        sql_place_say(&port->place, port->base.where, sizeof port->base.where);
        code = ask_server(port, err);
    }
    if (code) {
        close_port(&port->base);
        return code;
    }
    *ret = port;
    return 0;
}
