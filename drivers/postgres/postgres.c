/* postgres.c - the postgres driver.
 *
 *     postgres://[user[:password]@]host[:port][,host2...]/database?options
 *     postgres:///database?host=/run/postgresql      a Unix socket
 *
 * Everything that a lock is stands in drivers/sql; the URL becomes a port on
 * libpq (port.c), and that becomes a store.  Here is only the table by which
 * the core finds both. */
#include "postgres.h"
#include "sql/ddl.h"
#include "sql/format.h"

static const char *const option_names[] = {
    SQL_OPTIONS, "host",     "pooler",     "tls", "ca_file",
    "cert_file", "key_file", "tls_verify", NULL};

static const sql_format *const formats[] = {
    &sql_native,  &sql_spring,  &sql_dlock, &sql_shedlock,
    &sql_rowlock, &pg_advisory, NULL};

static int pg_open(hf_store **ret, const hf_url *url, const hf_host *host,
                   uint32_t *ret_caps, hf_error *err)
{
    pg_port *port = NULL;
    int code = pg_port_open(&port, url, err);

    if (code)
        return code;
    return sql_store_open(ret, &port->base, formats, url, host, ret_caps, err);
}

static int pg_ddl(const hf_url *url, bool guard, hf_ddl_fn *fn, void *user,
                  hf_error *err)
{
    return sql_ddl(&sql_postgres, formats, url, guard, fn, user, err);
}

static const hf_driver pg_driver = {
    HF_DRIVER_HEAD,
    .name = "postgres",
    .schemes = "postgres postgresql",
    .options = option_names,
    .open = pg_open,
    .close = sql_store_close,
    .abandon = sql_store_abandon,
    .start = sql_store_start,
    .fd = sql_store_fd,
    .dispatch = sql_store_dispatch,
    .ddl = pg_ddl,
};
HF_DRIVER_EXPORT(pg_driver);
