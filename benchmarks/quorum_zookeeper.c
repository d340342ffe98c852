/* quorum_zookeeper.c - ZooKeeper in the benchmark: its server, what it counts,
 * and the libraries that we are compared with.
 *
 * Curator is what Java programs lock with, kazoo what Python's do.  Both run as
 * their guides show them; Java with its full compiler, since it has had its
 * time in a real service. */
#include "peer.h"
#include "quorum.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool zk_is_ready(struct quorum_server *s)
{
    char said[4096];

    return quorum_ask(s->port, "srvr", said, sizeof said) > 0 &&
           strstr(said, "Mode:") != NULL;
}

static double received_so_far(struct quorum_server *s)
{
    char said[4096];
    const char *at;

    if (quorum_ask(s->port, "srvr", said, sizeof said) <= 0 ||
        (at = strstr(said, "Received: ")) == NULL)
        bench_die("zookeeper: the server does not say what it received");
    return strtod(at + strlen("Received: "), NULL);
}

/* Pings, syncs and all: the server does not tell them apart.  Whether a
 * question counts as well is seen by asking twice. */
static struct quorum_counts zk_count(struct quorum_server *s)
{
    double first = received_so_far(s), second = received_so_far(s);
    double each = second - first > 0 ? 1 : 0;

    s->questions += 2;
    return (struct quorum_counts){.all = second - each * s->questions};
}

static const char *const durable[] = {
    "forceSync=yes",          "tickTime=2000",           "preAllocSize=65536",
    "minSessionTimeout=4000", "maxSessionTimeout=40000", NULL};

const struct quorum_kind quorum_zookeeper = {
    .name = "zookeeper",
    .program = BENCH_HARNESS "/zookeeper-server",
    .durable = durable,
    .ports = 1,
    .is_ready = zk_is_ready,
    .count = zk_count,
    .pair = &floor_zookeeper,
    .same = &floor_zookeeper_list,
    .pair_goal = 1.15,
    .requests_goal = 3.05,
    .idle_goal = 1.3, /* the holder's session has pings too */
};

/* ---- Others ---------------------------------------------------------- */

#define JAVA "/usr/share/java/"
#define CURATOR JAVA "curator-recipes.jar"
#define KAZOO "/usr/lib/python3/dist-packages/kazoo"

static const char curator_peer[] = BENCH_PEERS "/CuratorPeer.java";
static const char kazoo_peer[] = BENCH_PEERS "/kazoo_peer.py";

static struct peer *start_curator(const struct quorum_server *s, int core)
{
    static const char *const jars[] = {"zookeeper",
                                       "zookeeper-jute",
                                       "curator-client",
                                       "curator-framework",
                                       "curator-recipes",
                                       "guava",
                                       "slf4j-api",
                                       "slf4j-nop",
                                       "metrics-core",
                                       "netty-buffer",
                                       "netty-codec",
                                       "netty-common",
                                       "netty-handler",
                                       "netty-resolver",
                                       "netty-transport",
                                       "netty-transport-native-epoll",
                                       "netty-transport-native-unix-common"};
    char classes[1024] = "";
    const char *const argv[] = {"java",
                                "-Xmx128m",
                                "-XX:+UseSerialGC",
                                "-XX:-UsePerfData",
                                "-cp",
                                classes,
                                curator_peer,
                                s->at,
                                "/bench/curator",
                                NULL};
    size_t len = 0;

    for (size_t i = 0; i < sizeof jars / sizeof *jars; i++)
        len += (size_t)snprintf(classes + len, sizeof classes - len,
                                "%s" JAVA "%s.jar", i ? ":" : "", jars[i]);
    return peer_program(argv, core);
}

static struct peer *start_kazoo(const struct quorum_server *s, int core)
{
    /* Debian's python3, for which it packages kazoo. */
    const char *const argv[] = {"/usr/bin/python3", kazoo_peer, s->at,
                                "/bench/kazoo", NULL};

    return peer_program(argv, core);
}

static const struct rival rivals[] = {
    {.name = "Curator",
     .start = start_curator,
     .handover_goal = 0.5,
     .contended_goal = 1.5},
    {.name = "kazoo", .start = start_kazoo},
};

/* kazoo only stands beside. */
static int count_rivals(void)
{
    if (access(CURATOR, R_OK) != 0 || !is_in_path("javac"))
        bench_skip("needs Curator and a JDK (Debian: libcurator-recipes-java, "
                   "default-jdk-headless)");
    return access(KAZOO, R_OK) == 0 ? 2 : 1;
}

void bench_zookeeper_pair(const struct bench *b)
{
    quorum_pair(b, &quorum_zookeeper);
}

void bench_zookeeper_handover(const struct bench *b)
{
    quorum_handover(b, &quorum_zookeeper, rivals, count_rivals(), NULL);
}

void bench_zookeeper_contended(const struct bench *b)
{
    quorum_contended(b, &quorum_zookeeper, rivals, count_rivals());
}

void bench_zookeeper_waiters(const struct bench *b)
{
    quorum_waiters(b, &quorum_zookeeper);
}
