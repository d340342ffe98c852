/* alone.c - a key that nobody else wants: taken, and given back, by the
 * shortest statements.
 *
 * JOIN and LEAVE read the row's text, build the new one and answer what they
 * left; most keys are free when they are wanted and have one entry when it
 * leaves.  TAKE demands that the queue is empty and writes the whole entry as
 * the client has made it, LEAVE_ALONE demands that the queue is exactly that
 * entry.  Both answer only that they did it.  Whoever finds it otherwise goes
 * the long way, so nothing here knows of queues.
 *
 * The number of the entry is chosen here, ahead of the server's clock as it was
 * last told by a quick answer, and is written only if it lies above the counter
 * and the clock: it rises on the key as one that the server draws.  A clock
 * that was set, or a counter that ran ahead, cost a statement in vain, never an
 * order.
 *
 * Which keys seem crowded is a guess, by a small table over all keys: a wrong
 * one costs a statement.  Reply lost: joined again the row is not empty, and
 * the entry is found by its rid; left again, it is gone.  Paused after either:
 * as after a JOIN or a LEAVE.  Two of us here: the row lock orders us, and the
 * second finds its condition broken. */
#include <stdio.h>
#include <string.h>

#include "native.h"

/* Ahead of the server's clock by more than a statement takes to be run, and
 * by less than a failover: a server that has forgotten this number goes on from
 * its clock, above it. */
#define AHEAD_US 50000
/* An answer that took longer says too little of when the clock was read: all of
 * its way would lie ahead. */
#define SOON HF_MS(200)

static atomic_bool *crowd_of(hf_store *store, const hf_place *place)
{
    const unsigned char *key = (const unsigned char *)place->key;
    uint32_t hash = 2166136261U;

    for (size_t i = 0; i < place->key_len; i++)
        hash = (hash ^ key[i]) * 16777619U;
    return &sql_native_of(store)->crowded[hash % SQL_CROWDS];
}

bool sql_seems_alone(hf_store *store, const hf_place *place)
{
    return store->port->class->counts && !store->observer &&
           !atomic_load_explicit(crowd_of(store, place), memory_order_relaxed);
}

void sql_note_crowd(hf_store *store, const hf_place *place, bool crowded)
{
    atomic_store_explicit(crowd_of(store, place), crowded,
                          memory_order_relaxed);
}

void sql_note_clock(hf_store *store, int64_t store_us, hf_nsec sent)
{
    if (store_us > 0 && hfd_now() - sent <= SOON)
        atomic_store(&sql_native_of(store)->ahead_us,
                     store_us - sent / 1000 + AHEAD_US);
}

/* `run` numbers that no key of this store has from us; 0: no clock is known. */
static uint64_t draw_number(hf_store *store, uint32_t run)
{
    sql_native_data *data = sql_native_of(store);
    int64_t ahead = atomic_load(&data->ahead_us);
    uint64_t last = atomic_load(&data->drawn), number;

    if (ahead == 0)
        return 0;
    do {
        uint64_t now = (uint64_t)(hfd_now() / 1000 + ahead);

        number = now > last ? now : last + 1;
    } while (
        !atomic_compare_exchange_weak(&data->drawn, &last, number + run - 1));
    return number;
}

/* Run a statement of this file; its answer is how many rows it changed. */
static sql_change run_alone(sql_use *use, sql_id id, const char *const *params)
{
    bool wrote = use->wrote;

    if (!sql_run(use, id, params))
        return SQL_FAILED;
    if (use->rows.affected == 0)
        use->wrote = wrote; /* as if it had not been said */
    return use->rows.affected > 0 ? SQL_CHANGED : SQL_UNTOUCHED;
}

sql_change sql_take_alone(sql_use *use, const hf_place *place, const char *hex,
                          const char *kind, sql_queue *queue)
{
    sql_entry entry = sql_entry_of(use->op, place);
    char text[SQL_ENTRY_MAX], rid[SQL_ID_LEN + 1], sid[SQL_ID_LEN + 1];
    char number[SQL_NUMBER_MAX], last[SQL_NUMBER_MAX];
    const char *params[] = {hex, last, kind, text, number, rid, sid};
    sql_change change;

    entry.num = draw_number(use->store, entry.run);
    if (entry.num == 0)
        return SQL_UNTOUCHED;
    sql_entry_text(&entry, text);
    sql_id_text(&entry.rid, rid);
    sql_id_text(&entry.sid, sid);
    sql_number_text((int64_t)entry.num, number);
    sql_number_text((int64_t)(entry.num + entry.run - 1), last);
    change = run_alone(use, SQL_TAKE, params);
    if (change != SQL_CHANGED)
        return change;
    if (!sql_queue_assume(use, queue, entry.num + entry.run - 1, text))
        return SQL_FAILED;
    return SQL_CHANGED;
}

sql_change sql_leave_alone(sql_use *use, const char *hex,
                           const sql_entry *entry, sql_queue *queue)
{
    char text[SQL_ENTRY_MAX], sid[SQL_ID_LEN + 1];
    const char *params[] = {hex, text, sid};
    sql_change change;

    sql_entry_text(entry, text);
    sql_id_text(&entry->sid, sid);
    change = run_alone(use, SQL_LEAVE_ALONE, params);
    if (change == SQL_CHANGED && !sql_queue_assume(use, queue, 0, ""))
        return SQL_FAILED;
    return change;
}
