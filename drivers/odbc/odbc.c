/* odbc.c - the odbc driver: URL in, store out.
 *
 *     odbc:DSN?options
 *     odbc:Driver=PostgreSQL Unicode;Server=...;Database=...?options
 *
 * What stands before the '?' is the name of a data source or, if it has a '=',
 * a connection string for the driver manager; whatever has a meaning in a URL
 * ('%', '?', '#') is percent-encoded there.  Everything that a lock is, is in
 * drivers/sql; this folder carries statements.
 *
 * Which database it is must be known before the store is opened (its words
 * depend on it), so open connects once and the store gets that connection as
 * its first. */
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "odbc.h"
#include "sql/ddl.h"

static const hf_nsec first_time = HF_MS(5000); /* for the first connect */

static const sql_format *const formats[] = {
    &sql_native, &sql_spring, &sql_dlock, &sql_shedlock, &sql_rowlock, NULL};

static const char *const option_names[] = {SQL_OPTIONS, "dialect", "user",
                                           "password", NULL};

/* ---- The connection string ---- */

static bool add_text(odbc_port *port, const char *text)
{
    size_t len = strlen(port->string);

    if (len + strlen(text) >= sizeof port->string)
        return false;
    memcpy(port->string + len, text, strlen(text) + 1);
    return true;
}

/* ";Name=value", in braces where it needs them; in there '}' is doubled. */
static bool add_pair(odbc_port *port, const char *name, const char *value)
{
    bool braces = strpbrk(value, "[]{}(),;?*=!@ ") != NULL;
    bool ok = add_text(port, name) && add_text(port, braces ? "{" : "");

    for (; ok && *value; value++) {
        char piece[3] = {*value, *value == '}' && braces ? '}' : '\0', '\0'};

        ok = add_text(port, piece);
    }
    return ok && add_text(port, braces ? "}" : "");
}

/* The value of a name in a connection string, as it stands there. */
static const char *find_value(const char *string, const char *name, size_t *len)
{
    size_t name_len = strlen(name);

    while (*string) {
        const char *equals = string + strcspn(string, "=;");
        bool here = *equals == '=' && (size_t)(equals - string) == name_len &&
                    strncasecmp(string, name, name_len) == 0;
        const char *value = *equals == '=' ? equals + 1 : equals;
        const char *end = value + strcspn(value, ";");

        if (*value == '{' && strchr(value, '}'))
            end = strchr(value, '}') + strcspn(strchr(value, '}'), ";");
        *len = (size_t)(end - value);
        if (here)
            return value;
        string = *end ? end + 1 : end;
        string += strspn(string, " ");
    }
    return NULL;
}

static void note_secret(odbc_port *port)
{
    static const char *const names[] = {"PWD", "Password"};
    size_t len;

    for (size_t i = 0; i < 2; i++) {
        const char *value = find_value(port->string, names[i], &len);

        if (value && len > 0 && len < sizeof port->secret)
            snprintf(port->secret, sizeof port->secret, "%.*s", (int)len,
                     value);
    }
}

/* "Driver at server:port/database", as far as the string says so. */
static void note_where(odbc_port *port)
{
    static const char *const names[] = {"DSN", "Server", "Port", "Database"};
    size_t used = 0, len;

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = find_value(port->string, names[i], &len);

        if (value && used + len + 2 < sizeof port->base.where)
            used += (size_t)snprintf(
                port->base.where + used, sizeof port->base.where - used,
                "%s%.*s", used ? (i == 2 ? ":" : "/") : "", (int)len, value);
    }
    if (!used)
        snprintf(port->base.where, sizeof port->base.where, "ODBC");
}

static int make_string(odbc_port *port, const hf_url *url, hf_error *err)
{
    const char *path = hfd_url_path(url);
    const char *user = hfd_url_option(url, "user");
    const char *password = hfd_url_option(url, "password");
    bool ok;

    if (hfd_url_host_count(url) > 0 || *path == '/' || !*path)
        return hfd_error(err, HF_EURL, "odbc", 0,
                         "behind 'odbc:' stands the name of a data source, or "
                         "a connection string: odbc:Driver=...;Server=...");
    ok = add_text(port, strchr(path, '=') ? "" : "DSN=") &&
         add_text(port, path) && (!user || add_pair(port, ";UID=", user)) &&
         (!password || add_pair(port, ";PWD=", password));
    if (!ok)
        return hfd_error(err, HF_EURL, "odbc", 0,
                         "the connection string is too long");
    note_secret(port);
    if (password)
        snprintf(port->secret, sizeof port->secret, "%s", password);
    note_where(port);
    return 0;
}

