/* judge.h - what a queue as it was read means; pure, no store, no clock.
 *
 * Entries are in order of num, as sql_body_read gives them.  Those that hold
 * are always the first few: one exclusive, or the shared ones before the first
 * exclusive, or the first `places` permits.  That is hfd_admit over a queue of
 * one kind (the row's `kind` keeps it so); of a mixed one, which no holdfast
 * writes, fewer hold than hfd_admit would allow.
 *
 * The head of a body may not be all of it.  If all that is seen of it holds
 * (sql_held(seen, n) == n), more may hold behind: then read the whole row. */
#ifndef HF_DRIVERS_SQL_JUDGE_H
#define HF_DRIVERS_SQL_JUDGE_H

#include "body.h"

/* How many hold: entries[0] to entries[that - 1]. */
size_t sql_held(const sql_entry *entries, size_t n);
/* Whose leaving entries[me] waits for, an index; n: it waits for nobody. */
size_t sql_waits_for(const sql_entry *entries, size_t n, size_t me);
/* Where it is: by rid or by num; n: nowhere. */
size_t sql_find(const sql_entry *entries, size_t n, const hf_id *rid);
size_t sql_find_num(const sql_entry *entries, size_t n, uint64_t num);

/* Did `left` hold, when it stood among those that were there with it? */
bool sql_held_among(const sql_entry *after, size_t n, const sql_entry *left);
/* The num of the last that holds, 0: nobody; with `left` (may be NULL) still
 * standing among them. */
uint64_t sql_held_until(const sql_entry *entries, size_t n,
                        const sql_entry *left);
/* The same where the queue was read by a later statement than the one that took
 * `left` out (no RETURNING): others may have left in between, and of permits
 * each leaver would take the same ones for held already.  So all permits behind
 * one that held count as due; some that held will be told, nobody is missed. */
uint64_t sql_held_until_then(const sql_entry *entries, size_t n,
                             const sql_entry *left);
/* Who holds now and is behind `until`: entries[*ret_first] and those behind it;
 * how many.  After one left, `until` is sql_held_until(after, n, left), or
 * sql_held_until_then; after several were cut out, sql_held_until(before, n,
 * NULL) of the queue as it was read before. */
size_t sql_due(const sql_entry *after, size_t n, uint64_t until,
               size_t *ret_first);

/* What ends an entry. */
typedef enum sql_life {
    SQL_BY_SESSION, /* it lives as long as its session's row */
    SQL_BY_TIME     /* closed, or a fixed lease that runs: until exp_us */
} sql_life;
sql_life sql_life_of(const sql_entry *entry);
/* Over by its own time (exp_us or brk_us), whatever its session does.  Without
 * a clock (now_us 0) nothing is: the observer watches the text. */
bool sql_over(const sql_entry *entry, int64_t now_us);
/* Microseconds until it goes if nobody does anything: session_left_us is what
 * its session has left (<= 0: none); INT64_MAX: not known.  At least 0. */
int64_t sql_entry_left(const sql_entry *entry, int64_t session_left_us,
                       int64_t now_us);
/* The earliest end among those that hold ahead of entries[me] (me n: all that
 * hold); session_left_us has one number for each that holds (sql_held).
 * INT64_MAX: nobody, or not known. */
int64_t sql_next_end(const sql_entry *entries, size_t n, size_t me,
                     const int64_t *session_left_us, int64_t now_us);
/* The fixed lease of an entry, microseconds left; 0: none, or not started. */
int64_t sql_lease_left(const sql_entry *entry, int64_t now_us);

/* May a newcomer of this kind join, and would it hold at once?  0, HF_EKIND
 * or HF_EBUSY (it would wait). */
int sql_try(const sql_entry *entries, size_t n, hf_mode mode, uint32_t places);

#endif
