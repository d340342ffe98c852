/* odbc_test.h - drivers and URLs for the tests of this folder. */
#ifndef HF_DRIVERS_ODBC_TEST_H
#define HF_DRIVERS_ODBC_TEST_H

#include <stdio.h>
#include <stdlib.h>

#include "harness/expect.h"
#include "harness/runner.h"
#include "harness/sql_server.h"

/* The drivers as they are installed, but for one line: on Debian the one for
 * PostgreSQL keeps a log in the folder for temporary files. */
static inline void use_plain_drivers(void)
{
    static const char ini[] =
        "[PostgreSQL Unicode]\nDriver=psqlodbcw.so\n"
        "[MariaDB Unicode]\nDriver=libmaodbc.so\nThreading=0\n"
        "[SQLite3]\nDriver=libsqlite3odbc.so\n"
        "[Broken]\nDriver=/nowhere/broken.so\n";
    char path[300];

    snprintf(path, sizeof path, "%s/odbcinst.ini", test_folder());
    FILE *file = fopen(path, "w");

    EXPECT(file && fputs(ini, file) >= 0 && fclose(file) == 0);
    EXPECT_EQ(setenv("ODBCSYSINI", test_folder(), 1), 0);
}

/* Of a server, NULL: of a SQLite file in the test's folder; `more` ends it. */
static inline const char *odbc_test_url(const sql_server *server,
                                        const char *more, char *ret,
                                        size_t room)
{
    if (!server)
        snprintf(ret, room, "odbc:Driver=SQLite3;Database=%s/x.db%s",
                 test_folder(), more);
    else if (server->kind == ON_POSTGRES)
        snprintf(ret, room,
                 "odbc:Driver=PostgreSQL Unicode;Server=127.0.0.1;Port=%d;"
                 "Database=holdfast;Uid=postgres%s",
                 server->port, more);
    else
        snprintf(ret, room,
                 "odbc:Driver=MariaDB Unicode;Server=127.0.0.1;Port=%d;"
                 "Database=holdfast;Uid=root%s",
                 server->port, more);
    return ret;
}

#endif
