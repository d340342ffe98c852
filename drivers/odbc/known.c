/* known.c - what each database wants to hear from us.
 *
 * ODBC gives one way to call; the words differ.  A database is recognised by
 * the name it gives itself (SQL_DBMS_NAME); one that nobody here knows gets the
 * plainest SQL and no clock: then rivals judge a session by watching it.
 *
 * The first statements of a connection set what a lock needs of a session of
 * the server: each statement is a transaction of its own, judged on what is
 * committed (READ COMMITTED), on disk before it is answered, and neither runs
 * nor waits for a row longer than a small part of a lease. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "odbc.h"

static const char *const postgres_hello[] = {
    "SELECT set_config('application_name', 'holdfast', false),"
    " set_config('statement_timeout', '2000', false),"
    " set_config('lock_timeout', '1000', false),"
    " set_config('idle_in_transaction_session_timeout', '2000', false),"
    " set_config('default_transaction_isolation', 'read committed', false),"
    " set_config('client_min_messages', 'warning', false),"
    " set_config('synchronous_commit',"
    " CASE WHEN current_setting('synchronous_commit') IN"
    " ('off', 'local', 'remote_write')"
    " THEN 'on' ELSE current_setting('synchronous_commit') END, false)",
    "SELECT CASE WHEN pg_is_in_recovery()"
    " OR current_setting('transaction_read_only') = 'on' THEN 1 ELSE 0 END,"
    " current_setting('server_version')",
    NULL};

/* The part in the comment is for MariaDB alone: MySQL has no such variable. */
static const char *const mysql_hello[] = {
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "SET SESSION autocommit = 1, innodb_lock_wait_timeout = 1,"
    " sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'"
    " /*M!100100 , max_statement_time = 2 */",
    "SELECT @@global.read_only, version()", NULL};

static const char *const sqlite_hello[] = {
    "PRAGMA journal_mode = WAL",
    "SELECT 0, sqlite_version(),"
    " (SELECT file FROM pragma_database_list WHERE name = 'main')",
    NULL};

static const char *const no_hello[] = {NULL};

static const odbc_known all[] = {
    {"postgres", "PostgreSQL", &sql_postgres, true, postgres_hello, "", NULL,
     NULL},
    {"mariadb", "MariaDB", &sql_mariadb, true, mysql_hello, "",
     "CONN_TIMEOUT=%u", NULL},
    {"mysql", "MySQL", &sql_mysql, true, mysql_hello, "", "CONN_TIMEOUT=%u",
     NULL},
    /* Its driver looks for rows only behind a few first words; WITH is one.
     * And it waits for a locked file by a clock of its own. */
    {"sqlite", "SQLite", &sql_sqlite, false, sqlite_hello,
     "WITH rows_follow(one) AS (SELECT 1) ", NULL, "Timeout=250"},
    {"generic", NULL, &sql_generic, false, no_hello, "", NULL, NULL},
};

const odbc_known *odbc_known_named(const char *name)
{
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (strcmp(name, all[i].name) == 0)
            return &all[i];
    }
    return NULL;
}

const odbc_known *odbc_known_of(SQLHDBC dbc)
{
    char dbms[128] = "";
    SQLSMALLINT len;
    const odbc_known *known = all;

    if (!SQL_SUCCEEDED(SQLGetInfo(dbc, SQL_DBMS_NAME, dbms, sizeof dbms, &len)))
        dbms[0] = '\0';
    while (known->dbms &&
           strncasecmp(dbms, known->dbms, strlen(known->dbms)) != 0)
        known++;
    return known;
}

static bool at_least(const char *version, long major, long minor)
{
    char *end;
    long first = strtol(version, &end, 10);
    long second = *end == '.' ? strtol(end + 1, NULL, 10) : 0;

    return first > major || (first == major && second >= minor);
}

const odbc_known *odbc_known_settle(const odbc_known *known,
                                    const char *version, sql_dialect *ret)
{
    const char *maria = strcasestr(version, "MariaDB");

    /* Each may be reached through the other's driver. */
    if (known->hello == mysql_hello)
        known = odbc_known_named(maria && at_least(version, 10, 5) ? "mariadb"
                                                                   : "mysql");
    *ret = *known->dialect;
    ret->numbered = false;
    if (known->hello == sqlite_hello)
        ret->returning = at_least(version, 3, 35);
    return known;
}
