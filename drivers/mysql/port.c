/* port.c - a MariaDB or MySQL database as a port: what the URL says about it.
 *
 * Answers: where is it, as whom, how secret, and which words does it know?  The
 * strings of the URL, the password among them, are copied once and live in the
 * port; no message is made from them but host, port and database.
 *
 * Which words: asked of the server itself, by the first connection, which is
 * kept and becomes the first of the pool. */
#include <stdio.h>
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
    if (port->text)
        explicit_bzero(port->text, port->text_len);
    hfd_free(port->text);
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

static void copy_strings(my_port *port, const hf_url *url, sql_strings *c)
{
    const char *path = hfd_url_path(url);
    size_t n = hfd_url_host_count(url);

    port->user = sql_strings_put(c, hfd_url_user(url));
    port->password = sql_strings_put(c, hfd_url_password(url));
    port->database = sql_strings_put(c, *path == '/' ? path + 1 : path);
    port->socket = sql_strings_put(c, hfd_url_option(url, "socket"));
    port->ca_file = sql_strings_put(c, hfd_url_option(url, "ca_file"));
    port->cert_file = sql_strings_put(c, hfd_url_option(url, "cert_file"));
    port->key_file = sql_strings_put(c, hfd_url_option(url, "key_file"));
    for (size_t i = 0; i < n; i++) {
        unsigned number = hfd_url_port(url, i);

        port->hosts[i] = sql_strings_put(c, hfd_url_host(url, i));
        port->ports[i] = number ? number : 3306;
    }
    if (n == 0) {
        port->hosts[n] = sql_strings_put(c, "127.0.0.1");
        port->ports[n++] = 3306;
    }
    port->host_count = n;
}

static int read_strings(my_port *port, const hf_url *url, hf_error *err)
{
    const char *path = hfd_url_path(url);
    const char *socket = hfd_url_option(url, "socket");
    sql_strings count = {0}, copy = {0};

    if (hfd_url_host_count(url) > MY_HOSTS)
        return hfd_error(err, HF_EURL, "mysql", 0, "at most %d hosts",
                         MY_HOSTS);
    if (socket && (*socket != '/' || hfd_url_host_count(url) > 0))
        return hfd_error(err, HF_EURL, "mysql", 0,
                         "option socket is the path of a Unix socket, without "
                         "a host: mysql:///database?socket=/run/mysqld/"
                         "mysqld.sock");
    if (!path[0] || strcmp(path, "/") == 0)
        return hfd_error(err, HF_EURL, "mysql", 0,
                         "the URL names no database: mysql://host/database");
    copy_strings(port, url, &count);
    port->text_len = count.len;
    copy.to = port->text = hfd_alloc(count.len + 1);
    if (!port->text)
        return hfd_error(err, HF_ENOMEM, "mysql", 0, "out of memory");
    copy_strings(port, url, &copy);
    return 0;
}

static int read_tls(my_port *port, const hf_url *url, hf_error *err)
{
    const char *tls = hfd_url_option(url, "tls");

    port->tls_verify = true;
    if (hfd_url_flag(url, "tls_verify", &port->tls_verify, err) != 0)
        return HF_EURL;
    if (!tls)
        tls = port->ca_file ? "yes" : "prefer";
    if (strcmp(tls, "yes") == 0)
        port->tls = MY_TLS_YES;
    else if (strcmp(tls, "no") == 0)
        port->tls = MY_TLS_NO;
    else if (strcmp(tls, "prefer") == 0)
        port->tls = MY_TLS_PREFER;
    else
        return hfd_error(err, HF_EURL, "mysql", 0,
                         "option tls is yes, no or prefer");
    if (port->tls != MY_TLS_YES &&
        (port->ca_file || port->cert_file || port->key_file ||
         hfd_url_option(url, "tls_verify")))
        return hfd_error(err, HF_EURL, "mysql", 0,
                         "ca_file, cert_file, key_file and tls_verify are for "
                         "tls=yes");
    if (port->tls == MY_TLS_YES && port->socket)
        return hfd_error(err, HF_EURL, "mysql", 0,
                         "tls=yes is for TCP: a Unix socket needs none");
    return 0;
}

/* "one:3306,two:3306/app" */
static void write_where(my_port *port)
{
    char *to = port->base.where;
    size_t room = sizeof port->base.where, len = 0;

    if (port->socket)
        len = (size_t)snprintf(to, room, "%.100s", port->socket);
    for (size_t i = 0; !port->socket && i < port->host_count && len < room; i++)
        len += (size_t)snprintf(to + len, room - len, "%s%.60s:%u",
                                i ? "," : "", port->hosts[i], port->ports[i]);
    if (len < room)
        snprintf(to + len, room - len, "/%.60s", port->database);
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
        code = read_strings(port, url, err);
    if (code == 0)
        code = read_tls(port, url, err);
    if (code == 0)
        code = hfd_url_flag(url, "returning", &returning, err);
    if (code == 0) {
        port->no_returning = !returning;
        write_where(port);
        code = ask_server(port, err);
    }
    if (code) {
        close_port(&port->base);
        return code;
    }
    *ret = port;
    return 0;
}
