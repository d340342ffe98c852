/* format_table.c - what this process knows of its places and sessions.
 *
 * A store without queue and sessions leaves both to its clients.  So this is
 * where a waiter stands, where a session has its lease, and where a grant is
 * remembered: to tell a hold that expired from one that never was, and to give
 * everything back when a session is detached.
 *
 * The store alone says who holds; a record that is missing here costs a less
 * exact reason, never a wrong verdict.  Records go with the leave, the detach
 * or an answer that says that nothing is there.  Those which the core forgets
 * without a word (fixed leases that ran out, tombs) are swept when the table
 * would grow, so that it is bounded by what is really held and waited for.
 *
 * Every function is called with the table's mutex held, but for the first two
 * and sql_note_remaining. */
#include "format.h"

enum { FIRST_SLOTS = 64 };

static bool same_id(const hf_id *a, const hf_id *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

/* The core draws one half and counts with the other. */
static size_t hash_rid(const hf_id *rid)
{
    uint64_t halves[2], hash;

    memcpy(halves, rid->bytes, sizeof halves);
    hash = (halves[0] ^ halves[1] * UINT64_C(0x9e3779b97f4a7c15)) *
           UINT64_C(0xff51afd7ed558ccd);
    return (size_t)(hash ^ hash >> 32);
}

static size_t hash_lock(const char *key, size_t len)
{
    uint64_t hash = UINT64_C(14695981039346656037);

    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)key[i]) * UINT64_C(1099511628211);
    return (size_t)(hash ^ hash >> 32);
}

void sql_table_init(sql_table *table)
{
    pthread_mutex_init(&table->mu, NULL);
}

static void free_record(sql_record *record, void *user)
{
    sql_record_drop(user, record);
}

void sql_table_done(sql_table *table)
{
    sql_member *member;

    sql_each_record(table, free_record, table);
    hfd_free(table->by_rid);
    hfd_free(table->by_lock);
    while ((member = table->members) != NULL) {
        table->members = member->next;
        hfd_free(member);
    }
    pthread_mutex_destroy(&table->mu);
}

/* ---- Records ------------------------------------------------------------ */

sql_record *sql_record_find(const sql_table *table, const hf_id *rid)
{
    sql_record *at;

    if (table->slots == 0)
        return NULL;
    at = table->by_rid[hash_rid(rid) & (table->slots - 1)];
    while (at && !same_id(&at->rid, rid))
        at = at->next_rid;
    return at;
}

static sql_record **rid_slot(const sql_table *table, const sql_record *record)
{
    return &table->by_rid[hash_rid(&record->rid) & (table->slots - 1)];
}

static sql_record **lock_slot(const sql_table *table, const char *key,
                              size_t len)
{
    return &table->by_lock[hash_lock(key, len) & (table->slots - 1)];
}

void sql_record_insert(sql_table *table, sql_record *record)
{
    sql_record **rids = rid_slot(table, record);
    sql_record **keys = lock_slot(table, record->lock, record->lock_len);

    record->next_rid = *rids;
    *rids = record;
    record->next_lock = *keys;
    *keys = record;
    table->count++;
}

void sql_record_unlink(sql_table *table, sql_record *record)
{
    sql_record **rids = rid_slot(table, record);
    sql_record **keys = lock_slot(table, record->lock, record->lock_len);

    while (*rids != record)
        rids = &(*rids)->next_rid;
    *rids = record->next_rid;
    while (*keys != record)
        keys = &(*keys)->next_lock;
    *keys = record->next_lock;
    table->count--;
}

void sql_record_drop(sql_table *table, sql_record *record)
{
    sql_record_unlink(table, record);
    hfd_free(record);
}

void sql_each_record(sql_table *table, void (*fn)(sql_record *, void *),
                     void *user)
{
    for (size_t i = 0; i < table->slots; i++) {
        sql_record *next;

        for (sql_record *at = table->by_rid[i]; at; at = next) {
            next = at->next_rid;
            fn(at, user);
        }
    }
}

/* Is nothing of it left, in the store or in anybody's hands?  What a vessel
 * holds is its own machine's to end. */
static void sweep_record(sql_record *record, void *user)
{
    sql_table *table = user;
    const sql_member *member;
    hf_nsec now = hfd_now();
    bool over;

    if (record->asking > 0 || record->vessel)
        return;
    if (record->fixed) {
        over = record->ends < now;
    } else {
        member = sql_member_of(table, &record->sid);
        over = !member || now - member->ends > member->ttl;
    }
    if (over)
        sql_record_drop(table, record);
}

static bool grow(sql_table *table)
{
    size_t slots = table->slots ? table->slots * 2 : FIRST_SLOTS;
    sql_record **by_rid = hfd_alloc(slots * sizeof(sql_record *));
    sql_record **by_lock = hfd_alloc(slots * sizeof(sql_record *));
    sql_record **old_rid = table->by_rid, **old_lock = table->by_lock;
    size_t old_slots = table->slots;

    if (!by_rid || !by_lock) {
        hfd_free(by_rid);
        hfd_free(by_lock);
        return false;
    }
    table->by_rid = by_rid;
    table->by_lock = by_lock;
    table->slots = slots;
    table->count = 0;
    for (size_t i = 0; i < old_slots; i++) {
        sql_record *next;

        for (sql_record *at = old_rid[i]; at; at = next) {
            next = at->next_rid;
            sql_record_insert(table, at);
        }
    }
    hfd_free(old_rid);
    hfd_free(old_lock);
    return true;
}

