/* break.c - an operator takes a lock away.
 *
 * First the owner's session row gets the news, then the entry is marked (it
 * goes a lease later, or when its owner leaves) or, with `now`, cut out; the
 * owner hears of it by its bell, or with its next renewal at the latest.  In
 * that order: an entry is never gone without its owner being able to learn why.
 *
 * Reply lost: repeated, the news are there twice, which says the same.  The
 * entry left or changed meanwhile: its text is not there, and the queue is read
 * again. */
#include <stdio.h>
#include <string.h>

#include "native.h"

typedef struct breaking {
    sql_use use;
    hf_op *op;
    sql_queue queue;
    char hex[SQL_HEX_MAX];
} breaking;

typedef enum step { AGAIN, DONE, FAILED } step;

static bool owns_token(const sql_entry *entry, uint64_t token)
{
    return token == 0 ||
           (token >= entry->num && token - entry->num < entry->run);
}

static void ring_owner(breaking *b, const sql_entry *entry)
{
    const sql_port_class *class = b->use.store->port->class;
    sql_wake wake = {.num = SQL_TAKEN};

    sql_id_text(&entry->sid, wake.sid);
    sql_id_text(&entry->rid, wake.rid);
    if (sql_same_id(&entry->sid, &b->op->sid))
        b->use.store->host.news(b->use.store->host.ctx, &entry->rid,
                                HF_EFORCED);
    else if (class->wake && b->use.conn)
        class->wake(b->use.conn, &wake, 1, b->op->deadline);
}

static bool write_news(breaking *b, const sql_entry *entry)
{
    char sid[SQL_ID_LEN + 1], rid[SQL_ID_LEN + 1], news[SQL_ID_LEN + 16];
    const char *params[] = {sid, news};

    sql_id_text(&entry->sid, sid);
    sql_id_text(&entry->rid, rid);
    snprintf(news, sizeof news, "%s.%d;", rid, -HF_EFORCED);
    return sql_run(&b->use, SQL_NEWS, params);
}

/* How long its owner may need to hear of it: its lease, or ours if it has no
 * session any more; and no shorter than a fixed lease that it believes in. */
static bool find_grace(breaking *b, const sql_entry *entry, int64_t *ret_us)
{
    char sid[SQL_ID_LEN + 1];
    const char *params[SQL_MANY];

    sql_id_text(&entry->sid, sid);
    for (size_t i = 0; i < SQL_MANY; i++)
        params[i] = sid;
    if (!sql_run(&b->use, SQL_SESSIONS, params))
        return false;
    *ret_us = sql_span(&b->use.rows, 0, 3, b->op->ttl / 1000);
    if (sql_lease_left(entry, b->queue.now_us) > *ret_us)
        *ret_us = sql_lease_left(entry, b->queue.now_us);
    return true;
}

static step mark_entry(breaking *b, const sql_entry *entry)
{
    char old[SQL_ENTRY_MAX], before[SQL_ENTRY_MAX], behind[SQL_ENTRY_MAX];
    char number[SQL_NUMBER_MAX];
    const char *params[] = {b->hex, old, before, number, behind};
    sql_entry copy = *entry;
    int64_t grace = 0;

    memcpy(old, entry->text, entry->len);
    old[entry->len] = '\0';
    if (!find_grace(b, entry, &grace) || !write_news(b, entry))
        return FAILED;
    sql_entry_around(&copy, SQL_BRK, before, behind);
    sql_number_text(grace, number);
    switch (sql_queue_change(&b->use, SQL_CHANGE, params, &b->queue)) {
    case SQL_FAILED:
        return FAILED;
    case SQL_UNTOUCHED:
        return AGAIN;
    default:
        ring_owner(b, &copy);
        return DONE;
    }
}

static step remove_entry(breaking *b, const sql_entry *entry)
{
    char text[SQL_ENTRY_MAX];
    const char *params[] = {b->hex, text};
    sql_entry copy = *entry;

    memcpy(text, entry->text, entry->len);
    text[entry->len] = '\0';
    if (!entry->closed && !write_news(b, entry))
        return FAILED;
    switch (sql_queue_change(&b->use, SQL_CUT, params, &b->queue)) {
    case SQL_FAILED:
        return FAILED;
    case SQL_UNTOUCHED:
        return AGAIN;
    default:
        break;
    }
    if (!sql_queue_whole(&b->use, b->hex, &b->queue))
        return FAILED;
    if (!copy.closed)
        ring_owner(b, &copy);
    sql_wake_after(&b->use, &b->queue, &copy);
    return sql_drop_values(&b->use, &copy.rid, 1) ? DONE : FAILED;
}

/* Those that held when the operation came, by number; so that who is granted
 * by it is not broken by it. */
static bool break_all(breaking *b, const uint64_t *nums, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        step next = AGAIN;

        for (unsigned k = 0; next == AGAIN && k < SQL_ROUNDS; k++) {
            size_t at;
            const sql_entry *entry;

            if (!sql_queue_look(&b->use, b->hex, &b->queue))
                return false;
            at = sql_find_num(b->queue.entries, b->queue.n, nums[i]);
            if (at == b->queue.n)
                break; /* left in this moment */
            entry = &b->queue.entries[at];
            if (entry->closed || b->op->now)
                next = remove_entry(b, entry);
            else if (entry->brk_us > 0)
                next = DONE;
            else
                next = mark_entry(b, entry);
        }
        if (next == FAILED)
            return false;
        b->op->count += next == DONE;
    }
    return true;
}

void sql_native_evict(hf_store *store, hf_op *op)
{
    breaking b = {.op = op};
    uint64_t *nums = NULL;
    size_t n = 0, held;
    bool done;

    op->count = 0;
    sql_hex(op->text, op->text_len, b.hex);
    done = sql_begin(&b.use, store, op) == 0 &&
           sql_queue_look(&b.use, b.hex, &b.queue) &&
           sql_drop_dead(&b.use, b.hex, &b.queue, false, NULL, NULL);
    held = done ? sql_held(b.queue.entries, b.queue.n) : 0;
    if (held > 0) {
        nums = hfd_alloc(held * sizeof *nums);
        if (!nums) {
            hfd_error(&b.use.err, HF_ENOMEM, store->port->class->driver, 0,
                      "out of memory");
            done = false;
        }
    }
    for (size_t i = 0; done && i < held; i++) {
        if (owns_token(&b.queue.entries[i], op->token))
            nums[n++] = b.queue.entries[i].num;
    }
    done = done && break_all(&b, nums, n);
    hfd_free(nums);
    sql_queue_done(&b.queue);
    if (done)
        sql_finish(&b.use, 0);
    else
        sql_fail(&b.use);
}
