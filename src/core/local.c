/* local.c - the line in front of the store: threads of one process.
 *
 * Requests for a key queue here first, and this process has at most one
 * exclusive entry per key in the store: ten threads that want one lock are one
 * place in the queue, not ten.  The first in line goes to the store when it
 * may; one join at a time per key, so that the order here is the order there.
 * Shared requests and permits have an entry each, but keep behind an exclusive
 * request of this process that came before them.
 *
 * Hand-over: an exclusive entry owns `run` numbers.  On release it passes to
 * the next exclusive request in line without a round trip, with the next
 * number, while numbers are left and not both HF_RUN_SURE sections and
 * HF_RUN_TIME are used up: so tokens rise on every hold (G2), and others wait
 * for at most so many sections, or so long and one section more (G11).  Never
 * when the lease is in doubt, the session's or, where holds expire one by one,
 * its own; never with a lease, value or minimum of its own.
 *
 * A key that is neither held nor waited for is freed at once: a million
 * different keys in turn cost nothing. */
#include <string.h>

#include "base/clock.h"
#include "core/internal.h"

static uint64_t hash_bytes(const char *text, size_t len)
{
    uint64_t h = UINT64_C(14695981039346656037);

    for (size_t i = 0; i < len; i++)
        h = (h ^ (uint8_t)text[i]) * UINT64_C(1099511628211);
    return h ^ h >> 32;
}

static int grow_keys(hf__session *s)
{
    size_t room = s->key_room ? s->key_room * 2 : 16;
    hf__key **grown = hfd_alloc(room * sizeof(hf__key *));

    if (!grown)
        return HF_ENOMEM;
    for (size_t i = 0; i < s->key_room; i++) {
        for (hf__key *key = s->keys[i], *next; key; key = next) {
            next = key->next;
            key->next = grown[key->hash & (room - 1)];
            grown[key->hash & (room - 1)] = key;
        }
    }
    hfd_free(s->keys);
    s->keys = grown;
    s->key_room = room;
    return 0;
}

hf__key *hf__key_get(hf__session *s, const char *text, size_t len)
{
    uint64_t hash = hash_bytes(text, len);
    hf__key *key = s->key_room ? s->keys[hash & (s->key_room - 1)] : NULL;

    while (key && (key->hash != hash || key->len != len ||
                   memcmp(key->text, text, len) != 0))
        key = key->next;
    if (!key) {
        if (s->key_count >= s->key_room && grow_keys(s) != 0)
            return NULL;
        key = hfd_alloc(sizeof *key + len + 1);
        if (!key)
            return NULL;
        memcpy(key->text, text, len);
        key->len = (uint16_t)len;
        key->hash = hash;
        hf__list_init(&key->line);
        hf__list_init(&key->entries);
        key->next = s->keys[hash & (s->key_room - 1)];
        s->keys[hash & (s->key_room - 1)] = key;
        s->key_count++;
    }
    key->refs++;
    return key;
}

void hf__key_put(hf__session *s, hf__key *key)
{
    hf__key **at;

    if (--key->refs > 0)
        return;
    at = &s->keys[key->hash & (s->key_room - 1)];
    while (*at != key)
        at = &(*at)->next;
    *at = key->next;
    s->key_count--;
    hfd_free(key);
}

hf__entry *hf__key_owned(hf__key *key, uint64_t owner)
{
    HF_LIST_EACH(node, &key->entries) {
        hf__entry *entry = HF_CONTAINER(node, hf__entry, of_key);

        if (entry->hold_count > 0 && entry->owner == owner &&
            entry->place.mode != HF_PERMIT)
            return entry;
    }
    return NULL;
}

static bool may_go(const hf__key *key, const hf__req *req, hf_nsec now)
{
    if (key->joining || req->retry_at > now)
        return false;
    return req->want.mode != HF_EXCLUSIVE || !key->exclusive ||
           key->exclusive == req->entry;
}

void hf__line_pump(hf__session *s, hf__key *key)
{
    hf__node *node = hf__list_first(&key->line);
    hf__req *req;

    if (!node || s->closing)
        return;
    req = HF_CONTAINER(node, hf__req, line);
    if (s->attach != HF_ATTACH_DONE) {
        hf__session_want(s, false);
        return;
    }
    if (!may_go(key, req, hfd_now()))
        return;
    key->joining = req;
    hf__list_remove(&req->line);
    key->line_count--;
    if (!req->entry) /* else it has asked before */
        hf__req_patience(req);
    req->state = HF_REQ_DUE;
    hf__req_advance(req);
}

void hf__line_pump_all(hf__session *s)
{
    for (size_t i = 0; i < s->key_room; i++) {
        for (hf__key *key = s->keys[i], *next; key; key = next) {
            key->refs++;
            hf__line_pump(s, key);
            next = key->next;
            hf__key_put(s, key);
        }
    }
}

static bool is_plain(const hf__want *want)
{
    return want->mode == HF_EXCLUSIVE && !want->lease && !want->at_least &&
           !want->value_len;
}

/* Does the run allow one more section here? */
static bool is_run_left(const hf__entry *entry, hf_nsec now)
{
    if (entry->spare == 0)
        return HF_MUTANT(RUN_NOT_RESERVED);
    return entry->place.run - entry->spare < HF_RUN_SURE ||
           now - entry->run_since < HF_RUN_TIME;
}

bool hf__line_hand_over(hf__entry *entry, hf_nsec now)
{
    hf__session *s = entry->s;
    hf__node *node = hf__list_first(&entry->key->line);
    hf__req *req;

    if (!node || s->closing || entry->place.mode != HF_EXCLUSIVE ||
        entry->place.lease || entry->at_least || entry->value_len)
        return false;
    req = HF_CONTAINER(node, hf__req, line);
    if (!is_plain(&req->want) || req->entry)
        return false;
    if (!is_run_left(entry, now))
        return false;
    if (!HF_MUTANT(HANDOVER_WHEN_LOST) &&
        (entry->told != HF_HELD || hf__lease_state(&s->lease, now) != HF_HELD))
        return false;
    hf__list_remove(&req->line);
    entry->key->line_count--;
    hf__entry_close_fd(entry); /* it was the last holder's */
    s->holds--;                /* counted again by the grant */
    if (!HF_MUTANT(SAME_TOKEN_HANDOVER))
        entry->token++;
    if (entry->spare)
        entry->spare--;
    entry->cap =
        req->want.at_most ? hf__add_ns(now, req->want.at_most) : HF_NEVER;
    s->stats.handovers++;
    hf__req_granted(req, entry, now);
    return true;
}

/* The owner who holds what this owner waits for; HF_OWNER_HOLD: nobody here,
 * or nobody in particular. */
static uint64_t awaited_owner(hf__session *s, uint64_t owner)
{
    HF_LIST_EACH(node, &s->reqs) {
        hf__req *req = HF_CONTAINER(node, hf__req, all);

        if (req->want.owner == owner && req->state < HF_REQ_DONE && req->key &&
            req->key->exclusive && req->key->exclusive->hold_count > 0)
            return req->key->exclusive->owner;
    }
    return HF_OWNER_HOLD;
}

bool hf__line_deadlock(hf__session *s, const hf__key *key, uint64_t owner)
{
    uint64_t holder = key->exclusive && key->exclusive->hold_count > 0
                          ? key->exclusive->owner
                          : HF_OWNER_HOLD;

    for (int steps = 0; steps < 64 && holder != HF_OWNER_HOLD; steps++) {
        if (holder == owner)
            return true;
        holder = awaited_owner(s, holder);
    }
    return false;
}