sql_record *sql_record_add(sql_table *table, const hf_place *place,
                           const hf_id *sid, const char *lock)
{
    size_t len = lock ? strlen(lock) : place->key_len;
    sql_record *record;

    if (table->count >= table->slots) {
        sql_each_record(table, sweep_record, table);
        /* A table that is crowded works, too; only the first is needed. */
        if (table->count >= table->slots / 2 && !grow(table) &&
            table->slots == 0)
            return NULL;
    }
    record = hfd_alloc(sizeof *record + place->key_len + len + 1);
    if (!record)
        return NULL;
    record->rid = place->rid;
    record->sid = *sid;
    record->mode = place->mode;
    record->born = hfd_now();
    record->key_len = place->key_len;
    memcpy(record->key, place->key, place->key_len);
    record->lock_len = (uint16_t)len;
    memcpy(record->key + place->key_len, lock ? lock : place->key, len);
    record->lock = record->key + place->key_len;
    sql_record_insert(table, record);
    return record;
}

sql_record *sql_record_of_lock(const sql_table *table, const char *lock,
                               const sql_record *after)
{
    size_t len = strlen(lock);
    sql_record *at;

    if (table->slots == 0)
        return NULL;
    at = after ? after->next_lock : *lock_slot(table, lock, len);
    while (at && (at->lock_len != len || memcmp(at->lock, lock, len) != 0))
        at = at->next_lock;
    return at;
}

/* ---- Sessions ----------------------------------------------------------- */

sql_member *sql_member_of(const sql_table *table, const hf_id *sid)
{
    sql_member *at = table->members;

    while (at && !same_id(&at->sid, sid))
        at = at->next;
    return at;
}

/* Those that nobody detached, and that are long over, go on the way. */
sql_member *sql_member_add(sql_table *table, const hf_id *sid)
{
    sql_member *member = hfd_alloc(sizeof *member);
    hf_nsec now = hfd_now();

    if (!member)
        return NULL;
    for (sql_member **at = &table->members; *at;) {
        sql_member *old = *at;

        if (now - old->ends > old->ttl) {
            *at = old->next;
            hfd_free(old);
        } else {
            at = &old->next;
        }
    }
    member->sid = *sid;
    member->next = table->members;
    table->members = member;
    return member;
}

void sql_member_drop(sql_table *table, const hf_id *sid)
{
    for (sql_member **at = &table->members; *at; at = &(*at)->next) {
        sql_member *member = *at;

        if (same_id(&member->sid, sid)) {
            *at = member->next;
            hfd_free(member);
            return;
        }
    }
}

void sql_member_renewed(sql_member *member, const hf_op *op)
{
    hf_nsec ends = op->sent + op->ttl;

    member->ttl = op->ttl;
    if (ends > member->ends)
        member->ends = ends;
}

void sql_note_remaining(sql_table *table, hf_op *op)
{
    const sql_member *member;

    pthread_mutex_lock(&table->mu);
    member = sql_member_of(table, &op->sid);
    op->remaining =
        member && member->ends > op->sent ? member->ends - op->sent : 0;
    pthread_mutex_unlock(&table->mu);
}

/* ---- Answers ------------------------------------------------------------ */

/* From 50 ms to a second, a quarter of it by chance, so that those who wait
 * for one lock do not come in step; never later than its end. */
hf_nsec sql_time_to_look(sql_record *record, hf_nsec left)
{
    hf_nsec look = HF_MS(50) << (record->looks < 5 ? record->looks : 5);
    uint32_t chance;

    if (record->looks < 5)
        record->looks++;
    if (look > HF_MS(1000))
        look = HF_MS(1000);
    hfd_random(&chance, sizeof chance);
    look -= look / 4 * (hf_nsec)(chance % 1024) / 1024;
    if (left > 0 && left < look)
        look = left;
    return look;
}

void sql_place_gone(hf_place *place, int reason)
{
    place->verdict = HF_GONE;
    place->reason = reason;
    place->token = 0;
    place->remaining = place->look_in = 0;
}

static void number_record(hf_place *place, sql_record *record)
{
    if (record->num == 0)
        record->num = (uint64_t)hfd_realtime_us();
    place->num = record->num;
    place->reason = 0;
    place->token = 0;
}

/* A fixed lease begins with a join or a confirm, not with a look. */
void sql_place_granted(hf_op *op, hf_place *place, sql_record *record,
                       hf_nsec left)
{
    bool begins = op->kind == HF_OP_JOIN || op->kind == HF_OP_CONFIRM;

    if (place->lease > 0 && begins &&
        (record->state != FORMAT_GRANTED || op->kind == HF_OP_CONFIRM)) {
        record->fixed = true;
        record->ends = op->sent + left;
    }
    number_record(place, record);
    record->state = FORMAT_GRANTED;
    place->verdict = HF_GRANTED;
    place->run = 1;
    place->look_in = 0;
    place->remaining = left > 0 ? left : 0;
    if (place->lease > 0 && !record->fixed)
        place->remaining = 0;
}

void sql_place_waits(hf_op *op, hf_place *place, sql_record *record,
                     hf_nsec left)
{
    (void)op;
    number_record(place, record);
    record->state = FORMAT_WAITS;
    place->verdict = HF_WAITS;
    place->remaining = 0;
    place->look_in = sql_time_to_look(record, left);
}

void sql_peer_refuse(const hf_store *store, hf_op *op, int code,
                     const char *text)
{
    if (op->sent == 0)
        op->sent = hfd_now();
    hfd_error(&op->error, code, store->port->class->driver, 0, "%s", text);
    hfd_finish(op, HF_APPLIED, code);
}
