/* targets.c - the drivers that this suite is run against, with their quirks.
 *
 * A new driver adds a row: a name, a maker of URLs that no other test uses,
 * and what is different about it.  Everything else is asked of the driver. */
#include "suite.h"

#include "harness/quorum_url.h"
#include "harness/redis_url.h"
#include "harness/sql_url.h"

static const char *make_url(const char *format, const char *folder,
                            const char *which)
{
    static char urls[8][700];
    static size_t next;
    char *url = urls[next++ % 8];

    if (folder)
        snprintf(url, sizeof urls[0], format, folder, which);
    else
        snprintf(url, sizeof urls[0], format, which);
    return url;
}

static const char *mem_url(const char *which)
{
    return make_url("mem:%s", NULL, which);
}

static const char *nomarks_url(const char *which)
{
    return make_url("mem:%s?marks=no", NULL, which);
}

static const char *sqlite_url(const char *which)
{
    return make_url("sqlite:%s/%s.db", test_folder(), which);
}

static const char *trace_mem_url(const char *which)
{
    return make_url("trace+mem:%s", NULL, which);
}

static const char *trace_sqlite_url(const char *which)
{
    return make_url("trace+sqlite:%s/%s.db", test_folder(), which);
}

static const char *fault_mem_url(const char *which)
{
    return make_url("fault+mem:%s?fault_rate=0&marks=no", NULL, which);
}

/* A name, and the maker of its URLs. */
#define ON_SERVER(maker, test_url, target)                                     \
    static const char *maker(const char *which)                                \
    {                                                                          \
        char *made = test_url(target, which, "", "");                          \
        const char *url = make_url("%s", NULL, made);                          \
                                                                               \
        free(made);                                                            \
        return url;                                                            \
    }
#define ON_REDIS(maker, target) ON_SERVER(maker, redis_test_url, target)
#define ON_SQL(maker, target) ON_SERVER(maker, sql_test_url, target)
#define ON_QUORUM(maker, target) ON_SERVER(maker, quorum_test_url, target)
ON_REDIS(redis_url, "redis")
ON_REDIS(rediss_url, "rediss")
ON_REDIS(redis_unix_url, "redis-unix")
ON_REDIS(redis_strict_url, "redis-strict")
ON_REDIS(redis_simple_url, "redis-simple")
ON_REDIS(redis_spring_url, "redis-spring")
ON_REDIS(redis_redisson_url, "redis-redisson")
ON_REDIS(sentinel_url, "sentinel")
ON_REDIS(sentinel_strict_url, "sentinel-strict")
ON_REDIS(sentinel_replicas_url, "sentinel-replicas")
ON_REDIS(cluster_url, "cluster")
ON_REDIS(cluster_strict_url, "cluster-strict")
ON_REDIS(redlock_url, "redlock")
ON_REDIS(redlock_notoken_url, "redlock-notoken")
ON_SQL(postgres_url, "postgres")
ON_SQL(postgres_tls_url, "postgres-tls")
ON_SQL(postgres_strict_url, "postgres-strict")
ON_SQL(postgres_observer_url, "postgres-observer")
ON_SQL(postgres_pgbouncer_url, "postgres-pgbouncer")
ON_SQL(mariadb_url, "mariadb")
ON_SQL(mariadb_tls_url, "mariadb-tls")
ON_SQL(mariadb_noreturning_url, "mariadb-noreturning")
ON_SQL(odbc_postgres_url, "odbc-postgres")
ON_SQL(odbc_mariadb_url, "odbc-mariadb")
ON_SQL(odbc_sqlite_url, "odbc-sqlite")
ON_SQL(postgres_spring_url, "postgres-spring")
ON_SQL(postgres_dlock_url, "postgres-dlock")
ON_SQL(postgres_shedlock_url, "postgres-shedlock")
ON_SQL(postgres_advisory_url, "postgres-advisory")
ON_SQL(postgres_rowlock_url, "postgres-rowlock")
ON_SQL(mariadb_spring_url, "mariadb-spring")
ON_SQL(mariadb_shedlock_url, "mariadb-shedlock")
ON_SQL(mariadb_getlock_url, "mariadb-getlock")
ON_SQL(mariadb_rowlock_url, "mariadb-rowlock")
ON_QUORUM(zookeeper_url, "zookeeper")
ON_QUORUM(zookeeper_rw_url, "zookeeper-rw")
ON_QUORUM(zookeeper_kazoo_url, "zookeeper-kazoo")
ON_QUORUM(zookeeper_tls_url, "zookeeper-tls")
ON_QUORUM(zookeeper3_url, "zookeeper3")
ON_QUORUM(etcd_url, "etcd")
ON_QUORUM(etcd_tls_url, "etcd-tls")
ON_QUORUM(etcd_auth_url, "etcd-auth")
ON_QUORUM(etcd3_url, "etcd3")

