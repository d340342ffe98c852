/* rows.h - what a listing gathers: nodes to be read, and rows that were. */
#ifndef HF_DRIVERS_ZOOKEEPER_ROWS_H
#define HF_DRIVERS_ZOOKEEPER_ROWS_H

#include "store.h"

typedef struct zk_todo { /* a node that is to be looked at */
    struct zk_todo *next;
    zk_name name; /* of an entry */
    bool granted, permit;
    unsigned index;      /* its request in the flight */
    size_t dir_len, len; /* dir_len: the key's own node */
    char path[];
} zk_todo;

typedef struct zk_listing {
    hf_store *store;
    int64_t session; /* ours; 0: none */
    zk_todo *dirs, *nodes, *asked;
    bool reading; /* what is asked are nodes, not children */
    struct zk_row **rows;
    size_t count, room;
    zk_text key;
} zk_listing;

/* A node was read; false: no memory. */
bool zk_rows_add(zk_listing *list, const hf_op *op, const zk_todo *node,
                 const zk_reply *reply);
/* Tell them in order, until the emitter has had enough. */
void zk_rows_emit(zk_listing *list, hf_op *op);
void zk_rows_free(zk_listing *list);

#endif
