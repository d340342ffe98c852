/* cluster.h - a store in a Redis Cluster: which node has our slot, and what is
 * to be done while that goes from one to another. */
#ifndef HF_DRIVERS_REDIS_CLUSTER_H
#define HF_DRIVERS_REDIS_CLUSTER_H

#include "store.h"

enum { REDIS_NODES_MAX = 32 };

typedef struct redis_cluster {
    redis_finder finder;
    unsigned slot;
    redis_found *seeds; /* of the URL */
    size_t seed_count;
    hf__tls *tls;
    char *user, *password;
    redis_wire *aside; /* to whoever takes the slot; mostly without a link */
    redis_finder aside_finder;
    /* all that follows changes, under mu */
    pthread_mutex_t mu;
    redis_found nodes[REDIS_NODES_MAX]; /* of the last answer */
    size_t node_count;
    size_t next; /* whom to ask, of the nodes and then the seeds */
    redis_found hint;
    bool hinted;        /* and not tried yet */
    hf_nsec refused;    /* when a call last heard that the slot is moving */
    redis_found taking; /* who takes it; port 0: not told */
    char owner[80];     /* whom we met last */
} redis_cluster;

/* ---- cluster_open.c ---- */

bool redis_url_is_cluster(const hf_url *url);
/* Unless the URL is of a cluster nothing.  Else fills store->cluster and
 * store->finder, and what the wire must know.  HF_EURL, HF_ENOMEM; nobody is
 * asked yet. */
int redis_cluster_open(hf_store *store, const hf_url *url,
                       redis_settings *settings, hf_error *err);
/* After the wire was opened: what is sent aside is read with it. */
int redis_cluster_attend(hf_store *store, hf_error *err);
void redis_cluster_dispatch(redis_cluster *cluster);
void redis_cluster_abandon(redis_cluster *cluster);
/* To the node that takes the slot, for calls that nobody drives. */
redis_wire *redis_cluster_aside(redis_cluster *cluster);

/* ---- cluster.c ---- */

/* The nodes of settings are where to ask first (copied, with the credentials;
 * tls is the caller's); tag: what stands between the braces of every key. */
int redis_cluster_init(redis_cluster *cluster, const redis_settings *settings,
                       const char *tag, hf_error *err);
void redis_cluster_done(redis_cluster *cluster);
unsigned redis_cluster_slot(const redis_cluster *cluster);
/* The address of the node that was met last as the owner. */
void redis_cluster_owner(redis_cluster *cluster, char *ret, size_t room);
/* Is it a node that we may speak to, whatever it owns? */
int redis_cluster_check(const redis_met *met, hf_error *err);
/* Was a call refused since then because the slot is being moved?  *ret_to: who
 * takes it, if that was said; port 0: it was not. */
bool redis_cluster_moving(redis_cluster *cluster, hf_nsec since,
                          redis_found *ret_to);

/* ---- cluster_words.c ---- */

/* Of bytes without braces. */
unsigned redis_slot_of(const char *bytes, size_t len);
/* Read the reply of CLUSTER SLOTS: the owner of the slot, and up to *io_count
 * nodes, owners first.  asked: whose answer it is; a node that does not know
 * its own address has that one.  False: the slot has no owner, or it is not
 * such a reply. */
bool redis_read_slots(const resp *reply, unsigned slot, const char *asked,
                      redis_found *ret_owner, redis_found *nodes,
                      size_t *io_count);
/* "MOVED 8121 host:port" and ASK: the address; false: it is neither. */
bool redis_read_moved(const resp *error, redis_found *ret);

#endif
