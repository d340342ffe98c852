/* permit.c - a permit, as Curator's semaphore (InterProcessSemaphoreV2) has it.
 *
 *     <key>/locks    who wait, a queue like any other: _c_<rid>-lock-N
 *     <key>/leases   who hold: _c_<rid>-lease-N
 *
 * Who is first in `locks` may look at `leases`; if there are fewer than
 * `places` it makes its own.  Only the first one does that, so the number can
 * only fall while it looks, and what it saw free stays free for it.  How many
 * places there are is agreed between the users of a key: Curator does not write
 * it down; ours do, and compare (survey.c).
 *
 * The step is one transaction: the lease is created and the place in `locks`
 * given up, both or neither.  So an entry has exactly one node at any time, and
 * whoever was taken out of `locks` (by a leave of ours on another thread, by an
 * operator) cannot get a lease any more: no ghosts, and never two at the front.
 * Curator keeps its place in `locks` and its lease until it counts few enough;
 * meanwhile it is ahead of us in `locks`, and we wait.
 *
 * Reply lost: the step was sent (`taking`), so a member that has caught up is
 * asked for our lease; if it is not there, we still stand in `locks`.
 *
 * A holder was broken and does not leave: who broke it has written to `leases`
 * itself, so that its version is above 0, and has it tell its watchers.  Then
 * the first of those who wait reads the leases, so many in one look at most,
 * and deletes the one that has been marked for as long as it may stay.
 *
 * One watch: who is first watches the children of `leases`, everybody else the
 * one before him, so an end of a hold wakes one. */
#include <string.h>

#include "store.h"

enum { READS_MAX = 128 }; /* of leases, in one look */

/* ---- The step to a lease ------------------------------------------------ */

bool zk_permit_prepare(zk_job *job, zk_member *member)
{
    zk_entry *entry = member->entry;
    size_t dir = entry->lease_dir;
    zk_text *path = &member->whom;
    bool good;

    if (!zk_text_reserve(path, dir + 2 + ZK_NAME_ROOM))
        return false;
    memcpy(path->data, entry->lease.data, dir);
    path->data[dir] = '/';
    path->len = dir + 1 +
                zk_name_write(path->data + dir + 1, &entry->rid, ZK_KIND_LEASE);
    zk_store_lock(job->store);
    good = zk_data_write(&member->data, job->store, entry, entry->value.data,
                         entry->value.len);
    zk_store_unlock(job->store);
    member->needs = ZK_SEE_TAKE;
    return good;
}

static void ask_step(zk_job *job, unsigned i, zk_member *member)
{
    zk_entry *entry = member->entry;
    zk_request *request = zk_job_ask(job, i, ZK_MULTI, "", 0);

    zk_store_lock(job->store);
    entry->taking = true; /* until it is answered */
    zk_store_unlock(job->store);
    member->parts[0] = (zk_request){.op = ZK_CREATE,
                                    .path = member->whom.data,
                                    .path_len = member->whom.len,
                                    .data = member->data.data,
                                    .data_len = member->data.len,
                                    .flags = ZK_EPHEMERAL | ZK_SEQUENCE,
                                    .closed_acl = job->store->closed_acl};
    member->parts[1] = (zk_request){.op = ZK_DELETE,
                                    .path = entry->path.data,
                                    .path_len = entry->path.len,
                                    .version = -1};
    request->parts = member->parts;
    request->part_count = 2;
}

void zk_permit_ask(zk_job *job, unsigned i, zk_member *member)
{
    const zk_entry *entry = member->entry;

    if (member->needs == ZK_SEE_TAKE)
        ask_step(job, i, member);
    else if (member->needs == ZK_SEE_HOME)
        zk_parents_ask(job, i, entry->lease.data, entry->lease_dir);
    else if (member->needs == ZK_SEE_MARK)
        zk_job_ask(job, i, ZK_GET_DATA, member->whom.data, member->whom.len);
    else
        zk_job_ask(job, i, ZK_GET_CHILDREN, entry->lease.data, entry->lease_dir)
            ->watch = member->needs == ZK_SEE_LEASES;
}

/* ---- What answers it ---------------------------------------------------- */

