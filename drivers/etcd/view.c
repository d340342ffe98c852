/* view.c - a queue as etcd showed it at one revision, and who may hold.
 *
 * Answers: who stands in this queue, am I granted, and if not, whose leaving do
 * I wait for?  Knows nothing of requests.  The order is that of the create
 * revisions: an entry that appears later has a larger one, for the life of the
 * cluster (the law of driver.h), so those ahead of me can only leave, and an
 * old view errs towards waiting.
 *
 * The rule is the core's, with one addition: a Go client knows no kinds and
 * waits for whatever is older than itself, so whoever comes behind one must
 * wait for it, permits too.  What kind a queue is, is decided by its oldest
 * entry: one of another kind stands in it for a moment only, before it has
 * seen that it must not, and nobody else is refused because of it. */
#include <string.h>

#include "store.h"

enum { SEATS_FIRST = 16, SEATS_KEPT = 512 };

uint64_t etcd_hash(etcd_text text)
{
    uint64_t hash = UINT64_C(14695981039346656037);

    for (size_t i = 0; i < text.len; i++)
        hash = (hash ^ (unsigned char)text.at[i]) * UINT64_C(1099511628211);
    return hash ? hash : 1;
}

/* ---- Reading ------------------------------------------------------------ */

void etcd_view_done(etcd_view *view)
{
    view->count = 0;
    if (view->room > SEATS_KEPT) {
        hfd_free(view->entries);
        hfd_free(view->seats);
        *view = (etcd_view){.count = 0};
    }
}

static bool make_room(etcd_view *view)
{
    size_t room = view->room ? view->room * 2 : SEATS_FIRST;
    etcd_entry *entries;
    hf_seat *seats;

    if (view->count < view->room)
        return true;
    entries = hfd_realloc(view->entries, room * sizeof *entries);
    if (entries)
        view->entries = entries;
    seats = entries ? hfd_realloc(view->seats, room * sizeof *seats) : NULL;
    if (!seats)
        return false;
    view->seats = seats;
    view->room = room;
    return true;
}

etcd_reading etcd_read_view(etcd_view *view, etcd_rows *rows, size_t dir_len)
{
    etcd_kv kv;

    view->count = 0;
    while (etcd_next_row(rows, &kv)) {
        etcd_entry entry = {.created = kv.created, .modified = kv.modified};
        etcd_record *record = &entry.record;

        if (kv.key.len < dir_len)
            return ETCD_BAD;
        entry.suffix = (etcd_text){kv.key.at + dir_len, kv.key.len - dir_len};
        if (!etcd_read_suffix(&entry.name, entry.suffix))
            continue; /* of another lock, or no lock at all */
        if (view->count > 0 &&
            view->entries[view->count - 1].created > kv.created)
            return ETCD_BAD; /* it is not in the order that was asked for */
        if (!make_room(view))
            return ETCD_NO_MEMORY;
        etcd_read_record(record, kv.value);
        view->entries[view->count] = entry;
        view->seats[view->count++] = (hf_seat){.num = (uint64_t)kv.created,
                                               .mode = record->mode,
                                               .places = record->places};
    }
    return rows->at.bad ? ETCD_BAD : ETCD_READ;
}

bool etcd_view_add(etcd_view *view, const hf_place *place)
{
    if (!make_room(view))
        return false;
    view->entries[view->count] = (etcd_entry){.suffix = {"", 0}};
    view->seats[view->count++] = (hf_seat){
        .num = UINT64_MAX, .mode = place->mode, .places = place->places};
    return true;
}

size_t etcd_view_find(const etcd_view *view, int64_t lease, const hf_id *rid)
{
    size_t i = 0;

    while (i < view->count &&
           (view->entries[i].name.lease != lease ||
            !view->entries[i].record.ours ||
            memcmp(&view->entries[i].record.rid, rid, sizeof *rid) != 0))
        i++;
    return i;
}

/* ---- The rule ----------------------------------------------------------- */

bool etcd_view_other_kind(const etcd_view *view, size_t me, hf_mode mode,
                          uint32_t places)
{
    /* Whoever is oldest himself has made the queue what it is. */
    return me > 0 && !hfd_same_kind(&view->seats[0], mode, places);
}

hf_nsec etcd_look_in(const etcd_record *ahead)
{
    /* The end of a lease is told like any other deletion; a look is only for
     * what was not told, and the core has its own time for that. */
    return ahead->ttl > 0 && ahead->ttl < 5 ? HF_MS(ahead->ttl * 1000) : 0;
}

hf_verdict etcd_judge_seats(const hf_seat *seats, size_t n, size_t me,
                            size_t *ret_for)
{
    for (size_t i = me; seats[me].mode == HF_PERMIT && i-- > 0;) {
        if (seats[i].mode != HF_PERMIT) {
            *ret_for = i;
            return HF_WAITS;
        }
    }
    return hfd_admit(seats, n, me, ret_for);
}

hf_verdict etcd_view_judge(const etcd_view *view, size_t me, etcd_ahead *ret)
{
    const hf_seat *seats = view->seats;
    size_t whom = 0;

    *ret = (etcd_ahead){.hash = 0};
    if (etcd_judge_seats(seats, view->count, me, &whom) == HF_GRANTED)
        return HF_GRANTED;
    ret->hash = etcd_hash(view->entries[whom].suffix);
    ret->look_in = etcd_look_in(&view->entries[whom].record);
    if (seats[me].mode == HF_PERMIT && seats[whom].mode == HF_PERMIT) {
        /* Not for this one: for so many of those ahead. */
        ret->hash = 0;
        ret->leaves = (uint32_t)(me + 1 - seats[me].places);
    }
    return HF_WAITS;
}
