/* rpc_ask.c - requests of etcd's API, field by field.
 *
 * Answers: which bytes ask for this?  Knows nothing of locks, connections or
 * what the answer means; every reader of a lock's logic sees names instead of
 * field numbers, and the numbers stand once, here and in rpc_read.c.  A buffer
 * that could not grow says so itself (`failed`), and is looked at when the
 * request is sent, so nothing half-written goes out. */
#include "rpc.h"

enum { RESULT_EQUAL = 0, RESULT_LESS = 2 };
enum { SORT_BY_CREATION = 2 };

static void put_text(hf__buf *out, unsigned field, etcd_text text)
{
    pb_bytes(out, field, text.at, text.len);
}

/* ---- Conditions --------------------------------------------------------- */

/* The number of the value's field is 4 more than the target's. */
void etcd_if_equal(hf__buf *out, etcd_target target, etcd_text key,
                   int64_t revision)
{
    size_t mark = pb_begin(out, 1);

    pb_int(out, 1, RESULT_EQUAL);
    pb_int(out, 2, target);
    put_text(out, 3, key);
    pb_int(out, (unsigned)target + 4, revision);
    pb_end(out, mark);
}

void etcd_if_none_after(hf__buf *out, etcd_text key, etcd_text end,
                        int64_t revision)
{
    size_t mark = pb_begin(out, 1);

    /* An empty range is compared as a key that was created at 0. */
    pb_int(out, 1, revision ? RESULT_LESS : RESULT_EQUAL);
    pb_int(out, 2, ETCD_CREATED);
    put_text(out, 3, key);
    pb_int(out, (unsigned)ETCD_CREATED + 4, revision ? revision + 1 : 0);
    put_text(out, 64, end);
    pb_end(out, mark);
}

/* ---- What a transaction does -------------------------------------------- */

static void put_range(hf__buf *out, const etcd_range *range)
{
    put_text(out, 1, range->key);
    put_text(out, 2, range->end);
    pb_int(out, 3, range->limit);
    pb_int(out, 4, range->revision);
    if (range->order != ETCD_ANY) {
        pb_int(out, 5, range->order);
        pb_int(out, 6, SORT_BY_CREATION);
    }
    pb_int(out, 8, range->keys_only);
    pb_int(out, 13, range->max_created);
}

void etcd_do_range(hf__buf *out, etcd_branch branch, const etcd_range *range)
{
    size_t op = pb_begin(out, branch), mark = pb_begin(out, 1);

    put_range(out, range);
    pb_end(out, mark);
    pb_end(out, op);
}

void etcd_do_get(hf__buf *out, etcd_branch branch, etcd_text key)
{
    etcd_range range = {.key = key};

    etcd_do_range(out, branch, &range);
}

void etcd_do_put(hf__buf *out, etcd_branch branch, const etcd_put *put)
{
    size_t op = pb_begin(out, branch), mark = pb_begin(out, 2);

    put_text(out, 1, put->key);
    put_text(out, 2, put->value);
    pb_int(out, 3, put->lease);
    pb_int(out, 5, put->keep_value);
    pb_int(out, 6, put->keep_lease);
    pb_end(out, mark);
    pb_end(out, op);
}

void etcd_do_delete(hf__buf *out, etcd_branch branch, etcd_text key)
{
    size_t op = pb_begin(out, branch), mark = pb_begin(out, 3);

    put_text(out, 1, key);
    pb_end(out, mark);
    pb_end(out, op);
}

/* ---- Whole messages ----------------------------------------------------- */

void etcd_ask_range(hf__buf *out, const etcd_range *range)
{
    put_range(out, range);
}

void etcd_ask_delete(hf__buf *out, etcd_text key)
{
    put_text(out, 1, key);
}

void etcd_ask_grant(hf__buf *out, int64_t lease, int64_t seconds)
{
    pb_int(out, 1, seconds);
    pb_int(out, 2, lease);
}

void etcd_ask_lease(hf__buf *out, int64_t lease)
{
    pb_int(out, 1, lease);
}

void etcd_ask_time(hf__buf *out, int64_t lease, bool keys)
{
    pb_int(out, 1, lease);
    pb_int(out, 2, keys);
}

void etcd_ask_watch(hf__buf *out, int64_t id, etcd_text key, etcd_text end,
                    int64_t start, bool former)
{
    /* A list of enum values, packed, with the one value NOPUT, which is 0. */
    static const char noput[1] = {0};
    size_t mark = pb_begin(out, 1);

    put_text(out, 1, key);
    put_text(out, 2, end);
    pb_int(out, 3, start);
    pb_int(out, 4, 1); /* progress notices */
    pb_bytes(out, 5, noput, sizeof noput);
    pb_int(out, 6, former);
    pb_int(out, 7, id);
    pb_end(out, mark);
}

void etcd_ask_unwatch(hf__buf *out, int64_t id)
{
    size_t mark = pb_begin(out, 2);

    pb_int(out, 1, id);
    pb_end(out, mark);
}
