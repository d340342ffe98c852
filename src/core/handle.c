/* handle.c - handles are numbers in disguise.
 *
 *     mark of the process (8) | generation of the slot (24) | slot (32)
 *
 * A handle that was released, closed, collected or never existed is recognised
 * and refused; so is one that a forked child inherited.  Slots are reused,
 * first in first out, so that a generation comes back only after millions of
 * others.  They live in chunks that never move: a forked child may look at its
 * parent's without a lock.  One mutex guards the table; it is a leaf: nothing
 * is called under it but `take`, which counts a reference. */
#include "base/error.h"
#include "core/internal.h"

_Static_assert(sizeof(void *) == 8, "handles need 64 bits");

enum { CHUNK = 1024, CHUNKS = 4096 };

typedef struct slot {
    void *object;
    uint32_t generation;
    uint32_t next_free; /* from 1; 0: none */
    uint8_t kind;
} slot;

static pthread_mutex_t table_mu = PTHREAD_MUTEX_INITIALIZER;
static slot *chunks[CHUNKS];
static uint32_t slot_used, first_free, last_free;
static uint64_t table_mark;

static slot *slot_at(uint32_t i)
{
    return &chunks[i / CHUNK][i % CHUNK];
}

static uint64_t make_id(uint32_t i)
{
    return (table_mark & 0xff) << 56 |
           (uint64_t)(slot_at(i)->generation & 0xffffff) << 32 | (i + 1);
}

/* The slot of a live handle; NULL: it is none. */
static slot *find_slot(uint64_t id, hf__handle_kind kind)
{
    uint32_t i = (uint32_t)id - 1;
    slot *at;

    if (i >= slot_used)
        return NULL;
    at = slot_at(i);
    return at->object && at->kind == kind && make_id(i) == id ? at : NULL;
}

void hf__handle_reset(uint64_t mark)
{
    pthread_mutex_init(&table_mu, NULL);
    /* A child's copies of the parent's chunks are left alone.  They were made
     * in order: what was never used is not touched. */
    for (uint32_t i = 0; i < CHUNKS && chunks[i]; i++)
        chunks[i] = NULL;
    slot_used = first_free = last_free = 0;
    table_mark = mark;
}

static int new_slot(uint32_t *ret)
{
    uint32_t i = slot_used;

    if (i / CHUNK >= CHUNKS)
        return HF_EFULL;
    if (i % CHUNK == 0 && !chunks[i / CHUNK]) {
        chunks[i / CHUNK] = hfd_alloc(CHUNK * sizeof(slot));
        if (!chunks[i / CHUNK])
            return HF_ENOMEM;
    }
    slot_used++;
    *ret = i;
    return 0;
}

int hf__handle_new(hf__handle_kind kind, void *object, uint64_t *ret)
{
    uint32_t i;
    int code = 0;

    pthread_mutex_lock(&table_mu);
    if (first_free) {
        i = first_free - 1;
        first_free = slot_at(i)->next_free;
        if (first_free == 0)
            last_free = 0;
    } else {
        code = new_slot(&i);
    }
    if (code == 0) {
        slot_at(i)->object = object;
        slot_at(i)->kind = (uint8_t)kind;
        slot_at(i)->next_free = 0;
        *ret = make_id(i);
    }
    pthread_mutex_unlock(&table_mu);
    return code;
}

bool hf__handle_drop(uint64_t id, hf__handle_kind kind)
{
    slot *at;

    pthread_mutex_lock(&table_mu);
    at = find_slot(id, kind);
    if (at) {
        at->object = NULL;
        at->generation++;
        if (last_free)
            slot_at(last_free - 1)->next_free = (uint32_t)id;
        else
            first_free = (uint32_t)id;
        last_free = (uint32_t)id;
    }
    pthread_mutex_unlock(&table_mu);
    return at != NULL;
}

int hf__handle_find(const void *handle, hf__handle_kind kind, void **ret,
                    void *(*take)(void *object))
{
    uint64_t id = (uint64_t)(uintptr_t)handle;
    uint64_t mark = hf__process_mark() & 0xff;
    slot *at;

    if (id == 0)
        return HF_EINVAL;
    if (id >> 56 != mark)
        return id >> 56 != 0 && (mark == 0 || id >> 56 < mark) ? HF_EFORKED
                                                               : HF_ENOTHELD;
    pthread_mutex_lock(&table_mu);
    at = find_slot(id, kind);
    if (at)
        *ret = take(at->object);
    pthread_mutex_unlock(&table_mu);
    return at ? 0 : HF_ENOTHELD;
}

void *hf__handle_peek_inherited(const void *handle, hf__handle_kind kind)
{
    uint64_t id = (uint64_t)(uintptr_t)handle;
    slot *at = hf__process_mark() == 0 && (id >> 56) == (table_mark & 0xff)
                   ? find_slot(id, kind)
                   : NULL;

    return at ? at->object : NULL;
}
