/* probe.c - ask a live MariaDB or MySQL server what doctor wants to know.
 *
 * Three questions, which read what every account may read and change nothing: a
 * sick server must not be made worse by asking.  What all SQL stores share
 * (tables, rights, clock, the listener) is asked in drivers/sql.  A server that
 * does not answer these is a finding, not a failure: the rest has been told. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "probe.h"

enum { TEXT_MAX = 900 };

/* Where a variable of the server goes. */
typedef struct place {
    const char *name;
    int64_t *number;
    char *text;
    size_t room;
} place;

static void note_rows(const sql_rows *rows, const place *places, size_t n)
{
    for (size_t row = 0; row < rows->rows; row++) {
        const char *name = sql_cell(rows, row, 0);
        const char *value = sql_cell(rows, row, 1);

        for (size_t i = 0; name && value && i < n; i++) {
            if (strcasecmp(name, places[i].name) != 0)
                continue;
            if (places[i].number)
                *places[i].number = sql_number(rows, row, 1, -1);
            else
                snprintf(places[i].text, places[i].room, "%s", value);
        }
    }
}

static bool ask(sql_conn *conn, const char *text, hf_nsec deadline,
                const place *places, size_t n, hf_error *err)
{
    sql_rows rows = {0};
    bool good = my_say(conn, text, deadline, &rows, err) == SQL_DONE;

    if (good)
        note_rows(&rows, places, n);
    sql_rows_done(&rows);
    return good;
}

static bool ask_settings(sql_conn *conn, hf_nsec deadline, my_facts *f,
                         hf_error *err)
{
    const place places[] = {
        {"wsrep_on", NULL, f->galera, sizeof f->galera},
        {"read_only", NULL, f->read_only, sizeof f->read_only},
        {"log_bin", NULL, f->binlog, sizeof f->binlog},
        {"binlog_format", NULL, f->binlog_format, sizeof f->binlog_format},
        {"innodb_doublewrite", NULL, f->doublewrite, sizeof f->doublewrite},
        {"rpl_semi_sync_master_enabled", NULL, f->semi_sync,
         sizeof f->semi_sync},
        {"rpl_semi_sync_source_enabled", NULL, f->semi_sync,
         sizeof f->semi_sync},
        {"innodb_flush_log_at_trx_commit", &f->flush, NULL, 0},
        {"sync_binlog", &f->sync_binlog, NULL, 0},
        {"wait_timeout", &f->wait_s, NULL, 0},
        {"max_connections", &f->most_connections, NULL, 0},
    };
    const place states[] = {
        {"Threads_connected", &f->connected, NULL, 0},
        {"Slaves_connected", &f->replicas, NULL, 0},
        {"Rpl_semi_sync_master_status", NULL, f->semi_sync_now,
         sizeof f->semi_sync_now},
        {"Rpl_semi_sync_source_status", NULL, f->semi_sync_now,
         sizeof f->semi_sync_now},
    };

    return ask(conn,
               "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('wsrep_on',"
               " 'read_only', 'log_bin', 'binlog_format', 'innodb_doublewrite',"
               " 'rpl_semi_sync_master_enabled',"
               " 'rpl_semi_sync_source_enabled',"
               " 'innodb_flush_log_at_trx_commit', 'sync_binlog',"
               " 'wait_timeout', 'max_connections')",
               deadline, places, sizeof places / sizeof *places, err) &&
           ask(conn,
               "SHOW GLOBAL STATUS WHERE Variable_name IN"
               " ('Threads_connected', 'Slaves_connected',"
               " 'Rpl_semi_sync_master_status',"
               " 'Rpl_semi_sync_source_status')",
               deadline, states, sizeof states / sizeof *states, err);
}

/* The account, what it may, and our tables.  Schema and prefix were checked
 * when the store was opened: letters, digits and '_'. */
static bool ask_ours(sql_conn *conn, const char *schema, const char *prefix,
                     hf_nsec deadline, my_facts *f, hf_error *err)
{
    const place places[] = {
        {"account", NULL, f->account, sizeof f->account},
        {"most", &f->most_of_account, NULL, 0},
        {"engines", &f->other_engines, NULL, 0},
    };
    char text[TEXT_MAX], in[80] = "DATABASE()";

    if (schema[0])
        snprintf(in, sizeof in, "'%.64s'", schema);
    snprintf(text, sizeof text,
             "SELECT 'account', CURRENT_USER() UNION ALL"
             " SELECT 'most', @@max_user_connections UNION ALL"
             " SELECT 'engines', COUNT(*) FROM information_schema.TABLES"
             " WHERE TABLE_SCHEMA = %s AND ENGINE <> 'InnoDB' AND TABLE_NAME IN"
             " ('%.60squeue', '%.60ssession', '%.60smeta', '%.60svalue')",
             in, prefix, prefix, prefix, prefix);
    return ask(conn, text, deadline, places, sizeof places / sizeof *places,
               err);
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

bool my_ask_facts(sql_conn *conn, const char *schema, const char *prefix,
                  hf_nsec deadline, my_facts *ret, hf_error *err)
{
    my_conn *c = (my_conn *)conn;
    my_port *port = (my_port *)conn->port;

    *ret = (my_facts){
        .returning = c->returning,
        .tls = c->tls,
        .verified = port->place.tls == SQL_TLS_YES && port->place.tls_verify,
        .local = port->place.socket || host_is_local(c->my->host),
        .mariadb = c->mariadb,
        .version_number = (int64_t)c->version,
        .flush = -1,
        .sync_binlog = -1,
        .replicas = -1,
        .wait_s = -1,
        .connected = -1,
        .most_connections = -1,
    };
    snprintf(ret->version, sizeof ret->version, "%s",
             mysql_get_server_info(c->my));
    return ask_settings(conn, deadline, ret, err) &&
           ask_ours(conn, schema, prefix, deadline, ret, err);
}

void my_probe(sql_conn *conn, hf_op *op)
{
    const hf_store *store = conn->port->store;
    my_facts facts;
    hf_error err = {0};

    if (!my_ask_facts(conn, store->schema, store->prefix, op->deadline, &facts,
                      &err)) {
        op->emit_finding(HF_WARN, "settings", err.text, op->user);
        return;
    }
    facts.strict = store->strict;
    facts.native = store->format == &sql_native;
    facts.connections = store->pool.most;
    facts.lease = op->ttl;
    my_judge_facts(&facts, op->emit_finding, op->user);
}
