/* probe.c - ask a live ensemble what doctor wants to know.
 *
 * Each member of the URL is asked by itself, with the words srvr and conf over
 * a connection of its own; then the session is asked for the ACL of the root
 * and, some times, for a sync, whose time is what a lock costs.  It only reads:
 * a sick ensemble must not be made worse by asking.
 *
 * A word that is not in a member's whitelist is a fact like any other and what
 * hangs on it stays unknown; a member that does not answer is one, too.  Only
 * an ensemble without any answer fails the operation.
 *
 * Words are asked on the thread that drives the operation, since that may take
 * time; an operation that nobody drives goes without them.  Reply lost: nothing
 * was changed. */
#include "probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store.h"

enum { SYNCS = 8, TEXT_ROOM = 16384 };

/* ---- What a member says ------------------------------------------------- */

/* The text behind `name` at the beginning of a line; false: there is none. */
static bool find_line(const char *text, const char *name, char *ret,
                      size_t room)
{
    size_t n = strlen(name);

    while (text && *text) {
        const char *end = strchr(text, '\n');
        size_t len = end ? (size_t)(end - text) : strlen(text);

        if (len >= n && memcmp(text, name, n) == 0) {
            len -= n;
            if (len >= room)
                len = room - 1;
            memcpy(ret, text + n, len);
            ret[len] = '\0';
            return true;
        }
        text = end ? end + 1 : NULL;
    }
    return false;
}

static int64_t find_number(const char *text, const char *name)
{
    char found[32], *end;
    long long n;

    if (!find_line(text, name, found, sizeof found) || !found[0])
        return -1;
    n = strtoll(found, &end, 10);
    return *end && *end != '\r' ? -1 : n;
}

void zk_probed_srvr(zk_probed *member, const char *text)
{
    char version[48];
    size_t n;

    find_line(text, "Mode: ", member->mode, sizeof member->mode);
    if (find_line(text, "Zookeeper version: ", version, sizeof version))
        n = strcspn(version, "-, ");
    else if (find_line(text, "ClickHouse Keeper version: ", version,
                       sizeof version))
        n = 0;
    else
        return;
    if (n == 0)
        snprintf(member->version, sizeof member->version, "ClickHouse Keeper");
    else
        snprintf(member->version, sizeof member->version, "%.*s", (int)n,
                 version);
}

void zk_probed_conf(zk_probed *member, const char *text)
{
    member->tick_ms = find_number(text, "tickTime=");
    member->min_ms = find_number(text, "minSessionTimeout=");
    member->max_ms = find_number(text, "maxSessionTimeout=");
    member->voters = member->observers = 0;
    for (const char *at = text; at && *at;) {
        const char *end = strchr(at, '\n');
        size_t len = end ? (size_t)(end - at) : strlen(at);

        if (len > 7 && memcmp(at, "server.", 7) == 0) {
            if (memmem(at, len, ":observer", 9))
                member->observers++;
            else
                member->voters++;
        }
        at = end ? end + 1 : NULL;
    }
    if (member->voters == 0)
        member->voters = -1;
}

static void ask_member(zk_job *job, zk_facts *facts, size_t i, char *text)
{
    zk_wire *wire = job->store->wire;
    zk_probed *member = &facts->members[i];
    hf_nsec until = hfd_now() + HF_MS(2000);
    hf_error err = {.code = 0};
    int code;

    snprintf(member->name, sizeof member->name, "%s", job->store->members[i]);
    member->tick_ms = member->min_ms = member->max_ms = -1;
    member->voters = member->observers = -1;
    if (until > job->op->deadline)
        until = job->op->deadline;
    code = zk_wire_word(wire, i, "srvr", text, TEXT_ROOM, until, &err);
    member->reached = code == 0 || code == HF_ENOTSUP;
    if (code)
        snprintf(member->why, sizeof member->why, "%.150s", err.text);
    else
        zk_probed_srvr(member, text);
    if (member->reached &&
        zk_wire_word(wire, i, "conf", text, TEXT_ROOM, until, &err) == 0)
        zk_probed_conf(member, text);
}

/* ---- What the session says ---------------------------------------------- */

static void probe_end(zk_job *job)
{
    hfd_free(job->more);
    job->more = NULL;
}

static void judge(zk_job *job)
{
    hf_store *store = job->store;
    zk_facts *facts = job->more;
    zk_standing standing;

    zk_wire_standing(store->wire, &standing);
    facts->timeout_ms = standing.timeout_ms;
    facts->read_only = standing.read_only;
    snprintf(facts->connected_to, sizeof facts->connected_to, "%s",
             standing.member);
    zk_judge(facts, job->op->emit_finding, job->op->user);
    zk_job_ok(job);
}

static void sync_take(zk_job *job, unsigned i, const zk_reply *reply)
{
    (void)i;
    job->error = reply->error;
}

static void sync_send(zk_job *job);

static void sync_done(zk_job *job)
{
    zk_facts *facts = job->more;
    hf_nsec trip = hfd_now() - job->call.sent;

    if (job->error) {
        zk_job_refused(job, job->error, "/");
        return;
    }
    if (facts->samples == 0 || trip < facts->trip_best)
        facts->trip_best = trip;
    if (trip > facts->trip_worst)
        facts->trip_worst = trip;
    facts->samples++;
    sync_send(job);
}

static void sync_send(zk_job *job)
{
    zk_facts *facts = job->more;

    if (facts->samples == SYNCS) {
        judge(job);
        return;
    }
    job->take = sync_take;
    job->done = sync_done;
    zk_job_ask(job, 0, ZK_SYNC, "/", 1);
    zk_job_send(job, 1);
}

static void acl_take(zk_job *job, unsigned i, const zk_reply *reply)
{
    zk_facts *facts = job->more;

    (void)i;
    facts->root_exists = reply->error != ZK_NO_NODE;
    facts->acl_known = reply->error == 0;
    facts->world = reply->world;
}

static void probe_send(zk_job *job)
{
    hf_store *store = job->store;
    const char *root = store->root_len ? store->root : ZK_PATH_HOME;

    job->take = acl_take;
    job->done = sync_send;
    zk_job_ask(job, 0, ZK_GET_ACL, root, strlen(root));
    zk_job_send(job, 1);
}

void zk_probe(hf_store *store, hf_op *op)
{
    zk_job *job = zk_job_new(store, op);
    zk_facts *facts = job ? hfd_alloc(sizeof *facts + TEXT_ROOM) : NULL;

    if (!job)
        return;
    if (!facts) {
        zk_job_no_memory(job);
        return;
    }
    job->more = facts;
    job->end = probe_end;
    job->redo = probe_send;
    facts->lease = op->ttl;
    facts->tick = store->tick;
    facts->write_beats = store->write_beats;
    facts->exposed = store->exposed;
    facts->closed_acl = store->closed_acl;
    facts->plain_parents = store->plain_parents;
    snprintf(facts->root, sizeof facts->root, "%.79s",
             store->root_len ? store->root : ZK_PATH_HOME);
    zk_store_lock(store);
    facts->attached = zk_session_is(store, &op->sid);
    zk_store_unlock(store);
    while (op->driven && facts->member_count < store->member_count)
        ask_member(job, facts, facts->member_count++, (char *)(facts + 1));
    probe_send(job);
}
