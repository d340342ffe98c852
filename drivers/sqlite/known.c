/* known.c - where our own entries stand: rid to number.
 *
 * The tables are ordered by key and number; finding an entry by its id would
 * need an index, and an index is one more page to write in every join and
 * leave.  All entries of a session are made through its own store, so the
 * store remembers them instead: 24 bytes each, in a table with open addressing
 * that is at most three quarters full.  Knows nothing of the database; what it
 * says is checked there (the row must carry the id). */
#include "store.h"

#include <string.h>

/* Ids are random: any eight bytes are a hash. */
static size_t hash_of(const hf_id *rid)
{
    size_t hash;

    memcpy(&hash, rid->bytes, sizeof hash);
    return hash;
}

static bool same_id(const hf_id *a, const hf_id *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

/* The place of rid, or the free one where it belongs.  known_cap > 0. */
static size_t find_place(const hf_store *s, const hf_id *rid)
{
    size_t at = hash_of(rid) & (s->known_cap - 1);

    while (s->known[at].num != 0 && !same_id(&s->known[at].rid, rid))
        at = (at + 1) & (s->known_cap - 1);
    return at;
}

static bool resize_table(hf_store *s, size_t cap)
{
    sq_known *old = s->known;
    size_t old_cap = s->known_cap;
    sq_known *fresh = hfd_alloc(cap * sizeof *fresh);

    if (!fresh)
        return false;
    s->known = fresh;
    s->known_cap = cap;
    for (size_t i = 0; i < old_cap; i++)
        if (old[i].num != 0)
            fresh[find_place(s, &old[i].rid)] = old[i];
    hfd_free(old);
    return true;
}

bool hf__sq_known_get(hf_store *s, const hf_id *rid, sq_known *ret)
{
    bool found = false;

    pthread_mutex_lock(&s->known_mu);
    if (s->known_cap > 0) {
        size_t at = find_place(s, rid);

        found = s->known[at].num != 0;
        if (found)
            *ret = s->known[at];
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
        sq_known *place = &s->known[find_place(s, &entry->rid)];

        if (place->num == 0)
            s->known_count++;
        else if (place->waits)
            atomic_fetch_sub(&s->waiting, 1);
        *place = *entry;
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
        home = hash_of(&s->known[next].rid) & mask;
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
        size_t at = find_place(s, rid);

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
