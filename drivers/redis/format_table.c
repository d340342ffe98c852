/* format_table.c - what this process knows of its places and sessions.
 *
 * A store without queue and sessions leaves both to its clients.  So this is
 * where a waiter stands, where a session has its lease, and where a grant is
 * remembered: to tell a hold that expired from one that never was, to find the
 * waiters that a message is about, and to give everything back when a session
 * is detached.
 *
 * The store alone says who holds; a record that is missing here costs a less
 * exact reason, never a wrong verdict.  Records go with the leave, the detach
 * or an answer that says that nothing is there.  Those which the core forgets
 * without a word (fixed leases that ran out) are swept when the table would
 * grow, so that it is bounded by what is really held and waited for. */
#include "format.h"

enum { FIRST_SLOTS = 64 };

static bool same_id(const hf_id *a, const hf_id *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

static size_t hash_rid(const hf_id *rid)
{
    uint64_t half[2];

    /* The first half is random and one session's, the second counts. */
    memcpy(half, rid->bytes, sizeof half);
    half[0] ^= half[1] * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(half[0] ^ half[0] >> 32);
}

static size_t hash_key(const char *key, size_t len)
{
    uint64_t hash = UINT64_C(14695981039346656037);

    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)key[i]) * UINT64_C(1099511628211);
    return (size_t)(hash ^ hash >> 32);
}

/* ---- Records ------------------------------------------------------------ */

format_record *format_find(format_data *data, const hf_id *rid)
{
    format_record *at;

    if (data->slots == 0)
        return NULL;
    at = data->by_rid[hash_rid(rid) & (data->slots - 1)];
    while (at && !same_id(&at->rid, rid))
        at = at->next_rid;
    return at;
}

void format_insert(format_data *data, format_record *record)
{
    format_record **rids =
        &data->by_rid[hash_rid(&record->rid) & (data->slots - 1)];
    format_record **keys =
        &data->by_key[hash_key(record->key, record->key_len) &
                      (data->slots - 1)];

    record->next_rid = *rids;
    *rids = record;
    record->next_key = *keys;
    *keys = record;
    data->count++;
}

void format_unlink(format_data *data, format_record *record)
{
    format_record **rids =
        &data->by_rid[hash_rid(&record->rid) & (data->slots - 1)];
    format_record **keys =
        &data->by_key[hash_key(record->key, record->key_len) &
                      (data->slots - 1)];

    while (*rids != record)
        rids = &(*rids)->next_rid;
    *rids = record->next_rid;
    while (*keys != record)
        keys = &(*keys)->next_key;
    *keys = record->next_key;
    data->count--;
}

/* Is nothing of it left, in the store or in anybody's hands? */
static bool is_over(format_data *data, const format_record *record, hf_nsec now)
{
    const format_session *session;

    if (record->asking > 0 || record->listening)
        return false;
    if (record->ends > 0)
        return record->state == FORMAT_GRANTED && record->ends < now;
    session = format_session_of(data, &record->sid);
    return !session || now - session->ends > session->ttl;
}

static void sweep(format_data *data)
{
    hf_nsec now = hfd_now();

    for (size_t i = 0; i < data->slots; i++) {
        format_record *next;

        for (format_record *at = data->by_rid[i]; at; at = next) {
            next = at->next_rid;
            if (is_over(data, at, now)) {
                format_unlink(data, at);
                hfd_free(at);
            }
        }
    }
}

static bool grow(format_data *data)
{
    size_t slots = data->slots ? data->slots * 2 : FIRST_SLOTS;
    format_record **by_rid = hfd_alloc(slots * sizeof(format_record *));
    format_record **by_key = hfd_alloc(slots * sizeof(format_record *));
    format_record **old_rid = data->by_rid, **old_key = data->by_key;
    size_t old_slots = data->slots;

    if (!by_rid || !by_key) {
        hfd_free(by_rid);
        hfd_free(by_key);
        return false;
    }
    data->by_rid = by_rid;
    data->by_key = by_key;
    data->slots = slots;
    data->count = 0;
    for (size_t i = 0; i < old_slots; i++) {
        format_record *next;

        for (format_record *at = old_rid[i]; at; at = next) {
            next = at->next_rid;
            format_insert(data, at);
        }
    }
    hfd_free(old_rid);
    hfd_free(old_key);
    return true;
}