static int choose_dialect(odbc_port *port, const hf_url *url, hf_error *err)
{
    const char *name = hfd_url_option(url, "dialect");

    if (!name)
        return 0;
    port->known = odbc_known_named(name);
    if (!port->known)
        return hfd_error(err, HF_EURL, "odbc", 0,
                         "option 'dialect' is postgres, mariadb, mysql, "
                         "sqlite or generic, not '%.40s'",
                         name);
    return 0;
}

/* ---- The port ---- */

static void odbc_close(sql_port *base)
{
    odbc_port *port = (odbc_port *)base;

    if (port->first)
        odbc_disconnect(&port->first->base, false);
    if (port->env)
        SQLFreeHandle(SQL_HANDLE_ENV, port->env);
    odbc_guard_done(&port->guard);
    pthread_mutex_destroy(&port->mu);
    explicit_bzero(port->string, sizeof port->string);
    explicit_bzero(port->secret, sizeof port->secret);
    hfd_free(port);
}

static void odbc_abandon_port(sql_port *base)
{
    odbc_port *port = (odbc_port *)base;

    if (port->first)
        odbc_abandon(&port->first->base);
    close(port->guard.bell);
}

static const sql_port_class odbc_class = {
    .driver = "odbc",
    .connect = odbc_connect,
    .disconnect = odbc_disconnect,
    .abandon = odbc_abandon,
    .stands = odbc_stands,
    .run = odbc_run,
    .say = odbc_say,
    .wake = odbc_wake,
    .close = odbc_close,
    .abandon_port = odbc_abandon_port,
    .probe = odbc_probe,
};

static odbc_port *make_port(hf_error *err)
{
    odbc_port *port = hfd_alloc(sizeof *port);

    if (!port || odbc_guard_init(&port->guard) != 0) {
        hfd_free(port);
        hfd_error(err, HF_ENOMEM, "odbc", 0, "out of memory");
        return NULL;
    }
    pthread_mutex_init(&port->mu, NULL);
    port->base.class = &odbc_class;
    port->base.statement_ms = ODBC_STATEMENT_MS;
    if (!SQL_SUCCEEDED(
            SQLAllocHandle(SQL_HANDLE_ENV, SQL_NULL_HANDLE, &port->env))) {
        port->env = NULL;
        odbc_close(&port->base);
        hfd_error(err, HF_ENOMEM, "odbc", 0,
                  "the driver manager gives no environment");
        return NULL;
    }
    SQLSetEnvAttr(port->env, SQL_ATTR_ODBC_VERSION,
                  (SQLPOINTER)(uintptr_t)SQL_OV_ODBC3, 0);
    return port;
}

int odbc_port_open(odbc_port **ret, const hf_url *url, hf_error *err)
{
    odbc_port *port = make_port(err);
    sql_conn *conn = NULL;
    int code;

    if (!port)
        return HF_ENOMEM;
    code = make_string(port, url, err);
    if (code == 0)
        code = choose_dialect(port, url, err);
    if (code == 0)
        code = odbc_connect(&port->base, hfd_now() + first_time, &conn, err);
    if (code) {
        odbc_close(&port->base);
        return code;
    }
    port->first = (odbc_conn *)conn;
    *ret = port;
    return 0;
}

static int odbc_open(hf_store **ret, const hf_url *url, const hf_host *host,
                     uint32_t *ret_caps, hf_error *err)
{
    odbc_port *port = NULL;
    int code = odbc_port_open(&port, url, err);

    return code ? code
                : sql_store_open(ret, &port->base, formats, url, host, ret_caps,
                                 err);
}

/* ---- The driver ---- */

static int odbc_ddl(const hf_url *url, bool guard, hf_ddl_fn *fn, void *user,
                    hf_error *err)
{
    const char *name = hfd_url_option(url, "dialect");
    const odbc_known *known = odbc_known_named(name ? name : "generic");

    if (!known)
        known = odbc_known_named("generic");
    return sql_ddl(known->dialect, formats, url, guard, fn, user, err);
}

static const hf_driver odbc_driver = {
    HF_DRIVER_HEAD,
    .name = "odbc",
    .schemes = "odbc",
    .options = option_names,
    .open = odbc_open,
    .close = sql_store_close,
    .abandon = sql_store_abandon,
    .start = sql_store_start,
    .fd = sql_store_fd,
    .dispatch = sql_store_dispatch,
    .ddl = odbc_ddl,
};
HF_DRIVER_EXPORT(odbc_driver);
