/* push.c - what the driver tells without being asked.
 *
 * A push is a hint, never a proof: it is believed only for an entry that waits
 * in this very session, and the grant is taken only while the session's lease
 * is good by our own clock.  A push that overtakes the answer of its join is
 * remembered until that has landed.  One that is lost costs a timed look. */
#include <string.h>

#include "core/internal.h"

void hf__look_now(hf__req *req)
{
    if (!req->entry)
        return;
    if (req->entry->state == HF_ENTRY_JOINING)
        req->entry->pushed = true;
    else if (req->parked)
        req->s->driver->unpark(req->s->store, &req->entry->place);
    else if (req->entry->state == HF_ENTRY_WAITING)
        hf__look_at(req->entry, 0);
}

/* It overtook the answer of its join, which says where we stood before: kept
 * until that has landed, and no look is needed then. */
static void note_early(hf__entry *entry, const hf_place *fresh)
{
    entry->pushed = true;
    if (fresh && fresh->verdict == HF_GRANTED &&
        !(entry->s->caps & HF_CAP_EACH)) {
        entry->early_token = fresh->token;
        entry->early_run = fresh->run;
    }
}

/* By its id alone: what waits for the same key now has another place. */
static hf__entry *find_pushed(hf__session *s, const hf_id *rid,
                              const hf_place *fresh)
{
    hf__entry *entry = hf__entry_find(s, rid);

    if (HF_MUTANT(PUSH_BY_KEY) && fresh &&
        (!entry || entry->state == HF_ENTRY_LEAVING)) {
        HF_LIST_EACH(node, &s->entries) {
            hf__entry *other = HF_CONTAINER(node, hf__entry, of_session);

            if (other->state == HF_ENTRY_WAITING &&
                other->key->len == fresh->key_len &&
                memcmp(other->key->text, fresh->key, fresh->key_len) == 0)
                entry = other;
        }
    }
    return entry;
}

static void host_changed(void *ctx, const hf_id *rid, const hf_place *fresh)
{
    hf__session *s = ctx;

    hf__session_lock(s);
    if (rid && !HF_MUTANT(WAKE_DROPPED)) {
        hf__entry *entry = find_pushed(s, rid, fresh);

        if (entry && entry->state == HF_ENTRY_JOINING)
            note_early(entry, fresh);
        else if (entry && fresh && fresh->verdict == HF_GRANTED &&
                 !hf__entry_each(entry))
            hf__req_verdict(entry, fresh, 0);
        else if (entry && entry->req && entry->req->parked)
            s->driver->unpark(s->store, &entry->place);
        else if (entry && entry->state == HF_ENTRY_WAITING)
            hf__look_at(entry, 0);
    } else if (!rid) {
        /* The driver does not say whose queue changed. */
        HF_LIST_EACH(node, &s->reqs)
            hf__look_now(HF_CONTAINER(node, hf__req, all));
    }
    hf__session_unlock(s);
}

static void host_news(void *ctx, const hf_id *rid, int reason)
{
    hf__session *s = ctx;
    hf__entry *entry;

    hf__session_lock(s);
    entry = hf__entry_find(s, rid);
    if (entry && entry->state == HF_ENTRY_GRANTED) {
        hf__key *key = entry->key;

        key->refs++;
        hf__entry_lost(entry, reason);
        hf__entry_linger(entry, s->lease.stop_margin);
        hf__line_pump(s, key);
        hf__key_put(s, key);
    } else if (entry && entry->req && entry->req->state == HF_REQ_WAITING) {
        /* Now, not after a look: a push from before the break may still be on
         * its way, and must find nobody who believes it. */
        hf_place fresh = {.verdict = HF_GONE, .reason = reason};

        hf__req_verdict(entry, &fresh, 0);
    } else if (entry) {
        entry->pushed = true;
        entry->early_token = 0;
    }
    hf__session_unlock(s);
}

static void host_doubt(void *ctx, int reason, const char *text)
{
    hf__session *s = ctx;

    hf__session_lock(s);
    hfd_log(HF_LOG_WARN, "the store is in doubt: %s", text);
    if (reason == HF_EUNAVAIL)
        hf__audit_want(s, hfd_now(), reason);
    else
        hf__lease_doubt(&s->lease, hfd_now(), reason);
    hf__session_judge(s, hfd_now());
    hf__session_wake_keeper(s, s->lease.next_renew);
    hf__session_unlock(s);
}

void hf__session_host(hf__session *s, hf_host *host)
{
    *host = (hf_host){
        .ctx = s,
        .changed = host_changed,
        .news = host_news,
        .doubt = host_doubt,
    };
}
