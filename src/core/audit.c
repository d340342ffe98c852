/* audit.c - what does the store have of ours, after it was in doubt?
 *
 * A connection that broke, or a server that came back, may mean another memory:
 * an older copy that has what we gave back and lacks what we were given.  So
 * the session lists its own entries there and compares.
 *
 *   there and not here   nobody will ever leave it: leave it now
 *   here and not there   a hold is LOST; who waits looks, and joins again
 *   both, differently    the same: the store decides who holds
 *
 * Until the listing has landed the session stays DOUBTFUL, whatever renewals
 * say (hf__lease_memory_doubt).  Only entries that stood before the listing was
 * sent are judged by it, so one that is joined meanwhile is not missed in it.
 * Reply lost: asked again, with a pause; the deadline decides meanwhile.  Two
 * doubts: a listing that was sent before the second one does not lift it.
 * Stores whose holds are renewed one by one need none of this: the renewal
 * answers for each. */
#include <string.h>

#include "base/clock.h"
#include "core/internal.h"

enum { KEYS_STEP = 4096 };

typedef struct listed_row {
    hf_id rid;
    bool granted;
    uint8_t mode;
    uint16_t key_len;
    uint32_t places;
    size_t key_at; /* in audit.keys */
} listed_row;

/* Filled without the mutex, by whatever thread the driver emits on. */
typedef struct audit {
    listed_row *rows;
    size_t row_count, row_room;
    char *keys;
    size_t key_used, key_room;
    bool failed; /* no memory: it says nothing */
} audit;

static void free_audit(audit *a)
{
    if (a) {
        hfd_free(a->rows);
        hfd_free(a->keys);
        hfd_free(a);
    }
}

static bool make_room(audit *a, size_t key_len)
{
    if (a->row_count == a->row_room) {
        size_t room = a->row_room ? a->row_room * 2 : 64;
        listed_row *grown = hfd_realloc(a->rows, room * sizeof *grown);

        if (!grown)
            return false;
        a->rows = grown;
        a->row_room = room;
    }
    if (a->key_used + key_len > a->key_room) {
        size_t room = a->key_room * 2 + key_len + KEYS_STEP;
        char *grown = hfd_realloc(a->keys, room);

        if (!grown)
            return false;
        a->keys = grown;
        a->key_room = room;
    }
    return true;
}

static int note_row(const hf_row *row, void *user)
{
    audit *a = user;

    if (row->info.key_len > HF_KEY_MAX || !make_room(a, row->info.key_len)) {
        a->failed = true;
        return 1;
    }
    a->rows[a->row_count++] = (listed_row){
        .rid = row->rid,
        .granted = row->info.granted,
        .mode = (uint8_t)row->info.mode,
        .key_len = (uint16_t)row->info.key_len,
        .places = row->info.places,
        .key_at = a->key_used,
    };
    memcpy(a->keys + a->key_used, row->info.key, row->info.key_len);
    a->key_used += row->info.key_len;
    return 0;
}

/* Nobody here knows it.  The resolver repeats the leave until the store has
 * answered or the session is over; without memory the next audit finds it. */
static bool leave_unknown(hf__session *s, const audit *a, const listed_row *row)
{
    hf_place place = {
        .rid = row->rid, .mode = row->mode, .places = row->places, .run = 1};
    hf__key *key = hf__key_get(s, a->keys + row->key_at, row->key_len);
    hf__entry *entry = key ? hf__entry_adopt(s, key, &place) : NULL;

    if (entry) {
        hfd_log(HF_LOG_INFO,
                "the store has a place in '%.*s' that is not "
                "ours any more: leaving it",
                (int)key->len, key->text);
        hf__leave_later(entry);
    }
    if (key)
        hf__key_put(s, key);
    return entry != NULL;
}

/* The store does not see it as we did when the listing was sent. */
static void correct_entry(hf__entry *entry, hf__doubted was)
{
    if (was == HF_DOUBTED_HOLD && entry->state == HF_ENTRY_GRANTED &&
        entry->told != HF_LOST) {
        hf__entry_lost(entry, HF_EEXPIRED);
        hf__leave_later(entry);
    } else if (entry->state == HF_ENTRY_WAITING && entry->req) {
        hf__look_now(entry->req);
    }
}

