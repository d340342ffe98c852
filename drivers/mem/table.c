/* table.c - the hash table behind the mem driver's three indexes.
 *
 * Chains in slots, doubled when there are more members than slots.  A failed
 * doubling is no failure: longer chains are slower, not wrong, so that only
 * the very first allocation can refuse anything. */
#include "table.h"

#include <holdfast/driver.h>

enum { FIRST_SIZE = 16 };

uint64_t hf__mem_hash(const void *bytes, size_t len)
{
    const uint8_t *p = bytes;
    uint64_t hash = UINT64_C(0x9e3779b97f4a7c15) ^ len;

    for (size_t i = 0; i < len; i++)
        hash = (hash ^ p[i]) * UINT64_C(0x100000001b3);
    return hash ^ (hash >> 29);
}

static void rehash_members(mem_table *table, mem_link **slots, size_t size)
{
    for (size_t i = 0; i < table->size; i++) {
        mem_link *link = table->slots[i];

        while (link) {
            mem_link *next = link->next;
            mem_link **slot = &slots[link->hash & (size - 1)];

            link->next = *slot;
            *slot = link;
            link = next;
        }
    }
    hfd_free(table->slots);
    table->slots = slots;
    table->size = size;
}

bool hf__mem_table_reserve(mem_table *table)
{
    if (table->count >= table->size) {
        size_t size = table->size ? 2 * table->size : FIRST_SIZE;
        mem_link **slots = hfd_alloc(size * sizeof *slots);

        if (slots)
            rehash_members(table, slots, size);
    }
    return table->size > 0;
}

void hf__mem_table_insert(mem_table *table, mem_link *link, uint64_t hash)
{
    mem_link **slot = &table->slots[hash & (table->size - 1)];

    link->hash = hash;
    link->next = *slot;
    *slot = link;
    table->count++;
}

void hf__mem_table_remove(mem_table *table, mem_link *link)
{
    mem_link **at = &table->slots[link->hash & (table->size - 1)];

    while (*at != link)
        at = &(*at)->next;
    *at = link->next;
    table->count--;
}

mem_link *hf__mem_table_first(const mem_table *table, uint64_t hash)
{
    mem_link *link =
        table->size ? table->slots[hash & (table->size - 1)] : NULL;

    while (link && link->hash != hash)
        link = link->next;
    return link;
}

mem_link *hf__mem_table_next(const mem_link *link)
{
    mem_link *next = link->next;

    while (next && next->hash != link->hash)
        next = next->next;
    return next;
}

void hf__mem_table_done(mem_table *table)
{
    hfd_free(table->slots);
    *table = (mem_table){.slots = NULL};
}
