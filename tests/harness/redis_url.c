/* redis_url.c - fresh stores on the Redis server that with-redis started.
 *
 * All tests of a program share one server; what keeps them apart is a name
 * made of the test's own folder, which no other test has: the namespace of the
 * native format, the prefix or registry of the others. */
#include "harness/redis_url.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/expect.h"
#include "harness/runner.h"
#include "harness/server.h"

static const char *need_env(const char *name)
{
    const char *value = getenv(name);

    if (!value || !*value)
        FAIL_TEST("%s is not set: run this through tests/harness/with-redis, "
                  "with-sentinel, with-cluster or with-redlock",
                  name);
    return value;
}

/* What distinguishes the targets: where, and with which options. */
typedef struct row {
    const char *target, *variable;
    const char *before; /* put before the variable's value */
    const char *option; /* which takes our own name */
    const char *more;
} row;

static const row rows[] = {
    {"redis", "HOLDFAST_TEST_REDIS", "", "ns", ""},
    {"rediss", "HOLDFAST_TEST_REDISS", "", "ns", ""},
    {"redis-unix", "HOLDFAST_TEST_REDIS_UNIX", "redis+unix://", "ns", ""},
    {"redis-strict", "HOLDFAST_TEST_REDIS", "", "ns",
     "&strict=yes&max_lease_ms=60000"},
    {"redis-simple", "HOLDFAST_TEST_REDIS", "", "prefix", "&format=simple"},
    {"redis-spring", "HOLDFAST_TEST_REDIS", "", "registry_key",
     "&format=spring"},
    {"redis-redisson", "HOLDFAST_TEST_REDIS", "", "prefix", "&format=redisson"},
    {"sentinel", "HOLDFAST_TEST_SENTINEL", "", "ns", "&strict=no"},
    {"sentinel-strict", "HOLDFAST_TEST_SENTINEL", "", "ns", ""},
    {"sentinel-replicas", "HOLDFAST_TEST_SENTINEL", "", "ns",
     "&strict=no&replicas=1"},
    {"cluster", "HOLDFAST_TEST_CLUSTER", "", "ns", "&strict=no"},
    {"cluster-strict", "HOLDFAST_TEST_CLUSTER", "", "ns", ""},
    {"redlock", "HOLDFAST_TEST_REDLOCK", "", "prefix", ""},
    {"redlock-notoken", "HOLDFAST_TEST_REDLOCK", "", "prefix", "&token=no"},
};

char *redis_test_url(const char *target, const char *which, const char *prefix,
                     const char *query)
{
    const char *name = strrchr(test_folder(), '/');
    char ca[300] = "";
    char *url = NULL;
    const row *r = rows;

    while (r < rows + sizeof rows / sizeof *rows &&
           strcmp(r->target, target) != 0)
        r++;
    if (r == rows + sizeof rows / sizeof *rows)
        return NULL;
    if (strcmp(target, "rediss") == 0)
        snprintf(ca, sizeof ca, "&ca_file=%s", need_env("HOLDFAST_TEST_CA"));
    EXPECT(name != NULL);
    if (asprintf(&url, "%s%s%s?%s=%s-%s%s%s%s%s", prefix, r->before,
                 need_env(r->variable), r->option, name + 1, which, r->more, ca,
                 *query ? "&" : "", query) < 0)
        FAIL_TEST("no memory for a URL");
    return url;
}

static void settle_at(const char *socket, const char *which)
{
    const char *name = strrchr(test_folder(), '/');
    server s = {.port = 0};

    EXPECT(name != NULL);
    snprintf(s.socket, sizeof s.socket, "%s", need_env(socket));
    EXPECT_EQ(server_number(&s, "HSET hf:{%s-%s}:n until 0", name + 1, which),
              0); /* no new field: it was there */
}

void redis_test_settle(const char *which)
{
    settle_at("HOLDFAST_TEST_REDIS_UNIX", which);
}

void sentinel_test_settle(const char *which)
{
    settle_at("HOLDFAST_TEST_SENTINEL_SOCKET", which);
}

/* Whichever of them has the slot: the others answer with an error. */
void cluster_test_settle(const char *which)
{
    const char *name = strrchr(test_folder(), '/');
    const char *at = need_env("HOLDFAST_TEST_CLUSTER_SOCKETS");
    bool settled = false;

    EXPECT(name != NULL);
    while (*at && !settled) {
        int len = (int)strcspn(at, " ");
        server s = {.port = 0};
        const char *said;

        snprintf(s.socket, sizeof s.socket, "%.*s", len, at);
        said = server_ask(&s, "HSET hf:{%s-%s}:n until 0", name + 1, which);
        settled = said && strcmp(said, "0") == 0;
        at += len + (at[len] == ' ');
    }
    EXPECT(settled);
}
