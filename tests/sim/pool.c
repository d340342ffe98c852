/* pool.c - the memory of one history.
 *
 * A history makes and frees thousands of small blocks, and a crashed client
 * never gives its own back.  So blocks come from one arena with a list of free
 * blocks per size, and the end of a history is one assignment.  Under a
 * sanitizer each block is a malloc of its own, so that a use after the free is
 * seen, and what is left is freed at the end.
 *
 * With the fault OOM some requests are refused. */
#include "sim/sim.h"

#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#define SEPARATE 1
#else
#define SEPARATE 0
#endif

enum { CLASSES = 64, STEP = 64, ARENA = 64 << 20 };

typedef struct block {
    struct block *prev, *next; /* SEPARATE: of all; else next free one */
    size_t size;
    size_t pad; /* keeps what follows aligned to 16 */
} block;

static block all = {&all, &all, 0, 0};
static block *free_blocks[CLASSES];
static char *arena, *fill;
static size_t live;
static sim_world *world;

static void *take(size_t size)
{
    size_t class = (size + STEP - 1) / STEP;
    block *b;

    if (SEPARATE || class >= CLASSES) {
        b = malloc(sizeof *b + size);
        if (!b)
            return NULL;
        b->next = all.next;
        b->prev = &all;
        all.next->prev = b;
        all.next = b;
    } else if (free_blocks[class]) {
        b = free_blocks[class];
        free_blocks[class] = b->next;
    } else {
        size_t whole = sizeof *b + class * STEP;

        if (!arena)
            arena = fill = malloc(ARENA);
        if (!arena || (size_t)(fill - arena) + whole > ARENA)
            return NULL;
        b = (block *)(void *)fill;
        fill += whole;
    }
    b->size = size;
    live++;
    return b + 1;
}

static void give(void *p)
{
    block *b = (block *)p - 1;
    size_t class = (b->size + STEP - 1) / STEP;

    live--;
    if (SEPARATE || class >= CLASSES) {
        b->prev->next = b->next;
        b->next->prev = b->prev;
        free(b);
    } else {
        b->next = free_blocks[class];
        free_blocks[class] = b;
    }
}

static void *pool_realloc(void *p, size_t size, void *user)
{
    void *grown;

    (void)user;
    if (size == 0) {
        if (p)
            give(p);
        return NULL;
    }
    if (sim_has(world, SIM_FAULT_OOM) && sim_chance(world, 150))
        return NULL;
    grown = take(size);
    if (grown && p) {
        size_t old = ((block *)p - 1)->size;

        memcpy(grown, p, old < size ? old : size);
        give(p);
    }
    return grown;
}

void sim_pool_install(sim_world *w)
{
    world = w;
    hf_set_alloc(pool_realloc, NULL);
}

void sim_pool_reset(void)
{
    while (all.next != &all) {
        block *b = all.next;

        all.next = b->next;
        free(b);
    }
    all.prev = &all;
    fill = arena;
    live = 0;
    memset(free_blocks, 0, sizeof free_blocks);
}

size_t sim_pool_live(void)
{
    if (SEPARATE && world->trace) {
        for (const block *b = all.next; b != &all; b = b->next)
            sim_trace(world, "a block of %zu bytes is left", b->size);
    }
    return live;
}
