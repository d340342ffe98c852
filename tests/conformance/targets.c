/* targets.c - the drivers that this suite is run against, with their quirks.
 *
 * A new driver adds a row: a name, a maker of URLs that no other test uses,
 * and what is different about it.  Everything else is asked of the driver. */
#include "suite.h"

#include "harness/redis_url.h"

static const char *make_url(const char *format, const char *folder,
                            const char *which)
{
    static char urls[8][400];
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
#define ON_REDIS(maker, target)                                                \
    static const char *maker(const char *which)                                \
    {                                                                          \
        char *made = redis_test_url(target, which, "", "");                    \
        const char *url = make_url("%s", NULL, made);                          \
                                                                               \
        free(made);                                                            \
        return url;                                                            \
    }
ON_REDIS(redis_url, "redis")
ON_REDIS(rediss_url, "rediss")
ON_REDIS(redis_unix_url, "redis-unix")
ON_REDIS(redis_strict_url, "redis-strict")
ON_REDIS(redis_simple_url, "redis-simple")
ON_REDIS(redis_spring_url, "redis-spring")
ON_REDIS(redis_redisson_url, "redis-redisson")

const target targets[] = {
    {"mem", mem_url, {.lease_min_ms = 1000}},
    {"mem-nomarks", nomarks_url, {.lease_min_ms = 1000, .break_at_once = true}},
    {"sqlite", sqlite_url, {.lease_min_ms = 1000}},
    {"trace-mem", trace_mem_url, {.lease_min_ms = 1000}},
    {"trace-sqlite", trace_sqlite_url, {.lease_min_ms = 1000}},
    {"fault-mem", fault_mem_url, {.lease_min_ms = 1000, .break_at_once = true}},
    {"redis", redis_url, {.lease_min_ms = 1000, .listens_late = true}},
    {"rediss", rediss_url, {.lease_min_ms = 1000, .listens_late = true}},
    {"redis-unix",
     redis_unix_url,
     {.lease_min_ms = 1000, .listens_late = true}},
    {"redis-strict",
     redis_strict_url,
     {.lease_min_ms = 1000, .listens_late = true, .settle = redis_test_settle}},
    {"redis-simple",
     redis_simple_url,
     {.lease_min_ms = 1000, .break_at_once = true}},
    {"redis-spring",
     redis_spring_url,
     {.lease_min_ms = 1000, .break_at_once = true}},
    {"redis-redisson",
     redis_redisson_url,
     {.lease_min_ms = 1000, .break_at_once = true}},
};
const size_t target_count = sizeof targets / sizeof *targets;
