/* heap.c - timers in order of their due instant.
 *
 * A binary heap of pointers; each timer knows its slot, so that moving or
 * removing it is O(log n).  Room is reserved when the object with the timer is
 * made: setting a timer later, in the path that tells a loss, never
 * allocates. */
#include "base/heap.h"

static void place_timer(hf__heap *heap, size_t i, hf__timer *timer)
{
    heap->slots[i] = timer;
    timer->index = i;
}

static void sift_up(hf__heap *heap, size_t i)
{
    hf__timer *timer = heap->slots[i];

    while (i > 1 && heap->slots[i / 2]->due > timer->due) {
        place_timer(heap, i, heap->slots[i / 2]);
        i /= 2;
    }
    place_timer(heap, i, timer);
}

static void sift_down(hf__heap *heap, size_t i)
{
    hf__timer *timer = heap->slots[i];

    for (;;) {
        size_t child = 2 * i;

        if (child > heap->count)
            break;
        if (child < heap->count &&
            heap->slots[child + 1]->due < heap->slots[child]->due)
            child++;
        if (heap->slots[child]->due >= timer->due)
            break;
        place_timer(heap, i, heap->slots[child]);
        i = child;
    }
    place_timer(heap, i, timer);
}

int hf__heap_reserve(hf__heap *heap, size_t timers)
{
    if (timers + 1 > heap->room) {
        size_t room = heap->room ? heap->room * 2 : 16;
        hf__timer **slots;

        while (room < timers + 1)
            room *= 2;
        slots = hfd_realloc(heap->slots, room * sizeof *slots);
        if (!slots)
            return HF_ENOMEM;
        heap->slots = slots;
        heap->room = room;
    }
    return 0;
}

void hf__heap_set(hf__heap *heap, hf__timer *timer, hf_nsec due)
{
    timer->due = due;
    if (timer->index == 0) {
        heap->count++;
        place_timer(heap, heap->count, timer);
    }
    sift_up(heap, timer->index);
    sift_down(heap, timer->index);
}

void hf__heap_remove(hf__heap *heap, hf__timer *timer)
{
    size_t i = timer->index;
    hf__timer *last;

    if (i == 0)
        return;
    timer->index = 0;
    last = heap->slots[heap->count--];
    if (last != timer) {
        place_timer(heap, i, last);
        sift_up(heap, i);
        sift_down(heap, last->index);
    }
}

hf_nsec hf__heap_next(const hf__heap *heap)
{
    return heap->count ? heap->slots[1]->due : HF_NEVER;
}

hf__timer *hf__heap_pop_due(hf__heap *heap, hf_nsec now)
{
    hf__timer *timer;

    if (hf__heap_next(heap) > now || heap->count == 0)
        return NULL;
    timer = heap->slots[1];
    hf__heap_remove(heap, timer);
    return timer;
}

void hf__heap_done(hf__heap *heap)
{
    hfd_free(heap->slots);
    *heap = (hf__heap){0};
}
