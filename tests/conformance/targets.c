/* targets.c - the drivers that this suite is run against, with their quirks.
 *
 * A new driver adds a row: a name, a maker of URLs that no other test uses,
 * and what is different about it.  Everything else is asked of the driver. */
#include "suite.h"

static const char *make_url(const char *format, const char *folder,
                            const char *which)
{
    static char urls[8][256];
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

const target targets[] = {
    {"mem", mem_url, {.lease_min_ms = 1000}},
    {"mem-nomarks", nomarks_url, {.lease_min_ms = 1000, .break_at_once = true}},
    {"sqlite", sqlite_url, {.lease_min_ms = 1000}},
    {"trace-mem", trace_mem_url, {.lease_min_ms = 1000}},
    {"trace-sqlite", trace_sqlite_url, {.lease_min_ms = 1000}},
    {"fault-mem", fault_mem_url, {.lease_min_ms = 1000, .break_at_once = true}},
};
const size_t target_count = sizeof targets / sizeof *targets;
