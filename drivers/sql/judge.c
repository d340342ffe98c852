/* judge.c - what a queue as it was read means.
 *
 * Answers: who holds, whose leaving do I wait for, who is due now that one has
 * left, and what has ended by its own time?  Takes values and gives values;
 * knows nothing of databases, sessions' rows or the time of day.
 *
 * Those that hold are the first few of the order, and the order only changes
 * by leaving (a join goes behind everybody).  So an old look errs towards
 * waiting, never towards holding.
 *
 * Nobody who is due is missed: whoever's leaving makes E due stood ahead of E,
 * and E holds in whatever that leaver sees afterwards.  With it put back, E
 * waits behind an exclusive one again, so E counts as due.  A permit may not,
 * when others have left before the look: hence sql_held_until_then. */
#include "judge.h"

#include <string.h>

#include "rows.h"

/* The rule for entries[i], with everybody ahead of it holding. */
static bool holds_too(const sql_entry *first, const sql_entry *entry, size_t i)
{
    if (i == 0)
        return true;
    switch (entry->mode) {
    case HF_SHARED:
        return first->mode == HF_SHARED;
    case HF_PERMIT:
        return first->mode == HF_PERMIT && i < first->places &&
               i < entry->places;
    case HF_EXCLUSIVE:
    default:
        return false;
    }
}

size_t sql_held(const sql_entry *entries, size_t n)
{
    size_t held = 0;

    while (held < n && holds_too(entries, &entries[held], held))
        held++;
    return held;
}

size_t sql_waits_for(const sql_entry *entries, size_t n, size_t me)
{
    if (me >= n || me < sql_held(entries, n))
        return n;
    switch (entries[me].mode) {
    case HF_SHARED:
        for (size_t i = me; i-- > 0;)
            if (entries[i].mode != HF_SHARED)
                return i;
        return n;
    case HF_PERMIT:
        return 0;
    case HF_EXCLUSIVE:
    default:
        return me - 1;
    }
}

size_t sql_find(const sql_entry *entries, size_t n, const hf_id *rid)
{
    size_t i = 0;

    while (i < n && memcmp(&entries[i].rid, rid, sizeof *rid) != 0)
        i++;
    return i;
}

size_t sql_find_num(const sql_entry *entries, size_t n, uint64_t num)
{
    size_t i = 0;

    while (i < n && entries[i].num != num)
        i++;
    return i;
}

/* The queue with `left` back in its place is never built: walk both. */
uint64_t sql_held_until(const sql_entry *entries, size_t n,
                        const sql_entry *left)
{
    const sql_entry *first = NULL;
    uint64_t until = 0;
    size_t at = 0;

    for (size_t i = 0; at < n || left; i++) {
        const sql_entry *entry = at < n ? &entries[at] : left;

        if (left && left->num < entry->num)
            entry = left;
        if (entry == left)
            left = NULL;
        else
            at++;
        if (!first)
            first = entry;
        if (!holds_too(first, entry, i))
            break;
        until = entry->num;
    }
    return until;
}

uint64_t sql_held_until_then(const sql_entry *entries, size_t n,
                             const sql_entry *left)
{
    uint64_t until = sql_held_until(entries, n, left);

    if (left->mode == HF_PERMIT && left->num < until)
        return left->num;
    return until;
}

bool sql_held_among(const sql_entry *after, size_t n, const sql_entry *left)
{
    return left->num <= sql_held_until(after, n, left);
}

size_t sql_due(const sql_entry *after, size_t n, uint64_t until,
               size_t *ret_first)
{
    size_t held = sql_held(after, n), first = 0;

    while (first < held && after[first].num <= until)
        first++;
    *ret_first = first;
    return held - first;
}

/* ---- Ends ---- */

sql_life sql_life_of(const sql_entry *entry)
{
    return entry->closed || (entry->lease_ms > 0 && entry->exp_us > 0)
               ? SQL_BY_TIME
               : SQL_BY_SESSION;
}

bool sql_over(const sql_entry *entry, int64_t now_us)
{
    if (sql_life_of(entry) == SQL_BY_TIME && entry->exp_us <= now_us)
        return true;
    return entry->brk_us > 0 && entry->brk_us <= now_us;
}

static int64_t until_instant(int64_t instant_us, int64_t now_us)
{
    int64_t left = instant_us > now_us ? instant_us - now_us : 0;

    return left < SQL_SPAN_MAX ? left : SQL_SPAN_MAX;
}

int64_t sql_entry_left(const sql_entry *entry, int64_t session_left_us,
                       int64_t now_us)
{
    int64_t left = session_left_us > 0 ? session_left_us : 0;

    if (sql_life_of(entry) == SQL_BY_TIME)
        left = until_instant(entry->exp_us, now_us);
    if (entry->brk_us > 0 && until_instant(entry->brk_us, now_us) < left)
        left = until_instant(entry->brk_us, now_us);
    return left;
}

int64_t sql_next_end(const sql_entry *entries, size_t n, size_t me,
                     const int64_t *session_left_us, int64_t now_us)
{
    size_t held = sql_held(entries, n);
    int64_t next = INT64_MAX;

    for (size_t i = 0; i < held && i < me; i++) {
        int64_t left = sql_entry_left(&entries[i], session_left_us[i], now_us);

        if (left < next)
            next = left;
    }
    return next;
}

int64_t sql_lease_left(const sql_entry *entry, int64_t now_us)
{
    if (entry->lease_ms <= 0 || entry->exp_us <= 0)
        return 0;
    return until_instant(entry->exp_us, now_us);
}

int sql_try(const sql_entry *entries, size_t n, hf_mode mode, uint32_t places)
{
    sql_entry me = {.mode = mode, .places = places};
    hf_seat seat;

    if (n == 0)
        return 0;
    seat = (hf_seat){.mode = (uint8_t)entries[0].mode,
                     .places = entries[0].places};
    if (!hfd_same_kind(&seat, mode, places))
        return HF_EKIND;
    if (sql_held(entries, n) == n && holds_too(entries, &me, n))
        return 0;
    return HF_EBUSY;
}
