/* rpc.h - the few messages of etcd's API that locks need, written by hand.
 *
 * Writers append to a buffer; readers walk a reply and never past it, and say
 * when it is not a message.  Texts that they give out point into the reply.
 * The field numbers are those of etcd's public description. */
#ifndef HF_DRIVERS_ETCD_RPC_H
#define HF_DRIVERS_ETCD_RPC_H

#include "pb.h"

#define ETCD_RANGE "/etcdserverpb.KV/Range"
#define ETCD_DELETE "/etcdserverpb.KV/DeleteRange"
#define ETCD_TXN "/etcdserverpb.KV/Txn"
#define ETCD_GRANT "/etcdserverpb.Lease/LeaseGrant"
#define ETCD_REVOKE "/etcdserverpb.Lease/LeaseRevoke"
#define ETCD_KEEPALIVE "/etcdserverpb.Lease/LeaseKeepAlive"
#define ETCD_TIMETOLIVE "/etcdserverpb.Lease/LeaseTimeToLive"
#define ETCD_WATCH "/etcdserverpb.Watch/Watch"
#define ETCD_STATUS "/etcdserverpb.Maintenance/Status"
#define ETCD_ALARM "/etcdserverpb.Maintenance/Alarm"
#define ETCD_MEMBERS "/etcdserverpb.Cluster/MemberList"

typedef struct etcd_text { /* bytes that belong to somebody else */
    const char *at;
    size_t len;
} etcd_text;

/* ---- Requests ----------------------------------------------------------- */

typedef enum etcd_target { ETCD_CREATED = 1, ETCD_MODIFIED = 2 } etcd_target;
typedef enum etcd_branch { ETCD_THEN = 2, ETCD_ELSE = 3 } etcd_branch;
typedef enum etcd_order { /* by the revision of creation */
                          ETCD_ANY = 0,
                          ETCD_OLDEST_FIRST = 1,
                          ETCD_NEWEST_FIRST = 2
} etcd_order;

typedef struct etcd_range {
    etcd_text key, end; /* no end: this key alone */
    etcd_order order;
    int64_t limit;       /* 0: all */
    int64_t revision;    /* 0: now */
    int64_t max_created; /* 0: any */
    bool keys_only;
} etcd_range;

typedef struct etcd_put {
    etcd_text key, value;
    int64_t lease;
    bool keep_lease, keep_value; /* as they are in the store */
} etcd_put;

/* Parts of a transaction: conditions, and what is done if all of them hold
 * (ETCD_THEN) or not (ETCD_ELSE). */
void etcd_if_equal(hf__buf *out, etcd_target target, etcd_text key,
                   int64_t revision);
/* No key in [key, end) was created after that revision (0: there is none). */
void etcd_if_none_after(hf__buf *out, etcd_text key, etcd_text end,
                        int64_t revision);
void etcd_do_range(hf__buf *out, etcd_branch branch, const etcd_range *range);
void etcd_do_get(hf__buf *out, etcd_branch branch, etcd_text key);
void etcd_do_put(hf__buf *out, etcd_branch branch, const etcd_put *put);
void etcd_do_delete(hf__buf *out, etcd_branch branch, etcd_text key);

/* Whole messages. */
void etcd_ask_range(hf__buf *out, const etcd_range *range);
void etcd_ask_delete(hf__buf *out, etcd_text key);
void etcd_ask_grant(hf__buf *out, int64_t lease, int64_t seconds);
void etcd_ask_lease(hf__buf *out, int64_t lease); /* revoke, keepalive */
void etcd_ask_time(hf__buf *out, int64_t lease, bool keys);
/* Deletions alone; `start` 0: from now on. */
void etcd_ask_watch(hf__buf *out, int64_t id, etcd_text key, etcd_text end,
                    int64_t start, bool former);
void etcd_ask_unwatch(hf__buf *out, int64_t id);

/* ---- Replies ------------------------------------------------------------ */

typedef struct etcd_kv {
    etcd_text key, value;
    int64_t created, modified, lease; /* created 0: there is no such key */
} etcd_kv;

typedef struct etcd_rows { /* of a range */
    pb_reader at;
} etcd_rows;
/* The next row; false: the end, or rows->at.bad. */
bool etcd_next_row(etcd_rows *rows, etcd_kv *ret);
/* The only row, or none (created 0); false: it is no reply. */
bool etcd_one_row(etcd_rows *rows, etcd_kv *ret);

typedef struct etcd_txn {
    int64_t revision;
    bool done; /* the conditions held */
    pb_reader at;
} etcd_txn;
bool etcd_read_txn(etcd_txn *ret, const void *bytes, size_t len);
/* The rows of the next range in it; false: there is none. */
bool etcd_next_rows(etcd_txn *txn, etcd_rows *ret);

typedef struct etcd_page { /* a reply to ETCD_RANGE */
    int64_t revision;
    uint64_t term; /* of the leader, as the member knows it */
    bool more;
    etcd_rows rows;
} etcd_page;
bool etcd_read_page(etcd_page *ret, const void *bytes, size_t len);
/* How many keys there were. */
bool etcd_read_deleted(int64_t *ret, const void *bytes, size_t len);

typedef struct etcd_lease {
    int64_t id, ttl; /* seconds; of a keepalive 0, of a time -1: gone */
    int64_t granted; /* of a time */
    uint64_t term;   /* of the leader, as the member knows it */
    pb_reader keys;  /* of a time: see etcd_next_key */
} etcd_lease;
bool etcd_read_lease(etcd_lease *ret, const void *bytes, size_t len);
bool etcd_next_key(pb_reader *keys, etcd_text *ret);

typedef struct etcd_event {
    bool is_delete;
    etcd_kv kv, former; /* former.created 0: it did not come along */
} etcd_event;
typedef struct etcd_watched {
    int64_t revision, id, compacted;
    bool created, canceled, fragment;
    etcd_text reason;
    pb_reader events;
} etcd_watched;
bool etcd_read_watched(etcd_watched *ret, const void *bytes, size_t len);
bool etcd_next_event(pb_reader *events, etcd_event *ret);

typedef struct etcd_status {
    uint64_t member, leader;
    int64_t size, in_use, quota; /* bytes; quota 0: it does not say */
    etcd_text version, error;
    bool learner;
} etcd_status;
bool etcd_read_status(etcd_status *ret, const void *bytes, size_t len);

typedef struct etcd_member {
    uint64_t id;
    etcd_text name, url;
    bool learner;
} etcd_member;
bool etcd_next_member(pb_reader *members, etcd_member *ret);
/* 1 no space, 2 corrupt. */
bool etcd_next_alarm(pb_reader *alarms, uint64_t *ret_member, int *ret_alarm);

#endif