format_record *format_add(format_data *data, const hf_place *place,
                          const hf_id *sid)
{
    char key[FORMAT_KEY_MAX];
    size_t len = format_key(data, place->key, place->key_len, key);
    format_record *record;

    if (data->count >= data->slots) {
        sweep(data);
        /* A table that is crowded works, too; only the first is needed. */
        if (data->count >= data->slots / 2 && !grow(data) && data->slots == 0)
            return NULL;
    }
    record = hfd_alloc(sizeof *record + len);
    if (!record)
        return NULL;
    record->rid = place->rid;
    record->sid = *sid;
    record->born = hfd_now();
    record->key_len = (uint16_t)len;
    memcpy(record->key, key, len);
    format_insert(data, record);
    return record;
}

/* The next one behind `at` (NULL: the first) that waits for this key. */
static format_record *next_waiter(const format_data *data, const char *key,
                                  size_t len, const format_record *at)
{
    format_record *next =
        at            ? at->next_key
        : data->slots ? data->by_key[hash_key(key, len) & (data->slots - 1)]
                      : NULL;

    while (next && (next->state == FORMAT_GRANTED || next->key_len != len ||
                    memcmp(next->key, key, len) != 0))
        next = next->next_key;
    return next;
}

size_t format_waiters(format_data *data, const char *key, size_t len,
                      hf_id *ret, size_t n)
{
    format_record *at = next_waiter(data, key, len, NULL);
    size_t found = 0;

    for (; at && found < n; at = next_waiter(data, key, len, at))
        ret[found++] = at->rid;
    return found;
}

size_t format_told(format_data *data, const char *key, size_t len,
                   unsigned node, unsigned needed, hf_id *ret, size_t n)
{
    format_record *at = next_waiter(data, key, len, NULL);
    size_t found = 0;

    for (; at && found < n; at = next_waiter(data, key, len, at)) {
        if (at->told & 1U << node) /* once more: of another release */
            at->told = 0;
        at->told |= (uint16_t)(1U << node);
        if ((unsigned)__builtin_popcount(at->told) == needed)
            ret[found++] = at->rid;
    }
    return found;
}

/* ---- Sessions ----------------------------------------------------------- */

format_session *format_session_of(format_data *data, const hf_id *sid)
{
    format_session *at = data->sessions;

    while (at && !same_id(&at->sid, sid))
        at = at->next;
    return at;
}

/* Those that nobody detached, and that are long over, go on the way. */
format_session *format_session_add(format_data *data, const hf_id *sid)
{
    format_session *session = hfd_alloc(sizeof *session);
    hf_nsec now = hfd_now();

    if (!session)
        return NULL;
    for (format_session **at = &data->sessions; *at;) {
        format_session *old = *at;

        if (now - old->ends > old->ttl) {
            *at = old->next;
            hfd_free(old);
        } else {
            at = &old->next;
        }
    }
    session->sid = *sid;
    session->next = data->sessions;
    data->sessions = session;
    return session;
}

void format_session_drop(format_data *data, const hf_id *sid)
{
    for (format_session **at = &data->sessions; *at; at = &(*at)->next) {
        format_session *session = *at;

        if (same_id(&session->sid, sid)) {
            *at = session->next;
            hfd_free(session);
            return;
        }
    }
}

void format_table_done(format_data *data)
{
    format_session *session;

    for (size_t i = 0; i < data->slots; i++) {
        format_record *next;

        for (format_record *at = data->by_rid[i]; at; at = next) {
            next = at->next_rid;
            hfd_free(at);
        }
    }
    hfd_free(data->by_rid);
    hfd_free(data->by_key);
    while ((session = data->sessions) != NULL) {
        data->sessions = session->next;
        hfd_free(session);
    }
}