/* Its node is this child of `leases` from now on.  With mu held. */
static void note_lease(zk_entry *entry, const char *name, size_t len)
{
    entry->taking = false;
    if (entry->holds)
        return;
    entry->lease.data[entry->lease_dir] = '/';
    memcpy(entry->lease.data + entry->lease_dir + 1, name, len);
    entry->lease.len = entry->lease_dir + 1 + len;
    entry->lease.data[entry->lease.len] = '\0';
    entry->version = 0;
    entry->holds = true;
    zk_text_done(&entry->value);
}

static bool is_own(const zk_entry *entry, const char *text, size_t len)
{
    zk_name name;

    return len < ZK_NAME_ROOM && zk_name_parse(&name, text, len) &&
           name.kind == ZK_KIND_LEASE && name.maker == ZK_OURS &&
           memcmp(&name.id, &entry->id, sizeof name.id) == 0;
}

bool zk_permit_adopt(zk_job *job, zk_entry *entry, const zk_reply *leases)
{
    const char *text;
    size_t at = 0, len;
    bool found = false;

    while (!found && leases->error == 0 &&
           zk_next_name(leases, &at, &text, &len))
        found = is_own(entry, text, len);
    zk_store_lock(job->store);
    if (found)
        note_lease(entry, text, len);
    zk_store_unlock(job->store);
    return found;
}

static void grant(zk_job *job, zk_member *member)
{
    zk_store_lock(job->store);
    zk_entry_disarm(job->store, member->entry);
    member->entry->granted = true;
    zk_store_unlock(job->store);
    zk_settle(member, HF_GRANTED);
}

static void take_step(zk_job *job, zk_member *member, const zk_reply *reply)
{
    zk_entry *entry = member->entry;
    size_t dir = entry->lease_dir;
    bool good = reply->error == 0 && reply->path_len > dir + 1 &&
                is_own(entry, reply->path + dir + 1, reply->path_len - dir - 1);

    zk_store_lock(job->store);
    if (good)
        note_lease(entry, reply->path + dir + 1, reply->path_len - dir - 1);
    else if (reply->error == ZK_NO_NODE)
        entry->taking = entry->stands = false;
    zk_store_unlock(job->store);
    if (good) {
        grant(job, member);
    } else if (reply->error == ZK_NO_NODE && ++job->tries <= 8) {
        /* The node for leases is not there, or our own is not any more. */
        member->needs = ZK_SEE_HOME;
    } else {
        job->error = reply->error ? reply->error : -1;
    }
}

static void take_home(zk_job *job, zk_member *member, const zk_reply *reply)
{
    if (reply->error == ZK_UNIMPLEMENTED && !job->store->plain_parents)
        job->store->plain_parents = true; /* once more, as a plain node */
    else if (reply->error == 0 || reply->error == ZK_NODE_EXISTS ||
             reply->error == ZK_NO_NODE)
        member->needs = member->entry->stands ? ZK_SEE_LEASES : ZK_SEE_LIST;
    else
        job->error = reply->error;
}

size_t zk_permit_count(const zk_reply *leases)
{
    const char *text;
    size_t at = 0, len, count = 0;
    zk_name name;

    while (leases->error == 0 && zk_next_name(leases, &at, &text, &len))
        count += zk_name_parse(&name, text, len) && name.kind == ZK_KIND_LEASE;
    return count;
}

/* ---- Who was broken ----------------------------------------------------- */

/* The lease of ours with this number, or with the next one above it: its path
 * into member->whom.  False: there is none, or no memory. */
static bool find_lease(zk_member *member, const zk_reply *leases, int32_t seq,
                       bool next)
{
    const zk_entry *entry = member->entry;
    size_t dir = entry->lease_dir, at = 0, len;
    zk_text *path = &member->whom;
    const char *text;
    bool found = false;
    zk_name name;

    while (zk_next_name(leases, &at, &text, &len)) {
        if (!zk_name_parse(&name, text, len) || name.kind != ZK_KIND_LEASE ||
            name.maker != ZK_OURS ||
            (next ? zk_seq_order(name.seq, seq) <= 0 : name.seq != seq) ||
            (found && zk_seq_order(name.seq, member->seq) > 0))
            continue;
        if (!zk_text_reserve(path, dir + 2 + len))
            return false;
        memcpy(path->data, entry->lease.data, dir);
        path->data[dir] = '/';
        memcpy(path->data + dir + 1, text, len);
        path->len = dir + 1 + len;
        path->data[path->len] = '\0';
        member->seq = name.seq;
        found = true;
    }
    return found;
}

