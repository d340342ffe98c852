/* quorum_url.c - fresh stores on what with-zookeeper and with-etcd started.
 *
 * All tests of a program share the servers; what keeps them apart is a path
 * made of the test's own folder, which no other test has: a chroot for
 * ZooKeeper, a prefix for etcd. */
#include "harness/quorum_url.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/expect.h"
#include "harness/runner.h"

/* What distinguishes the targets: where, and with which options. */
typedef struct row {
    const char *target, *variable;
    const char *more; /* each option behind a '&' */
} row;

/* The servers of the tests tick ten times a second. */
#define TICK "&tick_ms=100"
static const row rows[] = {
    {"zookeeper", "HOLDFAST_TEST_ZOOKEEPER", TICK},
    {"zookeeper-rw", "HOLDFAST_TEST_ZOOKEEPER", TICK "&layout=rw"},
    {"zookeeper-kazoo", "HOLDFAST_TEST_ZOOKEEPER", TICK "&format=kazoo"},
    {"zookeeper-tls", "HOLDFAST_TEST_ZOOKEEPERS", TICK},
    {"zookeeper3", "HOLDFAST_TEST_ZOOKEEPER3", TICK},
    {"etcd", "HOLDFAST_TEST_ETCD", ""},
    {"etcd-tls", "HOLDFAST_TEST_ETCDS", ""},
    {"etcd-auth", "HOLDFAST_TEST_ETCD_AUTH", ""},
    {"etcd3", "HOLDFAST_TEST_ETCD3", ""},
};

static const char *need_env(const char *name)
{
    const char *value = getenv(name);

    if (!value || !*value)
        FAIL_TEST("%s is not set: run this through tests/harness/with-%s", name,
                  strstr(name, "ETCD") ? "etcd" : "zookeeper");
    return value;
}

static void add_certificates(const char *target, char *to, size_t room)
{
    const char *certs;

    if (!strstr(target, "-tls"))
        return;
    certs = need_env("HOLDFAST_TEST_CERTS");
    if (strcmp(target, "etcd-tls") == 0)
        snprintf(to, room,
                 "&ca_file=%s/ca.pem&cert_file=%s/client.pem"
                 "&key_file=%s/client.key",
                 certs, certs, certs);
    else
        snprintf(to, room, "&ca_file=%s/ca.pem", certs);
}

char *quorum_test_url(const char *target, const char *which, const char *prefix,
                      const char *query)
{
    uint64_t hash = 14695981039346656037U;
    char options[700] = "", tls[600] = "", *url = NULL;
    const row *r = rows;

    while (r < rows + sizeof rows / sizeof *rows &&
           strcmp(r->target, target) != 0)
        r++;
    if (r == rows + sizeof rows / sizeof *rows)
        return NULL;
    for (const char *p = test_folder(); *p; p++)
        hash = (hash ^ (unsigned char)*p) * 1099511628211U;
    for (const char *p = which; *p; p++)
        hash = (hash ^ (unsigned char)*p) * 1099511628211U;
    add_certificates(target, tls, sizeof tls);
    snprintf(options, sizeof options, "%s%s", r->more, tls);
    if (options[0])
        options[0] = '?';
    EXPECT(asprintf(&url, "%s%s/t%016llx%s%s%s%s", prefix,
                    need_env(r->variable), (unsigned long long)hash,
                    strncmp(target, "etcd", 4) == 0 ? "/" : "", options,
                    !*query    ? ""
                    : *options ? "&"
                               : "?",
                    query) > 0);
    return url;
}
