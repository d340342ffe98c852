/* probe.c - what doctor wants to know of a database behind ODBC.
 *
 * After what all SQL stores are asked (drivers/sql/probe.c): which database and
 * which driver it is, whether each statement is committed by itself, whether a
 * call ends in time, whether a race between two connections has one winner
 * (race.c), and the few settings that decide what a crash forgets.  A question
 * that is refused says nothing; only reads, but for the row of the race. */
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>

#include "race.h"

static const hf_nsec race_time = HF_MS(2000);

#define find(op, ...) hfd_finding((op)->emit_finding, (op)->user, __VA_ARGS__)

static void ask_info(SQLHDBC dbc, SQLUSMALLINT what, char *ret, size_t room)
{
    SQLSMALLINT len;

    if (!SQL_SUCCEEDED(SQLGetInfo(dbc, what, ret, (SQLSMALLINT)room, &len)))
        snprintf(ret, room, "unknown");
}

static void find_driver(const odbc_port *port, const odbc_conn *conn,
                        const hf_op *op)
{
    char dbms[80], driver[80], version[80];

    ask_info(conn->dbc, SQL_DBMS_NAME, dbms, sizeof dbms);
    ask_info(conn->dbc, SQL_DRIVER_NAME, driver, sizeof driver);
    ask_info(conn->dbc, SQL_DRIVER_VER, version, sizeof version);
    if (port->known->dbms)
        find(op, HF_FINE, "driver", "%s %s through %s %s; the words of '%s'",
             dbms, conn->version, driver, version, port->known->name);
    else
        find(op, HF_WARN, "driver",
             "%s through %s %s is not a database that we know: it gets the "
             "plainest SQL and is tested by nobody; try it under load first",
             dbms, driver, version);
}

static void find_autocommit(const odbc_conn *conn, const hf_op *op)
{
    SQLUINTEGER on = 0, isolation = 0;

    SQLGetConnectAttr(conn->dbc, SQL_ATTR_AUTOCOMMIT, &on, sizeof on, NULL);
    if (on == SQL_AUTOCOMMIT_ON)
        find(op, HF_FINE, "autocommit",
             "each statement is committed by itself");
    else
        find(op, HF_FAIL, "autocommit",
             "the driver does not commit each statement by itself: locks "
             "would be seen by nobody; use another driver");
    SQLGetConnectAttr(conn->dbc, SQL_ATTR_TXN_ISOLATION, &isolation,
                      sizeof isolation, NULL);
    if (isolation == SQL_TXN_READ_UNCOMMITTED)
        find(op, HF_FAIL, "isolation",
             "READ UNCOMMITTED: what is read may be rolled back; set READ "
             "COMMITTED for this data source");
    else
        find(op, HF_FINE, "isolation",
             isolation == SQL_TXN_READ_COMMITTED    ? "READ COMMITTED"
             : isolation == SQL_TXN_REPEATABLE_READ ? "REPEATABLE READ"
             : isolation == SQL_TXN_SERIALIZABLE    ? "SERIALIZABLE"
                                                    : "the driver's own");
}

static void find_pooling(const odbc_port *port, const hf_op *op)
{
    SQLUINTEGER pooling = SQL_CP_OFF;

    if (SQL_SUCCEEDED(SQLGetEnvAttr(port->env, SQL_ATTR_CONNECTION_POOLING,
                                    &pooling, sizeof pooling, NULL)) &&
        pooling != SQL_CP_OFF)
        find(op, HF_WARN, "pooling",
             "the driver manager keeps closed connections for others, with our "
             "settings on them: set Pooling=No in odbcinst.ini");
    else
        find(op, HF_FINE, "pooling", "off");
}

static void find_deadline(const odbc_port *port, const odbc_conn *conn,
                          const hf_op *op)
{
    if (!port->known->socket && port->known->dbms)
        find(op, HF_FINE, "deadline", "the driver waits for files alone");
    else if (conn->fd >= 0)
        find(op, HF_FINE, "deadline",
             "a server that does not answer is given up in time");
    else
        find(op, HF_WARN, "deadline",
             "which socket is the driver's is not known: a server that stands "
             "still holds us up until the driver gives up; set its own "
             "timeouts in the connection string");
}

/* ---- Settings ---- */

typedef struct setting {
    const char *of, *text; /* whose; the question */
    const char *good;      /* the answers that are, separated by blanks */
    hf_level level;        /* of any other */
    const char *name, *shown, *told; /* of the finding; put before the answer */
} setting;

