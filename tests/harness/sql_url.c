/* sql_url.c - fresh stores on the databases that with-sql started.
 *
 * All tests of a program share one server; what keeps them apart is a name made
 * of the test's own folder, which no other test has: in front of the tables'
 * names, or as the region of a layout that has one.  A SQLite file over ODBC
 * needs no server: it is in the test's folder. */
#include "harness/sql_url.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/child.h"
#include "harness/expect.h"
#include "harness/runner.h"

static const char *need_env(const char *name)
{
    const char *value = getenv(name);

    if (!value || !*value)
        FAIL_TEST("%s is not set: run this through tests/harness/with-sql",
                  name);
    return value;
}

/* What distinguishes the targets: where, and with which options. */
typedef struct row {
    const char *target;
    const char *variable; /* NULL: a SQLite file of its own */
    const char *before;   /* put before the variable's value */
    const char *option;   /* which takes our own name, before `more`; but a
                             connection's locks ("format") have no names */
    const char *more;
} row;

static const row rows[] = {
    {"postgres", "HOLDFAST_TEST_POSTGRES", "", "prefix", ""},
    {"postgres-tls", "HOLDFAST_TEST_POSTGRES_TLS", "", "prefix", "&tls=yes"},
    {"postgres-strict", "HOLDFAST_TEST_POSTGRES", "", "prefix",
     "&strict=yes&max_lease_ms=60000"},
    {"postgres-observer", "HOLDFAST_TEST_POSTGRES", "", "prefix",
     "&clock=observer"},
    {"postgres-pgbouncer", "HOLDFAST_TEST_PGBOUNCER", "", "prefix", ""},
    {"mariadb", "HOLDFAST_TEST_MYSQL", "", "prefix", ""},
    {"mariadb-tls", "HOLDFAST_TEST_MYSQL_TLS", "", "prefix", "&tls=yes"},
    {"mariadb-noreturning", "HOLDFAST_TEST_MYSQL", "", "prefix",
     "&returning=no"},
    {"odbc-postgres", "HOLDFAST_TEST_ODBC_POSTGRES", "odbc:", "prefix", ""},
    {"odbc-mariadb", "HOLDFAST_TEST_ODBC_MYSQL", "odbc:", "prefix", ""},
    {"odbc-sqlite", NULL, "odbc:Driver=SQLite3;Database=", "prefix", ""},
    {"postgres-spring", "HOLDFAST_TEST_POSTGRES", "", "prefix",
     "&format=spring"},
    {"postgres-dlock", "HOLDFAST_TEST_POSTGRES", "", "table", "&format=dlock"},
    {"postgres-shedlock", "HOLDFAST_TEST_POSTGRES", "", "table",
     "&format=shedlock"},
    {"postgres-rowlock", "HOLDFAST_TEST_POSTGRES", "", "table",
     "&format=rowlock"},
    {"postgres-advisory", "HOLDFAST_TEST_POSTGRES", "", "format", "advisory"},
    {"mariadb-spring", "HOLDFAST_TEST_MYSQL", "", "prefix", "&format=spring"},
    {"mariadb-shedlock", "HOLDFAST_TEST_MYSQL", "", "table",
     "&format=shedlock"},
    {"mariadb-rowlock", "HOLDFAST_TEST_MYSQL", "", "table", "&format=rowlock"},
    {"mariadb-getlock", "HOLDFAST_TEST_MYSQL", "", "format", "getlock"},
};

/* A name that can begin that of a table; the same for the same store. */
static void make_name(const char *which, char ret[32])
{
    uint64_t hash = 14695981039346656037U;

    for (const char *p = test_folder(); *p; p++)
        hash = (hash ^ (unsigned char)*p) * 1099511628211U;
    for (const char *p = which; *p; p++)
        hash = (hash ^ (unsigned char)*p) * 1099511628211U;
    snprintf(ret, 32, "t%014llx_", (unsigned long long)(hash >> 8));
}

/* Where the store is; a connection string has blanks, a URL has none. */
static char *make_place(const row *r, const char *which)
{
    char text[600], *place = calloc(3, sizeof text), *to = place;

    EXPECT(place != NULL);
    if (r->variable)
        snprintf(text, sizeof text, "%s%s", r->before, need_env(r->variable));
    else
        snprintf(text, sizeof text, "%s%s/%s.db", r->before, test_folder(),
                 which);
    for (const char *p = text; *p; p++) {
        if (*p == ' ')
            to = stpcpy(to, "%20");
        else
            *to++ = *p;
    }
    return place;
}

char *sql_test_url(const char *target, const char *which, const char *prefix,
                   const char *query)
{
    char name[32], ca[300] = "", *place, *url = NULL;
    const row *r = rows;

    while (r < rows + sizeof rows / sizeof *rows &&
           strcmp(r->target, target) != 0)
        r++;
    if (r == rows + sizeof rows / sizeof *rows)
        return NULL;
    if (strstr(r->more, "tls=yes"))
        snprintf(ca, sizeof ca, "&ca_file=%s", need_env("HOLDFAST_TEST_CA"));
    make_name(which, name);
    if (strcmp(r->option, "format") == 0)
        name[0] = '\0';
    place = make_place(r, which);
    EXPECT(asprintf(&url, "%s%s?%s=%s%s%s%s%s", prefix, place, r->option, name,
                    r->more, ca, *query ? "&" : "", query) > 0);
    free(place);
    return url;
}

void sql_test_settle(const char *which)
{
    char name[32], text[200], log[200];
    char *url = strdup(need_env("HOLDFAST_TEST_POSTGRES"));
    char *words[] = {(char[]){"psql"}, (char[]){"-Xqc"}, text, url, NULL};

    EXPECT(url != NULL);
    make_name(which, name);
    snprintf(text, sizeof text, "UPDATE \"%smeta\" SET quarantine_us = 0",
             name);
    snprintf(log, sizeof log, "%s/settle.log", test_folder());
    if (child_run(words, log, 10000) != 0) {
        child_show(log);
        FAIL_TEST("the quarantine of '%s' cannot be ended", which);
    }
    free(url);
}
