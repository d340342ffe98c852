/* probe.c - ask a live PostgreSQL server what doctor wants to know.
 *
 * One statement, which reads what every role may read and changes nothing: a
 * sick server must not be made worse by asking.  What all SQL stores share
 * (tables, rights, clock, the listener) is asked in drivers/sql.  A server that
 * does not answer this one is a finding, not a failure: the rest has been told.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "probe.h"

enum { TEXT_MAX = 4200, NAME_MAX_ = 200 };

/* What stands in the columns of the answer. */
enum {
    VERSION,
    VERSION_NUMBER,
    STANDBY,
    FSYNC,
    FULL_PAGES,
    COMMIT,
    COPIES,
    WAITED_FOR,
    ISOLATION,
    STATEMENT_MS,
    IDLE_MS,
    CONNECTIONS,
    CONNECTION_LIMIT,
    UNLOGGED,
    LIVE,
    DEAD
};

static const char question[] =
    "SELECT current_setting('server_version'),"
    " current_setting('server_version_num'),"
    " pg_is_in_recovery(), current_setting('fsync'),"
    " current_setting('full_page_writes'),"
    " current_setting('synchronous_commit'),"
    " (SELECT count(*) FROM pg_stat_replication),"
    " current_setting('synchronous_standby_names') <> '',"
    " current_setting('default_transaction_isolation'),"
    " (SELECT setting FROM pg_settings WHERE name = 'statement_timeout'),"
    " (SELECT setting FROM pg_settings WHERE name = 'idle_session_timeout'),"
    " (SELECT sum(numbackends) FROM pg_stat_database),"
    " current_setting('max_connections'),"
    " (SELECT count(*) FROM pg_class WHERE relpersistence = 'u' AND oid IN"
    " (%s)),"
    " (SELECT sum(n_live_tup) FROM pg_stat_all_tables WHERE relid IN (%s)),"
    " (SELECT sum(n_dead_tup) FROM pg_stat_all_tables WHERE relid IN (%s))";

static void copy_cell(const sql_rows *rows, size_t col, char *to, size_t room)
{
    const char *text = sql_cell(rows, 0, col);

    snprintf(to, room, "%s", text ? text : "");
}

static bool cell_is(const sql_rows *rows, size_t col, const char *text)
{
    const char *cell = sql_cell(rows, 0, col);

    return cell && strcmp(cell, text) == 0;
}

static void note_answer(const sql_rows *rows, pg_facts *f)
{
    copy_cell(rows, VERSION, f->version, sizeof f->version);
    f->version_number = sql_number(rows, 0, VERSION_NUMBER, -1);
    f->standby = cell_is(rows, STANDBY, "t");
    f->fsync = cell_is(rows, FSYNC, "on");
    f->full_pages = cell_is(rows, FULL_PAGES, "on");
    copy_cell(rows, COMMIT, f->commit, sizeof f->commit);
    f->copies = sql_number(rows, 0, COPIES, -1);
    f->copies_waited_for = cell_is(rows, WAITED_FOR, "t");
    copy_cell(rows, ISOLATION, f->isolation, sizeof f->isolation);
    f->statement_ms = sql_number(rows, 0, STATEMENT_MS, 0);
    f->idle_ms = sql_number(rows, 0, IDLE_MS, 0);
    f->connections = sql_number(rows, 0, CONNECTIONS, -1);
    f->connection_limit = sql_number(rows, 0, CONNECTION_LIMIT, -1);
    f->unlogged = sql_number(rows, 0, UNLOGGED, 0);
    f->live_rows = sql_number(rows, 0, LIVE, 0);
    f->dead_rows = sql_number(rows, 0, DEAD, 0);
}

static bool host_is_local(const char *host)
{
    struct in_addr four;
    struct in6_addr six;

    if (!host || *host == '/')
        return true;
    if (inet_pton(AF_INET, host, &four) == 1)
        return (ntohl(four.s_addr) >> 24) == 127;
    if (inet_pton(AF_INET6, host, &six) == 1)
        return IN6_IS_ADDR_LOOPBACK(&six);
    return strcasecmp(host, "localhost") == 0;
}

bool pg_ask_facts(sql_conn *conn, const char *schema, const char *prefix,
                  hf_nsec deadline, pg_facts *ret, hf_error *err)
{
    static const char *const tables[] = {"@meta", "@session", "@queue",
                                         "@value"};
    pg_conn *c = (pg_conn *)conn;
    pg_port *port = (pg_port *)conn->port;
    char name[SQL_TEXT_MAX], list[4 * NAME_MAX_], text[TEXT_MAX];
    sql_rows rows = {0};
    size_t len = 0;
    bool good;

    for (size_t i = 0; i < 4; i++) {
        if (sql_render_one(name, port->base.dialect, schema, prefix, tables[i],
                           err) != 0)
            return false;
        len += (size_t)snprintf(list + len, sizeof list - len,
                                "%sto_regclass('%.150s')", i ? ", " : "", name);
    }
    snprintf(text, sizeof text, question, list, list, list);
    *ret = (pg_facts){
        .pooled = atomic_load(&port->pooled),
        .tls = PQsslInUse(c->pg) != 0,
        .verified = port->place.tls == SQL_TLS_YES && port->place.tls_verify,
        .local = host_is_local(PQhost(c->pg)),
    };
    good = pg_say(conn, text, deadline, &rows, err) == SQL_DONE;
    if (good)
        note_answer(&rows, ret);
    sql_rows_done(&rows);
    return good;
}

void pg_probe(sql_conn *conn, hf_op *op)
{
    const hf_store *store = conn->port->store;
    pg_facts facts;
    hf_error err = {0};

    if (!pg_ask_facts(conn, store->schema, store->prefix, op->deadline, &facts,
                      &err)) {
        op->emit_finding(HF_WARN, "settings", err.text, op->user);
        return;
    }
    facts.strict = store->strict;
    facts.lease = op->ttl;
    pg_judge_facts(&facts, op->emit_finding, op->user);
}