static const setting settings[] = {
    {"postgres", "SELECT current_setting('fsync')", " on ", HF_FAIL,
     "durability", "fsync ",
     "a crash of the machine may lose or destroy what was committed: set "
     "fsync = on"},
    {"postgres", "SELECT current_setting('full_page_writes')", " on ", HF_FAIL,
     "durability", "full_page_writes ",
     "a crash of the machine may destroy pages: set full_page_writes = on"},
    {"postgres", "SELECT current_setting('synchronous_commit')",
     " on remote_apply ", HF_WARN, "durability", "synchronous_commit ",
     "a crash of the server forgets the last locks: ALTER ROLE ... SET "
     "synchronous_commit = on"},
    {"mysql", "SELECT @@global.innodb_flush_log_at_trx_commit", " 1 ", HF_WARN,
     "durability", "innodb_flush_log_at_trx_commit ",
     "a crash of the machine forgets the last locks: set "
     "innodb_flush_log_at_trx_commit = 1"},
    {"mysql", "SELECT @@global.wsrep_on", " 0 OFF ", HF_WARN, "galera", "",
     "in a Galera cluster commits may vanish: let all clients use one node, "
     "and take locks here for efficiency only"},
    {"sqlite", "PRAGMA journal_mode", " wal ", HF_WARN, "journal", "",
     "not WAL: readers and writers shut each other out; delete JournalMode "
     "from the connection string"},
    {"sqlite", "PRAGMA synchronous", " 2 3 ", HF_WARN, "sync", "",
     "after a power cut tokens may be given out a second time: delete "
     "SyncPragma from the connection string"},
    {"sqlite", "PRAGMA quick_check(1)", " ok ", HF_FAIL, "integrity", "",
     "the file is damaged: restore it, or delete it while nobody runs"},
};

static void find_settings(const odbc_port *port, sql_conn *conn,
                          const hf_op *op)
{
    const char *family = port->known->name;
    sql_rows rows = {0};

    if (strcmp(family, "mariadb") == 0)
        family = "mysql";
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        const setting *s = &settings[i];
        char sought[60];
        hf_error err;

        if (strcmp(s->of, family) != 0 ||
            odbc_say(conn, s->text, op->deadline, &rows, &err) != SQL_DONE ||
            !sql_cell(&rows, 0, 0))
            continue;
        snprintf(sought, sizeof sought, " %.50s ", sql_cell(&rows, 0, 0));
        if (strstr(s->good, sought))
            find(op, HF_FINE, s->name, "%s%.100s", s->shown,
                 sql_cell(&rows, 0, 0));
        else
            find(op, s->level, s->name, "%s'%.100s': %s", s->shown,
                 sql_cell(&rows, 0, 0), s->told);
    }
    sql_rows_done(&rows);
}

/* ---- SQLite's file ---- */

static const struct {
    uint32_t magic;
    const char *name;
} networks[] = {
    {0x6969, "NFS"},        {0x517b, "SMB"},      {0xff534d42, "CIFS"},
    {0xfe534d42, "SMB"},    {0x01021997, "9p"},   {0x65735546, "FUSE"},
    {0x0bd00bd0, "Lustre"}, {0x47504653, "GPFS"}, {0x00c36400, "Ceph"},
};

static void find_filesystem(const odbc_port *port, sql_conn *conn,
                            const hf_op *op)
{
    static const char text[] =
        "SELECT file FROM pragma_database_list WHERE name = 'main'";
    sql_rows rows = {0};
    struct statfs fs;
    hf_error err;

    if (strcmp(port->known->name, "sqlite") == 0 &&
        odbc_say(conn, text, op->deadline, &rows, &err) == SQL_DONE &&
        sql_cell(&rows, 0, 0) && statfs(sql_cell(&rows, 0, 0), &fs) == 0) {
        size_t i = 0, n = sizeof networks / sizeof *networks;

        while (i < n && networks[i].magic != (uint32_t)fs.f_type)
            i++;
        if (i < n)
            find(op, HF_FAIL, "filesystem",
                 "'%.200s' is on %s, where file locks cannot be trusted: use a "
                 "local disk",
                 sql_cell(&rows, 0, 0), networks[i].name);
        else
            find(op, HF_FINE, "filesystem", "local");
    }
    sql_rows_done(&rows);
}

/* ---- The race ---- */

static void find_race(sql_port *port, sql_conn *conn, const hf_op *op)
{
    const hf_store *store = port->store;
    hf_nsec until = hfd_now() + race_time;
    odbc_race_end end = ODBC_RACE_FAILED;
    char table[SQL_TEXT_MAX];
    sql_conn *other = NULL;
    unsigned rounds = 0;
    hf_error err = {0};

    if (!store || store->format != &sql_native || until >= op->deadline)
        return;
    if (sql_render_one(table, port->dialect, store->schema, store->prefix,
                       "@value", &err) == 0 &&
        port->class->connect(port, op->deadline, &other, &err) == 0) {
        end = odbc_race_run(conn, other, table, until, &rounds, &err);
        odbc_disconnect(other, false);
    }
    if (end == ODBC_RACE_FINE)
        find(op, HF_FINE, "race",
             "%u races of two connections, one winner each", rounds);
    else if (end == ODBC_RACE_LOST)
        find(op, HF_FAIL, "race",
             "in a race of two connections both believed to have won: this "
             "database, or its driver, cannot hold locks");
    else
        find(op, HF_WARN, "race", "could not be tried: %.200s", err.text);
}

void odbc_probe(sql_conn *base, hf_op *op)
{
    odbc_conn *conn = (odbc_conn *)base;
    odbc_port *port = (odbc_port *)base->port;

    find_driver(port, conn, op);
    find_autocommit(conn, op);
    find_pooling(port, op);
    find_deadline(port, conn, op);
    find_settings(port, base, op);
    find_filesystem(port, base, op);
    find_race(&port->base, base, op);
}
