/* cluster.h - which node of a Redis Cluster has our slot. */
#ifndef HF_DRIVERS_REDIS_CLUSTER_H
#define HF_DRIVERS_REDIS_CLUSTER_H

#include "net/dial.h"
#include "wire.h"

typedef struct redis_cluster redis_cluster;

/* The nodes of settings are where to ask first (copied, with the credentials;
 * tls is the caller's); tag: what stands between the braces of every key.
 * HF_ENOMEM.  Nobody is asked yet. */
int redis_cluster_new(redis_cluster **ret, const redis_settings *settings,
                      const char *tag, hf_error *err);
void redis_cluster_free(redis_cluster *cluster); /* NULL is allowed */
const redis_finder *redis_cluster_finder(const redis_cluster *cluster);
unsigned redis_cluster_slot(const redis_cluster *cluster);

/* Was a call refused since then because the slot is being moved?  *ret_to: who
 * takes it, if that was said; port 0: it was not. */
bool redis_cluster_moving(redis_cluster *cluster, hf_nsec since,
                          redis_found *ret_to);

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
