/* handle.c - handles are numbers in disguise.
 *
 *     mark of the process (8) | generation of the slot (24) | slot (32)
 *
 * A handle that was released, closed or collected is recognised and refused;
 * so is one that a forked child inherited.  Slots are reused, first in first
 * out, so that a generation comes back only after millions of others.  One
 * mutex guards the table; it is a leaf: nothing is called under it but `take`,
 * which counts a reference. */
#include <string.h>

#include "base/error.h"
#include "core/internal.h"

_Static_assert(sizeof(void *) == 8, "handles need 64 bits");

typedef struct slot {
    void *object;
    uint32_t generation;
    uint32_t next_free; /* from 1; 0: none */
    uint8_t kind;
} slot;

static pthread_mutex_t table_mu = PTHREAD_MUTEX_INITIALIZER;
static slot *slots;
static uint32_t slot_room, slot_used, first_free, last_free;
static uint64_t table_mark;

static uint64_t make_id(uint32_t i)
{
    return (table_mark & 0xff) << 56 |
           (uint64_t)(slots[i].generation & 0xffffff) << 32 | (i + 1);
}

void hf__handle_reset(uint64_t mark)
{
    pthread_mutex_init(&table_mu, NULL);
    slots = NULL; /* a child's copy of the parent's table is left alone */
    slot_room = slot_used = first_free = last_free = 0;
    table_mark = mark;
}

int hf__handle_new(hf__handle_kind kind, void *object, uint64_t *ret)
{
    uint32_t i;

    pthread_mutex_lock(&table_mu);
    if (first_free) {
        i = first_free - 1;
        first_free = slots[i].next_free;
        if (first_free == 0)
            last_free = 0;
    } else {
        if (slot_used == slot_room) {
            uint32_t room = slot_room ? slot_room * 2 : 64;
            slot *grown = hfd_realloc(slots, room * sizeof *slots);

            if (!grown) {
                pthread_mutex_unlock(&table_mu);
                return HF_ENOMEM;
            }
            memset(grown + slot_room, 0, (room - slot_room) * sizeof *grown);
            slots = grown;
            slot_room = room;
        }
        i = slot_used++;
    }
    slots[i].object = object;
    slots[i].kind = (uint8_t)kind;
    slots[i].next_free = 0;
    *ret = make_id(i);
    pthread_mutex_unlock(&table_mu);
    return 0;
}

void hf__handle_drop(uint64_t id)
{
    uint32_t i = (uint32_t)id - 1;

    if (id == 0)
        return;
    pthread_mutex_lock(&table_mu);
    if (i < slot_used && slots[i].object && make_id(i) == id) {
        slots[i].object = NULL;
        slots[i].generation++;
        if (last_free)
            slots[last_free - 1].next_free = i + 1;
        else
            first_free = i + 1;
        last_free = i + 1;
    }
    pthread_mutex_unlock(&table_mu);
}

int hf__handle_find(const void *handle, hf__handle_kind kind, void **ret,
                    void (*take)(void *object))
{
    uint64_t id = (uint64_t)(uintptr_t)handle;
    uint32_t i = (uint32_t)id - 1;
    int code = HF_ENOTHELD;

    if (id == 0)
        return HF_EINVAL;
    if ((id >> 56) != (hf__process_mark() & 0xff))
        return HF_EFORKED;
    pthread_mutex_lock(&table_mu);
    if (i < slot_used && slots[i].object && slots[i].kind == kind &&
        make_id(i) == id) {
        *ret = slots[i].object;
        take(*ret);
        code = 0;
    }
    pthread_mutex_unlock(&table_mu);
    return code;
}