const target targets[] = {
    {"mem", mem_url, {.lease_min_ms = 1000}},
    {"mem-nomarks", nomarks_url, {.lease_min_ms = 1000, .break_at_once = true}},
    {"sqlite", sqlite_url, {.lease_min_ms = 1000}},
    {"trace-mem", trace_mem_url, {.lease_min_ms = 1000, .has_cousin = true}},
    {"trace-sqlite",
     trace_sqlite_url,
     {.lease_min_ms = 1000, .has_cousin = true}},
    {"fault-mem",
     fault_mem_url,
     {.lease_min_ms = 1000, .has_cousin = true, .break_at_once = true}},
    {"redis", redis_url, {.lease_min_ms = 1000, .listens_late = true}},
    {"rediss",
     rediss_url,
     {.lease_min_ms = 1000, .has_cousin = true, .listens_late = true}},
    {"redis-unix",
     redis_unix_url,
     {.lease_min_ms = 1000, .has_cousin = true, .listens_late = true}},
    {"redis-strict",
     redis_strict_url,
     {.lease_min_ms = 1000,
      .has_cousin = true,
      .listens_late = true,
      .settle = redis_test_settle}},
    {"redis-simple",
     redis_simple_url,
     {.lease_min_ms = 1000, .break_at_once = true}},
    {"redis-spring",
     redis_spring_url,
     {.lease_min_ms = 1000, .break_at_once = true}},
    {"redis-redisson",
     redis_redisson_url,
     {.lease_min_ms = 1000, .break_at_once = true}},
    {"sentinel",
     sentinel_url,
     {.lease_min_ms = 1000, .has_cousin = true, .listens_late = true}},
    {"sentinel-strict",
     sentinel_strict_url,
     {.lease_min_ms = 1000,
      .has_cousin = true,
      .listens_late = true,
      .settle = sentinel_test_settle}},
    {"sentinel-replicas",
     sentinel_replicas_url,
     {.lease_min_ms = 1000, .has_cousin = true, .listens_late = true}},
    {"cluster", cluster_url, {.lease_min_ms = 1000, .listens_late = true}},
    {"cluster-strict",
     cluster_strict_url,
     {.lease_min_ms = 1000,
      .has_cousin = true,
      .listens_late = true,
      .settle = cluster_test_settle}},
    {"redlock", redlock_url, {.lease_min_ms = 1000, .break_at_once = true}},
    {"redlock-notoken",
     redlock_notoken_url,
     {.lease_min_ms = 1000, .break_at_once = true}},
    {"postgres", postgres_url, {.lease_min_ms = 2000}},
    {"postgres-tls",
     postgres_tls_url,
     {.lease_min_ms = 2000, .has_cousin = true}},
    {"postgres-strict",
     postgres_strict_url,
     {.lease_min_ms = 2000, .has_cousin = true, .settle = sql_test_settle}},
    {"postgres-observer",
     postgres_observer_url,
     {.lease_min_ms = 2000, .has_cousin = true, .observes = true}},
    {"postgres-pgbouncer",
     postgres_pgbouncer_url,
     {.lease_min_ms = 2000, .has_cousin = true}},
    {"mariadb", mariadb_url, {.lease_min_ms = 2000}},
    {"mariadb-tls",
     mariadb_tls_url,
     {.lease_min_ms = 2000, .has_cousin = true}},
    {"mariadb-noreturning",
     mariadb_noreturning_url,
     {.lease_min_ms = 2000, .has_cousin = true}},
    {"odbc-postgres",
     odbc_postgres_url,
     {.lease_min_ms = 2000, .has_cousin = true}},
    {"odbc-mariadb",
     odbc_mariadb_url,
     {.lease_min_ms = 2000, .has_cousin = true}},
    {"odbc-sqlite", odbc_sqlite_url, {.lease_min_ms = 2000}},
    {"postgres-spring",
     postgres_spring_url,
     {.lease_min_ms = 2000, .break_at_once = true, .lists_less = true}},
    {"postgres-dlock",
     postgres_dlock_url,
     {.lease_min_ms = 2000, .break_at_once = true, .text_names = true}},
    {"postgres-shedlock",
     postgres_shedlock_url,
     {.lease_min_ms = 2000, .break_at_once = true, .text_names = true}},
    {"postgres-advisory",
     postgres_advisory_url,
     {.lease_min_ms = 2000, .break_at_once = true, .lists_less = true}},
    {"postgres-rowlock",
     postgres_rowlock_url,
     {.lease_min_ms = 2000,
      .break_at_once = true,
      .lists_less = true,
      .text_names = true,
      .few_holds = true}},
    {"mariadb-spring",
     mariadb_spring_url,
     {.lease_min_ms = 2000, .break_at_once = true, .lists_less = true}},
    {"mariadb-shedlock",
     mariadb_shedlock_url,
     {.lease_min_ms = 2000, .break_at_once = true, .text_names = true}},
    {"mariadb-getlock",
     mariadb_getlock_url,
     {.lease_min_ms = 2000, .break_at_once = true, .lists_less = true}},
    {"mariadb-rowlock",
     mariadb_rowlock_url,
     {.lease_min_ms = 2000,
      .break_at_once = true,
      .lists_less = true,
      .text_names = true,
      .few_holds = true}},
    {"zookeeper", zookeeper_url, {.lease_min_ms = 2000, .late_ms = 1000}},
    {"zookeeper-rw", zookeeper_rw_url, {.lease_min_ms = 2000, .late_ms = 1000}},
    {"zookeeper-kazoo",
     zookeeper_kazoo_url,
     {.lease_min_ms = 2000, .late_ms = 1000}},
    {"zookeeper-tls",
     zookeeper_tls_url,
     {.lease_min_ms = 2000, .late_ms = 1000, .has_sibling = true}},
    {"zookeeper3",
     zookeeper3_url,
     {.lease_min_ms = 2000, .late_ms = 1000, .has_sibling = true}},
    {"etcd", etcd_url, {.lease_min_ms = 2000, .late_ms = 1500}},
    {"etcd-tls",
     etcd_tls_url,
     {.lease_min_ms = 2000, .late_ms = 1500, .has_sibling = true}},
    {"etcd-auth",
     etcd_auth_url,
     {.lease_min_ms = 2000, .late_ms = 1500, .has_sibling = true}},
    {"etcd3",
     etcd3_url,
     {.lease_min_ms = 2000, .late_ms = 1500, .has_sibling = true}},
};
const size_t target_count = sizeof targets / sizeof *targets;
