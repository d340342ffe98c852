/* table.h - find one of many by a short name: keys, sessions, requests.
 *
 * An intrusive hash table: the owner embeds a mem_link and knows how to
 * compare.  Knows nothing of queues.  Only mem_table_reserve may fail; after it
 * the next insertion cannot, so that an operation asks for all its memory
 * first and then happens as a whole. */
#ifndef HF_DRIVERS_MEM_TABLE_H
#define HF_DRIVERS_MEM_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mem_link {
    struct mem_link *next;
    uint64_t hash;
} mem_link;

typedef struct mem_table {
    mem_link **slots;
    size_t size, count; /* size: a power of two, or 0 */
} mem_table;

uint64_t hf__mem_hash(const void *bytes, size_t len);

/* Room for one more; false: out of memory (only when it is still empty). */
bool hf__mem_table_reserve(mem_table *table);
void hf__mem_table_insert(mem_table *table, mem_link *link, uint64_t hash);
void hf__mem_table_remove(mem_table *table, mem_link *link);
/* The first in the chain of hash; go on by mem_table_next. */
mem_link *hf__mem_table_first(const mem_table *table, uint64_t hash);
mem_link *hf__mem_table_next(const mem_link *link);
/* Frees the slots, not the members. */
void hf__mem_table_done(mem_table *table);

#endif
