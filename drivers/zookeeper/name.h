/* name.h - the names of the nodes in a queue: whose they are and where they
 * stand.  Pure; knows nothing of connections. */
#ifndef HF_DRIVERS_ZOOKEEPER_NAME_H
#define HF_DRIVERS_ZOOKEEPER_NAME_H

#include <holdfast/driver.h>

typedef enum zk_kind {
    ZK_KIND_NONE = 0,
    ZK_KIND_LOCK,       /* lock-      Curator's mutex, and many others' */
    ZK_KIND_READ,       /* __READ__   Curator's read/write lock */
    ZK_KIND_WRITE,      /* __WRIT__ */
    ZK_KIND_KAZOO,      /* __lock__   kazoo's Lock and WriteLock */
    ZK_KIND_KAZOO_READ, /* __rlock__  kazoo's ReadLock */
    ZK_KIND_LEASE       /* lease-     Curator's semaphore */
} zk_kind;

typedef enum zk_maker {
    ZK_OURS = 1, /* the id is of version 8 */
    ZK_CURATOR,  /* _c_, an id with dashes */
    ZK_KAZOO,    /* 32 digits, nothing else */
    ZK_GO,       /* _c_, 32 digits */
    ZK_BARE,     /* nothing before the kind: sees only its like */
    ZK_STRANGER
} zk_maker;

typedef struct zk_name {
    zk_kind kind;
    zk_maker maker;
    int32_t seq;
    hf_id id; /* of ZK_OURS, ZK_CURATOR, ZK_KAZOO and ZK_GO */
} zk_name;

/* Is this child of a queue an entry?  Then what it says. */
bool zk_name_parse(zk_name *ret, const char *text, size_t len);

enum { ZK_NAME_ROOM = 64 }; /* for a name of ours with its number */
/* The name to create with: the server appends the number.  Its length. */
size_t zk_name_write(char *out, const hf_id *rid, zk_kind kind);
/* The same with this number, as the server writes it. */
size_t zk_name_write_seq(char *out, const hf_id *rid, zk_kind kind,
                         int32_t seq);
/* A rid as names carry it: the version's four bits are not its own. */
hf_id zk_name_id(const hf_id *rid);

bool zk_kind_is_shared(zk_kind kind);
/* Does who wrote `other` look at nodes of this kind? */
bool zk_name_sees(const zk_name *other, zk_kind mine);
/* Negative: a comes before b.  The counter is 32 bits wide and wraps. */
int32_t zk_seq_order(int32_t a, int32_t b);

#endif
