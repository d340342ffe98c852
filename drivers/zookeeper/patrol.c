/* patrol.c - does the store still have what we hold?
 *
 * An operator may take a lock away: the node is deleted, or marked so that its
 * owner leaves.  The owner hears of it because it watches its own node.  A
 * watch costs a request, so it is not set when a lock is taken (most are given
 * back at once) but with the next renewal: two in its own flight, the others
 * in flights of their own, in the background.  So a break is known at the
 * latest when the first renewal after it is answered, a third of a lease later,
 * and at once by whoever has held for longer than that.
 *
 * A node of a session that lives is gone, and we did not delete it: somebody
 * else did.  A deletion of ours that is under way is set down (`leaving`)
 * before it is sent, so it is never taken for a break.  The connection breaks:
 * watches are gone, and all are due again. */
#include <string.h>

#include "store.h"

/* With mu held. */
static bool is_due(const zk_entry *entry)
{
    return entry->granted && entry->created && !entry->own_watch &&
           !entry->leaving && !entry->gone && !entry->told;
}

unsigned zk_patrol_fill(zk_job *job, unsigned i)
{
    hf_store *store = job->store;

    zk_store_lock(store);
    for (size_t k = 0; k < ZK_BUCKETS && i < ZK_MOST_REQUESTS; k++) {
        for (zk_entry *entry = store->entries[k]; entry && i < ZK_MOST_REQUESTS;
             entry = entry->next) {
            zk_member *member = &job->members[job->member_count];
            const zk_text *node;

            if (!is_due(entry))
                continue;
            entry->own_watch = true;
            zk_entry_ref(entry);
            member->entry = entry;
            member->needs = ZK_SEE_WATCH;
            job->asked[i] = (uint8_t)job->member_count++;
            node = zk_entry_node(entry);
            zk_job_ask(job, i, ZK_GET_DATA, node->data, node->len)->watch =
                true;
            i++;
        }
    }
    zk_store_unlock(store);
    return i;
}

void zk_patrol_take(zk_job *job, unsigned i, const zk_reply *reply)
{
    hf_store *store = job->store;
    zk_member *member = &job->members[job->asked[i]];
    zk_entry *entry = member->entry;
    bool news = false;
    zk_data data;

    zk_data_read(&data, reply->data, reply->error ? 0 : reply->data_len);
    zk_store_lock(store);
    if (reply->error == ZK_NO_NODE) {
        entry->gone = zk_entry_robbed(entry);
        news = entry->gone && !entry->told && !entry->out;
        entry->told = entry->told || entry->gone;
    } else if (reply->error == 0 && data.ours && data.broken) {
        news = !entry->leaving && !entry->told && !entry->out;
        entry->told = true;
    } else if (reply->error) {
        entry->own_watch = false;
    }
    member->needs = ZK_SEE_DONE;
    zk_store_unlock(store);
    if (news) {
        zk_ring(store, &entry->rid);
        store->host.news(store->host.ctx, &entry->rid, HF_EFORCED);
    }
}

void zk_patrol_undone(zk_job *job)
{
    hf_store *store = job->store;

    zk_store_lock(store);
    for (unsigned i = 0; i < job->member_count; i++) {
        zk_entry *entry = job->members[i].entry;

        if (job->members[i].needs != ZK_SEE_DONE)
            entry->own_watch = false;
        zk_entry_unref(store, entry);
        job->members[i].entry = NULL;
    }
    job->member_count = 0;
    zk_store_unlock(store);
}

/* ---- In the background -------------------------------------------------- */

static void patrol_end(zk_job *job)
{
    zk_patrol_undone(job);
    zk_store_lock(job->store);
    job->store->patrolling = false;
    zk_store_unlock(job->store);
}

static void patrol_some(zk_job *job)
{
    unsigned n;

    zk_patrol_undone(job);
    n = zk_patrol_fill(job, 0);
    if (n)
        zk_job_send(job, n);
    else
        zk_job_ok(job);
}

void zk_patrol_go(hf_store *store)
{
    bool due = false;
    int64_t session;
    zk_job *job;

    zk_store_lock(store);
    for (size_t k = 0; k < ZK_BUCKETS && !store->patrolling && !due; k++) {
        for (zk_entry *entry = store->entries[k]; entry && !due;
             entry = entry->next)
            due = is_due(entry);
    }
    store->patrolling = store->patrolling || due;
    session = store->session;
    zk_store_unlock(store);
    if (!due)
        return;
    job = zk_job_new(store, NULL);
    if (!job) {
        zk_store_lock(store);
        store->patrolling = false; /* the next renewal tries again */
        zk_store_unlock(store);
        return;
    }
    job->take = zk_patrol_take;
    job->done = patrol_some;
    job->end = patrol_end;
    job->call.session = session;
    job->call.deadline = hfd_now() + HF_MS(5000);
    patrol_some(job);
}
