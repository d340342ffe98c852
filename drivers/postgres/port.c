/* port.c - a PostgreSQL database as a port: what the URL says about it.
 *
 * Answers: where is it, as whom, how secret?  The strings of the URL, the
 * password among them, are copied once and live in the port; no message is made
 * from them but host, port and database.  What is not in the URL is libpq's
 * own: ~/.pgpass, PGPASSWORD. */
#include <stdio.h>
#include <string.h>

#include "postgres.h"

static void close_port(sql_port *base)
{
    pg_port *port = (pg_port *)base;

    pg_ear_done(port);
    hfd_free(port->text);
    hfd_free(port);
}

static void abandon_port(sql_port *base)
{
    pg_ear_abandon((pg_port *)base);
}

static const sql_port_class pg_class = {
    .driver = "postgres",
    .connect = pg_connect,
    .disconnect = pg_disconnect,
    .abandon = pg_abandon,
    .stands = pg_stands,
    .run = pg_run,
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

static void copy_strings(pg_port *port, const hf_url *url, sql_strings *c)
{
    const char *path = hfd_url_path(url), *socket = hfd_url_option(url, "host");
    size_t n = hfd_url_host_count(url);

    port->user = sql_strings_put(c, hfd_url_user(url));
    port->password = sql_strings_put(c, hfd_url_password(url));
    port->database = sql_strings_put(c, *path == '/' ? path + 1 : path);
    port->ca_file = sql_strings_put(c, hfd_url_option(url, "ca_file"));
    port->cert_file = sql_strings_put(c, hfd_url_option(url, "cert_file"));
    port->key_file = sql_strings_put(c, hfd_url_option(url, "key_file"));
    for (size_t i = 0; i < n; i++) {
        unsigned number = hfd_url_port(url, i);

        port->hosts[i] = sql_strings_put(c, hfd_url_host(url, i));
        snprintf(port->ports[i], sizeof port->ports[i], "%u",
                 number ? number : 5432U);
    }
    if (n == 0) {
        port->hosts[n] = sql_strings_put(c, socket ? socket : "127.0.0.1");
        snprintf(port->ports[n++], sizeof port->ports[0], "5432");
    }
    port->host_count = n;
}

static int read_strings(pg_port *port, const hf_url *url, hf_error *err)
{
    const char *socket = hfd_url_option(url, "host");
    sql_strings count = {0}, copy = {0};

    if (hfd_url_host_count(url) > PG_HOSTS)
        return hfd_error(err, HF_EURL, "postgres", 0, "at most %d hosts",
                         PG_HOSTS);
    if (socket && (*socket != '/' || hfd_url_host_count(url) > 0))
        return hfd_error(err, HF_EURL, "postgres", 0,
                         "option host is the folder of a Unix socket, alone: "
                         "postgres:///database?host=/run/postgresql");
    copy_strings(port, url, &count);
    copy.to = port->text = hfd_alloc(count.len + 1);
    if (!port->text)
        return hfd_error(err, HF_ENOMEM, "postgres", 0, "out of memory");
    copy_strings(port, url, &copy);
    return 0;
}

static int read_tls(pg_port *port, const hf_url *url, hf_error *err)
{
    const char *tls = hfd_url_option(url, "tls");
    bool verify = true;

    if (hfd_url_flag(url, "tls_verify", &verify, err) != 0)
        return HF_EURL;
    if (!tls)
        tls = port->ca_file ? "yes" : "prefer";
    if (strcmp(tls, "yes") == 0)
        port->sslmode = verify ? "verify-full" : "require";
    else if (strcmp(tls, "no") == 0)
        port->sslmode = "disable";
    else if (strcmp(tls, "prefer") == 0)
        port->sslmode = "prefer";
    else
        return hfd_error(err, HF_EURL, "postgres", 0,
                         "option tls is yes, no or prefer");
    if (strcmp(tls, "yes") != 0 &&
        (port->ca_file || port->cert_file || port->key_file ||
         hfd_url_option(url, "tls_verify")))
        return hfd_error(err, HF_EURL, "postgres", 0,
                         "ca_file, cert_file, key_file and tls_verify are for "
                         "tls=yes");
    return 0;
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

/* "one:5432,two:5432/app" */
static void write_where(pg_port *port)
{
    char *to = port->base.where;
    size_t room = sizeof port->base.where, len = 0;

    for (size_t i = 0; i < port->host_count && len < room; i++)
        len += (size_t)snprintf(to + len, room - len, "%s%.60s:%s",
                                i ? "," : "", port->hosts[i], port->ports[i]);
    if (port->database && len < room)
        snprintf(to + len, room - len, "/%.60s", port->database);
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
        code = read_strings(port, url, err);
    if (code == 0)
        code = read_tls(port, url, err);
    if (code == 0)
        code = read_pooler(port, url, err);
    if (code) {
        close_port(&port->base);
        return code;
    }
    write_where(port);
    *ret = port;
    return 0;
}
