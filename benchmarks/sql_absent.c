/* sql_absent.c - the scenarios on databases in a build without the client
 * libraries with which their floors are written: each says so and is skipped.
 */
#include "bench.h"

static void say_needed(void)
{
    bench_skip("needs libpq, libmariadb and unixODBC (Debian: libpq-dev, "
               "libmariadb-dev, unixodbc-dev), and a build after them");
}

#define ABSENT(name)                                                           \
    void name(const struct bench *b)                                           \
    {                                                                          \
        (void)b;                                                               \
        say_needed();                                                          \
    }
ABSENT(bench_postgres_pair)
ABSENT(bench_postgres_handover)
ABSENT(bench_postgres_contended)
ABSENT(bench_postgres_waiters)
ABSENT(bench_mariadb_pair)
ABSENT(bench_mariadb_handover)
ABSENT(bench_mariadb_contended)
ABSENT(bench_mariadb_waiters)
ABSENT(bench_odbc_pair)