/* Somebody was broken here at some time: is there a lease to be read, or to be
 * deleted? */
static bool seek_broken(zk_job *job, zk_member *member, const zk_reply *leases)
{
    zk_entry *entry = member->entry;
    bool found;

    if (leases->stat.version == 0)
        return false;
    if (entry->broken_at) {
        found = find_lease(member, leases, entry->marked, false);
        if (found && hfd_now() < entry->broken_at + entry->broken_for)
            return false;
        if (found) {
            member->needs = ZK_SEE_REMOVE;
            return true;
        }
        zk_store_lock(job->store);
        entry->broken_at = 0;
        zk_store_unlock(job->store);
    }
    found = job->reads < READS_MAX &&
            find_lease(member, leases, entry->marked, true);
    if (found) {
        job->reads++;
        member->needs = ZK_SEE_MARK;
    } else if (job->reads < READS_MAX) {
        zk_store_lock(job->store);
        entry->marked = -1; /* all were read: the next look begins anew */
        zk_store_unlock(job->store);
    }
    return found;
}

static void take_mark(zk_job *job, zk_member *member, const zk_reply *reply)
{
    zk_entry *entry = member->entry;
    zk_data data;

    zk_data_read(&data, reply->data, reply->error ? 0 : reply->data_len);
    zk_store_lock(job->store);
    entry->marked = member->seq;
    if (data.ours && data.broken) {
        entry->broken_at = hfd_now();
        entry->broken_for =
            HF_MS(data.broken_ms > data.ttl_ms ? data.broken_ms : data.ttl_ms);
        entry->broken_version = reply->stat.version;
    }
    zk_store_unlock(job->store);
    member->needs = ZK_SEE_LEASES;
}

/* ---- Is one free -------------------------------------------------------- */

/* First of those who wait: is one free?  If not, the list has set a watch. */
static bool take_leases(zk_job *job, zk_member *member, const zk_reply *reply)
{
    zk_entry *entry = member->entry;
    const zk_text folder = {.data = entry->lease.data, .len = entry->lease_dir};
    bool good;

    if (reply->error == ZK_NO_NODE) {
        member->needs = ZK_SEE_HOME;
        return true;
    }
    if (zk_permit_count(reply) < entry->places)
        return zk_permit_prepare(job, member);
    if (seek_broken(job, member, reply))
        return true;
    zk_store_lock(job->store);
    entry->stirred = false;
    entry->looked = hfd_now();
    good = zk_entry_arm(job->store, entry, &folder, false);
    zk_store_unlock(job->store);
    member->place->look_in =
        entry->broken_at ? entry->broken_at + entry->broken_for - hfd_now() + 1
                         : 0;
    zk_settle(member, HF_WAITS);
    return good;
}

bool zk_permit_take(zk_job *job, zk_member *member, const zk_reply *reply)
{
    zk_entry *entry = member->entry;

    if (member->needs == ZK_SEE_TAKE) {
        take_step(job, member, reply);
    } else if (member->needs == ZK_SEE_HOME) {
        take_home(job, member, reply);
    } else if (member->needs == ZK_SEE_MARK) {
        take_mark(job, member, reply);
    } else if (reply->error && reply->error != ZK_NO_NODE) {
        job->error = reply->error;
    } else if (member->needs == ZK_SEE_LEASES) {
        return take_leases(job, member, reply);
    } else if (zk_permit_adopt(job, entry, reply)) {
        grant(job, member);
    } else if (entry->holds) {
        zk_settle_gone(job, member);
    } else {
        zk_store_lock(job->store);
        entry->taking = false;
        zk_store_unlock(job->store);
        member->needs = ZK_SEE_LIST;
    }
    return true;
}
