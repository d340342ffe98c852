/* target.c - fresh store URLs for each target.  A mem: store is of one process
 * and vanishes with it; a SQLite file lives in the test's folder; on Redis (see
 * redis_url.c) a store is a namespace of the server that with-redis started; on
 * a database (sql_url.c) tables of its own in what with-sql started; on
 * ZooKeeper and etcd (quorum_url.c) a path of its own. */
#include "harness/target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/expect.h"
#include "harness/quorum_url.h"
#include "harness/redis_url.h"
#include "harness/runner.h"
#include "harness/sql_url.h"

const char *const test_targets[] = {"mem",
                                    "mem-nomarks",
                                    "sqlite",
                                    "redis",
                                    "rediss",
                                    "redis-simple",
                                    "redis-spring",
                                    "redis-redisson",
                                    "sentinel",
                                    "cluster",
                                    "redlock",
                                    "postgres",
                                    "postgres-strict",
                                    "postgres-pgbouncer",
                                    "mariadb",
                                    "mariadb-noreturning",
                                    "odbc-postgres",
                                    "odbc-mariadb",
                                    "odbc-sqlite",
                                    "zookeeper",
                                    "zookeeper-rw",
                                    "zookeeper-kazoo",
                                    "zookeeper-tls",
                                    "zookeeper3",
                                    "etcd",
                                    "etcd-tls",
                                    "etcd-auth",
                                    "etcd3",
                                    NULL};

const char *test_target(void)
{
    const char *name = getenv("HOLDFAST_TEST_TARGET");

    return name && *name ? name : test_targets[0];
}

const char *test_url(const char *which, const char *prefix, const char *query)
{
    const char *target = test_target();
    const char *and_query = *query ? "&" : "";
    char *url = NULL;
    int len = -1;

    if (strcmp(target, "sqlite") == 0)
        len = asprintf(&url, "%ssqlite:%s/%s.db%s%s", prefix, test_folder(),
                       which, *query ? "?" : "", query);
    else if (strcmp(target, "mem") == 0)
        len = asprintf(&url, "%smem:%s%s%s", prefix, which, *query ? "?" : "",
                       query);
    else if (strcmp(target, "mem-nomarks") == 0)
        len = asprintf(&url, "%smem:%s?marks=no%s%s", prefix, which, and_query,
                       query);
    else if ((url = redis_test_url(target, which, prefix, query)) != NULL ||
             (url = sql_test_url(target, which, prefix, query)) != NULL ||
             (url = quorum_test_url(target, which, prefix, query)) != NULL)
        len = (int)strlen(url);
    if (len < 0)
        FAIL_TEST("no target '%s'", target);
    return url; /* a few per test process, gone with it */
}