/* false: no memory for all of it. */
static bool compare(hf__session *s, const audit *a)
{
    bool whole = true;

    for (size_t i = 0; i < a->row_count; i++) {
        const listed_row *row = &a->rows[i];
        hf__entry *entry = hf__entry_find(s, &row->rid);

        if (!entry)
            whole = leave_unknown(s, a, row) && whole;
        else if (row->granted == (entry->doubted == HF_DOUBTED_HOLD))
            entry->doubted = HF_DOUBTED_NOT;
    }
    HF_LIST_EACH(node, &s->entries) {
        hf__entry *entry = HF_CONTAINER(node, hf__entry, of_session);
        hf__doubted was = entry->doubted;

        entry->doubted = HF_DOUBTED_NOT;
        if (was != HF_DOUBTED_NOT)
            correct_entry(entry, was);
    }
    hf__line_pump_all(s); /* of what was lost the place here is free */
    return whole;
}

static void list_landed(hf__flight *flight)
{
    hf__session *s = flight->s;
    const hf_op *op = &flight->op;
    audit *a = op->user;
    bool current = flight->gen == s->gen && s->attach == HF_ATTACH_DONE;
    bool good = op->outcome == HF_APPLIED && op->error.code == 0 && !a->failed;
    hf_nsec now = hfd_now();

    s->auditing = false;
    good = current && good && compare(s, a);
    free_audit(a);
    if (op->error.code == HF_ENOTSUP)
        good = current; /* it cannot tell; the renewals have to do */
    if (!current || s->audit_at == HF_NEVER) {
        /* Of a session that is over. */
    } else if (good && op->sent >= s->audit_since) {
        s->audit_at = HF_NEVER;
        hf__lease_audited(&s->lease);
        hf__session_judge(s, now);
    } else {
        hf_nsec pause = HF_MS(50)
                        << (s->audit_failures < 3 ? s->audit_failures : 3);

        s->audit_failures++;
        s->audit_at = now + (hf_nsec)hf__random_below((uint64_t)pause) + 1;
    }
    hf__session_wake_keeper(s, hf__audit_next(s));
}

void hf__audit_want(hf__session *s, hf_nsec now, int reason)
{
    if ((s->caps & HF_CAP_EACH) || s->attach != HF_ATTACH_DONE ||
        HF_MUTANT(AUDIT_OFF)) {
        hf__lease_doubt(&s->lease, now, reason);
        return;
    }
    hf__lease_memory_doubt(&s->lease, now, reason);
    s->audit_since = now;
    s->audit_at = now;
    s->audit_failures = 0;
    hf__session_wake_keeper(s, now);
}

static hf__flight *new_listing(hf__session *s)
{
    hf__flight *flight = hf__flight_new(s, HF_OP_LIST, NULL, list_landed);
    audit *a = flight ? hfd_alloc(sizeof *a) : NULL;

    if (!a) {
        if (flight)
            hf__flight_free(flight);
        return NULL;
    }
    /* A listing of many takes a while: each try has twice the time of the one
     * before it, up to the loss. */
    flight->op.deadline =
        hfd_now() +
        (s->lease.attempt << (s->audit_failures < 4 ? s->audit_failures : 4));
    if (flight->op.deadline > hf__lease_lost_at(&s->lease))
        flight->op.deadline = hf__lease_lost_at(&s->lease);
    flight->op.text = "";
    flight->op.only_mine = true;
    flight->op.emit_row = note_row;
    flight->op.user = a;
    return flight;
}

void hf__audit_due(hf__session *s, hf_nsec now)
{
    hf__flight *flight;

    if (s->attach != HF_ATTACH_DONE || s->auditing || now < s->audit_at)
        return;
    flight = new_listing(s);
    if (!flight) {
        s->audit_at = now + HF_MS(500);
        return;
    }
    HF_LIST_EACH(node, &s->entries) {
        hf__entry *entry = HF_CONTAINER(node, hf__entry, of_session);

        entry->doubted = HF_DOUBTED_NOT;
        if (entry->gen == s->gen && entry->state == HF_ENTRY_GRANTED)
            entry->doubted = HF_DOUBTED_HOLD;
        else if (entry->gen == s->gen && entry->state == HF_ENTRY_WAITING)
            entry->doubted = HF_DOUBTED_PLACE;
    }
    s->auditing = true;
    hf__flight_submit(flight);
}

hf_nsec hf__audit_next(const hf__session *s)
{
    return s->auditing ? HF_NEVER : s->audit_at;
}
