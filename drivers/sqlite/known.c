/* known.c - where our own entries stand: rid to number.
 *
 * The tables are ordered by key and number; finding an entry by its id would
 * need an index, and an index is one more page to write in every join and
 * leave.  All entries of a session are made through its own store, so the
 * store remembers them instead: 16 bytes each, in a table with open addressing
 * that is at most three quarters full.  Half of an id, which is random, stands
 * for it: that two of one session agree in it will not happen, and what the
 * table says is checked in the database (the row must carry the id). */
#include "store.h"

#include <string.h>

struct sq_noted {
    uint64_t tag;      /* half of the rid; random, so it is its own hash */
    uint64_t num : 62; /* 0: the place is free */
    uint64_t sure : 1;
    uint64_t waits : 1;
};

static uint64_t tag_of(const hf_id *rid)
{
    uint64_t tag;

    memcpy(&tag, rid->bytes, sizeof tag);
    return tag;
}

/* The place of tag, or the free one where it belongs.  known_cap > 0. */
static size_t find_place(const hf_store *s, uint64_t tag)
{
    size_t at = (size_t)tag & (s->known_cap - 1);

    while (s->known[at].num != 0 && s->known[at].tag != tag)
        at = (at + 1) & (s->known_cap - 1);
    return at;
}

static bool resize_table(hf_store *s, size_t cap)
{
    sq_noted *old = s->known;
    size_t old_cap = s->known_cap;
    sq_noted *fresh = hfd_alloc(cap * sizeof *fresh);

    if (!fresh)
        return false;
    s->known = fresh;
    s->known_cap = cap;
    for (size_t i = 0; i < old_cap; i++)
        if (old[i].num != 0)
            fresh[find_place(s, old[i].tag)] = old[i];
    hfd_free(old);
    return true;
}

bool hf__sq_known_get(hf_store *s, const hf_id *rid, sq_known *ret)
{
    bool found = false;

    pthread_mutex_lock(&s->known_mu);
    if (s->known_cap > 0) {
        const sq_noted *place = &s->known[find_place(s, tag_of(rid))];

        found = place->num != 0;
        if (found)
            *ret = (sq_known){.rid = *rid,
                              .num = place->num,
                              .sure = place->sure,
                              .waits = place->waits};
    }
    pthread_mutex_unlock(&s->known_mu);
    return found;
}

bool hf__sq_known_put(hf_store *s, const sq_known *entry)
{
    bool done = false;

    pthread_mutex_lock(&s->known_mu);
    if (s->known_cap * 3 >= 4 * (s->known_count + 1) ||
        resize_table(s, s->known_cap ? s->known_cap * 2 : 16)) {
        uint64_t tag = tag_of(&entry->rid);
        sq_noted *place = &s->known[find_place(s, tag)];

        if (place->num == 0)
            s->known_count++;
        else if (place->waits)
            atomic_fetch_sub(&s->waiting, 1);
        *place = (sq_noted){tag, entry->num, entry->sure, entry->waits};
        if (entry->waits)
            atomic_fetch_add(&s->waiting, 1);
        done = true;
    } else {
        s->known_gap = true;
    }
    pthread_mutex_unlock(&s->known_mu);
    return done;
}

/* Close the gap at `at`: every later one of the run that may move up does. */
static void close_gap(hf_store *s, size_t at)
{
    size_t mask = s->known_cap - 1, next = at;

    for (;;) {
        size_t home;

        next = (next + 1) & mask;
        if (s->known[next].num == 0)
            break;
        home = (size_t)s->known[next].tag & mask;
        if (((next - home) & mask) >= ((next - at) & mask)) {
            s->known[at] = s->known[next];
            at = next;
        }
    }
    s->known[at].num = 0;
}

void hf__sq_known_drop(hf_store *s, const hf_id *rid)
{
    pthread_mutex_lock(&s->known_mu);
    if (s->known_cap > 0) {
        size_t at = find_place(s, tag_of(rid));

        if (s->known[at].num != 0) {
            if (s->known[at].waits)
                atomic_fetch_sub(&s->waiting, 1);
            close_gap(s, at);
            s->known_count--;
            /* Shrink lazily; if there is no memory it stays large. */
            if (s->known_cap > 1024 && s->known_count < s->known_cap / 16)
                resize_table(s, s->known_cap / 4);
        }
    }
    pthread_mutex_unlock(&s->known_mu);
}

size_t hf__sq_known_count(hf_store *s)
{
    size_t count;

    pthread_mutex_lock(&s->known_mu);
    count = s->known_count + s->known_gap;
    pthread_mutex_unlock(&s->known_mu);
    return count;
}

void hf__sq_known_clear(hf_store *s)
{
    pthread_mutex_lock(&s->known_mu);
    hfd_free(s->known);
    s->known = NULL;
    s->known_cap = s->known_count = 0;
    s->known_gap = false;
    atomic_store(&s->waiting, 0);
    pthread_mutex_unlock(&s->known_mu);
}
