/* rpc_read.c - replies of etcd's API, read without copying.
 *
 * Answers: what does this reply say?  Fields that are not named here are
 * passed over, so a newer server may say more.  Everything given out points
 * into the reply's bytes, which live until the caller has returned.  A reply
 * that is not a message, or lacks what it must have, is refused as a whole:
 * the operation is UNKNOWN then, never a success (fuzzed: tests/fuzz). */
#include "rpc.h"

#include <string.h>

#include <holdfast/holdfast.h>

static etcd_text text_of(const pb_field *field)
{
    return (etcd_text){field->bytes ? field->bytes : "", field->len};
}

static bool is_message(const pb_field *field, unsigned number)
{
    return field->number == number && field->bytes;
}

static bool is_number(const pb_field *field, unsigned number)
{
    return field->number == number && !field->bytes;
}

enum { HEADER_MEMBER = 2, HEADER_REVISION = 3, HEADER_TERM = 4 };

/* A number in a header; 0: none. */
static uint64_t read_header(const pb_field *header, unsigned number, bool *bad)
{
    pb_reader reader = pb_read(header->bytes, header->len);
    uint64_t found = 0;
    pb_field field;

    while (pb_next(&reader, &field)) {
        if (is_number(&field, number))
            found = field.value;
    }
    *bad = *bad || reader.bad;
    return found;
}

static int64_t read_revision(const pb_field *header, bool *bad)
{
    return (int64_t)read_header(header, HEADER_REVISION, bad);
}

/* ---- Keys and values ---------------------------------------------------- */

static bool read_kv(etcd_kv *ret, const pb_field *from)
{
    pb_reader reader = pb_read(from->bytes, from->len);
    pb_field field;

    *ret = (etcd_kv){.key = {"", 0}, .value = {"", 0}};
    while (pb_next(&reader, &field)) {
        if (is_message(&field, 1))
            ret->key = text_of(&field);
        else if (is_number(&field, 2))
            ret->created = (int64_t)field.value;
        else if (is_number(&field, 3))
            ret->modified = (int64_t)field.value;
        else if (is_message(&field, 5))
            ret->value = text_of(&field);
        else if (is_number(&field, 6))
            ret->lease = (int64_t)field.value;
    }
    return !reader.bad;
}

bool etcd_next_row(etcd_rows *rows, etcd_kv *ret)
{
    pb_field field;

    while (pb_next(&rows->at, &field)) {
        if (!is_message(&field, 2))
            continue;
        /* Whoever stands in a queue was created by some revision. */
        if (read_kv(ret, &field) && ret->created > 0 && ret->modified > 0)
            return true;
        rows->at.bad = true;
        return false;
    }
    return false;
}

bool etcd_one_row(etcd_rows *rows, etcd_kv *ret)
{
    *ret = (etcd_kv){.key = {"", 0}, .value = {"", 0}};
    etcd_next_row(rows, ret);
    return !rows->at.bad;
}

/* ---- Transactions and ranges -------------------------------------------- */

bool etcd_read_txn(etcd_txn *ret, const void *bytes, size_t len)
{
    pb_reader reader = pb_read(bytes, len);
    bool bad = false;
    pb_field field;

    *ret = (etcd_txn){.at = pb_read(bytes, len)};
    while (pb_next(&reader, &field)) {
        if (is_message(&field, 1))
            ret->revision = read_revision(&field, &bad);
        else if (is_number(&field, 2))
            ret->done = field.value != 0;
    }
    return !reader.bad && !bad && ret->revision > 0;
}

bool etcd_next_rows(etcd_txn *txn, etcd_rows *ret)
{
    pb_field field, inner;

    while (pb_next(&txn->at, &field)) {
        pb_reader op;

        if (!is_message(&field, 3))
            continue;
        op = pb_read(field.bytes, field.len);
        while (pb_next(&op, &inner)) {
            if (is_message(&inner, 1)) {
                ret->at = pb_read(inner.bytes, inner.len);
                return true;
            }
        }
        if (op.bad) {
            txn->at.bad = true;
            return false;
        }
    }
    return false;
}

bool etcd_read_page(etcd_page *ret, const void *bytes, size_t len)
{
    pb_reader reader = pb_read(bytes, len);
    bool bad = false;
    pb_field field;

    *ret = (etcd_page){.rows = {pb_read(bytes, len)}};
    while (pb_next(&reader, &field)) {
        if (is_message(&field, 1)) {
            ret->revision = read_revision(&field, &bad);
            ret->term = read_header(&field, HEADER_TERM, &bad);
        } else if (is_number(&field, 3)) {
            ret->more = field.value != 0;
        }
    }
    return !reader.bad && !bad && ret->revision > 0;
}

bool etcd_read_deleted(int64_t *ret, const void *bytes, size_t len)
{
    pb_reader reader = pb_read(bytes, len);
    int64_t revision = 0;
    bool bad = false;
    pb_field field;

    *ret = 0;
    while (pb_next(&reader, &field)) {
        if (is_message(&field, 1))
            revision = read_revision(&field, &bad);
        else if (is_number(&field, 2))
            *ret = (int64_t)field.value;
    }
    return !reader.bad && !bad && revision > 0 && *ret >= 0;
}

/* ---- Leases ------------------------------------------------------------- */

/* Seconds that can be counted with; -1 is one that is over. */
static int64_t shorten(int64_t seconds)
{
    return seconds < HF_MS_MAX / 1000 ? seconds : HF_MS_MAX / 1000;
}

