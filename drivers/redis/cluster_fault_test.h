/* cluster_fault_test.h - a throwaway Redis Cluster of a test's own.
 *
 * A few primaries that share the slots, replicas if wanted, and the steps of
 * moving a slot: open, key by key, close.  The servers are children of the test
 * (harness/server.h).  Every wait has an end. */
#ifndef HF_DRIVERS_REDIS_CLUSTER_FAULT_TEST_H
#define HF_DRIVERS_REDIS_CLUSTER_FAULT_TEST_H

#include "cluster.h"
#include "harness/child.h"
#include "harness/expect.h"
#include "harness/runner.h"
#include "harness/server.h"

enum { NODES_MOST = 6, CLUSTER_MS = 60000, KEYS_MOST = 64 };

typedef struct cluster_world {
    int primaries, nodes;
    server *node[NODES_MOST];
    char id[NODES_MOST][48], bus[NODES_MOST][8];
    unsigned slot; /* of the namespace "t" */
    int owner;     /* who has it in the beginning */
    int other;     /* some other primary */
    char url[400];
} cluster_world;

#define AWAIT_CLUSTER(condition)                                               \
    do {                                                                       \
        if (!WAIT_FOR(condition, CLUSTER_MS))                                  \
            FAIL_TEST("waited in vain for: %s", #condition);                   \
    } while (0)

static inline bool node_says(server *s, const char *command, const char *part)
{
    const char *said = server_ask(s, "%s", command);

    return said && strstr(said, part);
}

/* It must be done. */
static inline void node_do(server *s, const char *command)
{
    const char *said = server_ask(s, "%s", command);

    if (!said || strcmp(said, "OK") != 0)
        FAIL_TEST("'%s' was answered '%s'", command, said ? said : "nothing");
}

static inline void node_start(cluster_world *w, int i)
{
    server_options opt = {.more = {"--cluster-enabled", "yes",
                                   "--cluster-node-timeout", "2000",
                                   "--repl-diskless-sync-delay", "0",
                                   "--cluster-port", w->bus[i], NULL}};
    const char *said;

    snprintf(w->bus[i], sizeof w->bus[i], "%d", child_port());
    w->node[i] = server_start(&opt);
    said = server_ask(w->node[i], "CLUSTER MYID");
    EXPECT(said != NULL);
    snprintf(w->id[i], sizeof w->id[i], "%s", said);
}

static inline bool cluster_stands(cluster_world *w)
{
    char known[40];
    bool all = true;

    snprintf(known, sizeof known, "cluster_known_nodes:%d\r", w->nodes);
    for (int i = 0; i < w->nodes && all; i++) {
        all = node_says(w->node[i], "CLUSTER INFO", "cluster_state:ok") &&
              node_says(w->node[i], "CLUSTER INFO", known);
        if (i >= w->primaries)
            all = all && node_says(w->node[i], "INFO replication",
                                   "master_link_status:up");
    }
    return all;
}

/* Each has some for ever: one that loses its last becomes a replica. */
static inline void share_slots(cluster_world *w)
{
    int owners = w->primaries;
    char command[80];

    for (int i = 0; i < owners; i++) {
        snprintf(command, sizeof command, "CLUSTER ADDSLOTSRANGE %d %d",
                 16384 * i / owners, 16384 * (i + 1) / owners - 1);
        node_do(w->node[i], command);
    }
    for (int i = 0; i < w->nodes; i++) {
        snprintf(command, sizeof command, "CLUSTER SET-CONFIG-EPOCH %d", i + 1);
        node_do(w->node[i], command);
    }
    for (int i = 1; i < w->nodes; i++) {
        snprintf(command, sizeof command, "CLUSTER MEET 127.0.0.1 %d %s",
                 w->node[i]->port, w->bus[i]);
        node_do(w->node[0], command);
    }
}

/* query: of the URL, after "ns=t". */
static inline void cluster_begin(cluster_world *w, int primaries, int replicas,
                                 const char *query)
{
    size_t used;

    *w = (cluster_world){.primaries = primaries,
                         .nodes = primaries + replicas,
                         .slot = redis_slot_of("t", 1)};
    while ((int)w->slot >= 16384 * (w->owner + 1) / primaries)
        w->owner++;
    w->other = (w->owner + 1) % primaries;
    for (int i = 0; i < w->nodes; i++)
        node_start(w, i);
    share_slots(w);
    for (int i = primaries; i < w->nodes; i++) {
        char command[80];

        snprintf(command, sizeof command, "CLUSTER REPLICATE %s",
                 w->id[(i - primaries) % primaries]);
        AWAIT_CLUSTER(node_says(w->node[i], command, "OK"));
    }
    AWAIT_CLUSTER(cluster_stands(w));
    used = (size_t)snprintf(w->url, sizeof w->url, "redis+cluster://");
    for (int i = 0; i < primaries; i++)
        used +=
            (size_t)snprintf(w->url + used, sizeof w->url - used,
                             "%s127.0.0.1:%d", i ? "," : "", w->node[i]->port);
    snprintf(w->url + used, sizeof w->url - used, "?ns=t%s", query);
}

static inline void cluster_end(cluster_world *w)
{
    for (int i = 0; i < w->nodes; i++)
        server_stop(w->node[i]);
}

/* ---- Moving a slot ---- */

static inline void set_slot(cluster_world *w, int at, const char *word,
                            const char *id)
{
    char command[120];

    snprintf(command, sizeof command, "CLUSTER SETSLOT %u %s %s", w->slot, word,
             id);
    node_do(w->node[at], command);
}

static inline void move_open(cluster_world *w, int from, int to)
{
    set_slot(w, to, "IMPORTING", w->id[from]);
    set_slot(w, from, "MIGRATING", w->id[to]);
}

static inline void move_key(cluster_world *w, int from, int to, const char *key)
{
    const char *said = server_ask(w->node[from],
                                  "MIGRATE 127.0.0.1 %d %s 0 "
                                  "5000",
                                  w->node[to]->port, key);

    /* One with a TTL may be gone by now. */
    if (!said || (strcmp(said, "OK") != 0 && strcmp(said, "NOKEY") != 0))
        FAIL_TEST("MIGRATE of %s: %s", key, said ? said : "nothing");
}

static inline void move_close(cluster_world *w, int from, int to)
{
    set_slot(w, to, "NODE", w->id[to]);
    set_slot(w, from, "NODE", w->id[to]);
    for (int i = 0; i < w->primaries; i++) {
        if (i != from && i != to)
            set_slot(w, i, "NODE", w->id[to]);
    }
}

typedef struct key_list {
    int count;
    char name[KEYS_MOST][160];
} key_list;

/* What a node has in the slot. */
static inline void list_keys(cluster_world *w, int at, key_list *ret)
{
    const char *said = server_ask(w->node[at], "CLUSTER GETKEYSINSLOT %u %d",
                                  w->slot, KEYS_MOST);

    ret->count = 0;
    EXPECT(said != NULL && *said == '*');
    for (said = strstr(said, "\r\n$"); said; said = strstr(said, "\r\n$")) {
        size_t len = strtoul(said + 3, NULL, 10);

        said = strstr(said + 3, "\r\n");
        EXPECT(said != NULL && len < sizeof ret->name[0]);
        memcpy(ret->name[ret->count], said + 2, len);
        ret->name[ret->count++][len] = '\0';
        said += 2 + len;
    }
}

/* All of it, key by key, beginning somewhere else each time. */
static inline void move_slot(cluster_world *w, int from, int to, unsigned turn,
                             int pause_ms)
{
    key_list keys;

    move_open(w, from, to);
    for (;;) {
        list_keys(w, from, &keys);
        if (keys.count == 0)
            break;
        move_key(w, from, to, keys.name[turn++ % (unsigned)keys.count]);
        test_sleep_ms(pause_ms);
    }
    move_close(w, from, to);
}

#endif
