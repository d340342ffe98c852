/* rows.h - between list.c, which asks, and rows.c, which keeps and tells. */
#ifndef HF_DRIVERS_ETCD_ROWS_H
#define HF_DRIVERS_ETCD_ROWS_H

#include "store.h"

typedef struct etcd_row etcd_row;

typedef struct etcd_listing {
    etcd_row **rows;
    size_t count, room;
    hf__buf cursor, end; /* of a listing by prefix: what is asked for next */
    int64_t revision;    /* that all pages are of; 0: not known yet */
    hf__buf queues;      /* of one's own: etcd_text after etcd_text */
    size_t at;
    void *keys; /* what those texts point into */
} etcd_listing;

/* What a key is: of which lock, and which entry of it; false: of none. */
bool etcd_split_key(const hf_store *store, etcd_text key, etcd_text *ret_key,
                    etcd_suffix *ret);
/* False: no memory. */
bool etcd_rows_add(etcd_listing *list, const hf_store *store, const hf_op *op,
                   const etcd_kv *kv);
/* In order of key and number, each with its grant; false: no memory. */
bool etcd_rows_emit(etcd_listing *list, const hf_op *op);
void etcd_listing_free(void *listing);

#endif