bool etcd_read_lease(etcd_lease *ret, const void *bytes, size_t len)
{
    pb_reader reader = pb_read(bytes, len);
    bool bad = false;
    pb_field field;

    *ret = (etcd_lease){.keys = pb_read(bytes, len)};
    while (pb_next(&reader, &field)) {
        if (is_message(&field, 1))
            ret->term = read_header(&field, HEADER_TERM, &bad);
        else if (is_number(&field, 2))
            ret->id = (int64_t)field.value;
        else if (is_number(&field, 3))
            ret->ttl = shorten((int64_t)field.value);
        else if (is_number(&field, 4))
            ret->granted = (int64_t)field.value;
    }
    return !reader.bad && !bad;
}

bool etcd_next_key(pb_reader *keys, etcd_text *ret)
{
    pb_field field;

    while (pb_next(keys, &field)) {
        if (is_message(&field, 5)) {
            *ret = text_of(&field);
            return true;
        }
    }
    return false;
}

/* ---- Watches ------------------------------------------------------------ */

bool etcd_read_watched(etcd_watched *ret, const void *bytes, size_t len)
{
    pb_reader reader = pb_read(bytes, len);
    bool bad = false;
    pb_field field;

    *ret = (etcd_watched){.reason = {"", 0}, .events = pb_read(bytes, len)};
    while (pb_next(&reader, &field)) {
        if (is_message(&field, 1))
            ret->revision = read_revision(&field, &bad);
        else if (is_number(&field, 2))
            ret->id = (int64_t)field.value;
        else if (is_number(&field, 3))
            ret->created = field.value != 0;
        else if (is_number(&field, 4))
            ret->canceled = field.value != 0;
        else if (is_number(&field, 5))
            ret->compacted = (int64_t)field.value;
        else if (is_message(&field, 6))
            ret->reason = text_of(&field);
        else if (is_number(&field, 7))
            ret->fragment = field.value != 0;
    }
    return !reader.bad && !bad;
}

bool etcd_next_event(pb_reader *events, etcd_event *ret)
{
    pb_field field, inner;

    while (pb_next(events, &field)) {
        pb_reader event;
        bool good = true;

        if (!is_message(&field, 11))
            continue;
        event = pb_read(field.bytes, field.len);
        *ret = (etcd_event){.kv = {.key = {"", 0}}};
        while (good && pb_next(&event, &inner)) {
            if (is_number(&inner, 1))
                ret->is_delete = inner.value == 1;
            else if (is_message(&inner, 2))
                good = read_kv(&ret->kv, &inner);
            else if (is_message(&inner, 3))
                good = read_kv(&ret->former, &inner);
        }
        if (good && !event.bad)
            return true;
        events->bad = true;
        return false;
    }
    return false;
}

/* ---- The cluster -------------------------------------------------------- */

bool etcd_read_status(etcd_status *ret, const void *bytes, size_t len)
{
    pb_reader reader = pb_read(bytes, len);
    bool bad = false;
    pb_field field;

    *ret = (etcd_status){.version = {"", 0}, .error = {"", 0}};
    while (pb_next(&reader, &field)) {
        if (is_message(&field, 1))
            ret->member = read_header(&field, HEADER_MEMBER, &bad);
        else if (is_message(&field, 2))
            ret->version = text_of(&field);
        else if (is_number(&field, 3))
            ret->size = (int64_t)field.value;
        else if (is_number(&field, 4))
            ret->leader = field.value;
        else if (is_message(&field, 8))
            ret->error = text_of(&field);
        else if (is_number(&field, 9))
            ret->in_use = (int64_t)field.value;
        else if (is_number(&field, 10))
            ret->learner = field.value != 0;
        else if (is_number(&field, 12))
            ret->quota = (int64_t)field.value;
    }
    return !reader.bad && !bad;
}

bool etcd_next_member(pb_reader *members, etcd_member *ret)
{
    pb_field field, inner;

    while (pb_next(members, &field)) {
        pb_reader member;

        if (!is_message(&field, 2))
            continue;
        member = pb_read(field.bytes, field.len);
        *ret = (etcd_member){.name = {"", 0}, .url = {"", 0}};
        while (pb_next(&member, &inner)) {
            if (is_number(&inner, 1))
                ret->id = inner.value;
            else if (is_message(&inner, 2))
                ret->name = text_of(&inner);
            else if (is_message(&inner, 4))
                ret->url = text_of(&inner);
            else if (is_number(&inner, 5))
                ret->learner = inner.value != 0;
        }
        members->bad = members->bad || member.bad;
        return !members->bad;
    }
    return false;
}

bool etcd_next_alarm(pb_reader *alarms, uint64_t *ret_member, int *ret_alarm)
{
    pb_field field, inner;

    while (pb_next(alarms, &field)) {
        pb_reader alarm;

        if (!is_message(&field, 2))
            continue;
        alarm = pb_read(field.bytes, field.len);
        *ret_member = 0;
        *ret_alarm = 0;
        while (pb_next(&alarm, &inner)) {
            if (is_number(&inner, 1))
                *ret_member = inner.value;
            else if (is_number(&inner, 2))
                *ret_alarm = (int)inner.value;
        }
        alarms->bad = alarms->bad || alarm.bad;
        return !alarms->bad;
    }
    return false;
}
