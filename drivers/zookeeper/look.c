/* look.c - is it this entry's turn, and if not, whose end does it wait for?
 *
 * One list of the queue's children answers it.  A list that was read after the
 * entry's creation, in the same session, shows everything that came before it;
 * nothing with a lower number can appear later.  An old list can only show too
 * many ahead, never too few: it errs towards waiting.
 *
 *     list --.-- nobody ahead ----------------------> granted
 *       ^    '-- watch the nearest --.-- it is there -> waits
 *       |                            '-- it is gone --.
 *       '---------------------------------------------'
 *
 * The watch is set by the read that finds the node there, so that its end
 * cannot come in between.  An entry that wants to be alone watches its direct
 * predecessor; a reader the nearest writer ahead: no two of a queue of writers
 * watch the same node, and one leave wakes one.
 *
 * Whom we wait for was broken and does not leave: its node says for how long
 * it may stay, and we count that from when *we* saw the mark; nobody's clock is
 * compared.  Then it is deleted, in the version that carried the mark.
 *
 * Up to four places are looked at in one flight. */
#include <string.h>

#include "store.h"

enum { SYNC = 255 }; /* in `asked`: nobody's */

/* ---- What a list says --------------------------------------------------- */

static bool is_own(const zk_name *name, const hf_id *id)
{
    return name->maker == ZK_OURS && memcmp(&name->id, id, sizeof *id) == 0;
}

static void find_own(zk_look *look, const zk_reply *children, const hf_id *id)
{
    const char *text;
    size_t at = 0, len;
    zk_name name;

    while (!look->found && zk_next_name(children, &at, &text, &len)) {
        if (zk_name_parse(&name, text, len) && is_own(&name, id)) {
            look->found = true;
            look->seq = name.seq;
        }
    }
}

/* Of Curator's semaphore, whose permits are below it. */
static bool is_inside(const char *text, size_t len)
{
    return (len == 5 && memcmp(text, "locks", 5) == 0) ||
           (len == 6 && memcmp(text, "leases", 6) == 0);
}

/* Counts whoever comes before `seq`; NULL: whoever is there. */
static void count_ahead(zk_look *look, const zk_reply *children,
                        const hf_id *id, zk_kind kind, const int32_t *seq)
{
    bool shared = zk_kind_is_shared(kind);
    const char *text;
    size_t at = 0, len;
    int32_t nearest = 0;
    zk_name name;

    while (zk_next_name(children, &at, &text, &len)) {
        bool entry = zk_name_parse(&name, text, len);

        if (!entry)
            look->inside = look->inside || is_inside(text, len);
        if (!entry || name.kind == ZK_KIND_LEASE)
            continue;
        if (id && is_own(&name, id)) {
            look->found = true;
            continue;
        }
        look->blind = look->blind || !zk_name_sees(&name, kind);
        if ((seq && zk_seq_order(name.seq, *seq) > 0) ||
            (shared && zk_kind_is_shared(name.kind)))
            continue;
        if (look->ahead++ == 0 || zk_seq_order(name.seq, nearest) > 0) {
            nearest = name.seq;
            look->whom = text;
            look->whom_len = len;
        }
    }
}

void zk_look_read(zk_look *look, const zk_reply *children, const hf_id *id,
                  zk_kind kind, bool known, int32_t seq)
{
    *look = (zk_look){.seq = seq};
    if (!known)
        find_own(look, children, id);
    count_ahead(look, children, id, kind, &look->seq);
}

void zk_look_read_end(zk_look *look, const zk_reply *children, zk_kind kind)
{
    *look = (zk_look){.found = false};
    count_ahead(look, children, NULL, kind, NULL);
}

bool zk_look_find(zk_job *job, unsigned i, const zk_reply *reply,
                  bool *ret_found)
{
    zk_entry *entry = job->entry;
    zk_look look = {.found = false};

    if (i == 0) {
        job->error = reply->error; /* of the sync */
        return false;
    }
    if (reply->error && reply->error != ZK_NO_NODE)
        job->error = reply->error;
    if (job->error)
        return false;
    if (reply->error == 0)
        zk_look_read(&look, reply, &entry->id, entry->kind, false, 0);
    entry->path.len = entry->dir_len;
    if (look.found) {
        char *name = entry->path.data + entry->dir_len;

        *name++ = '/';
        entry->seq = look.seq;
        entry->path.len +=
            1 + zk_name_write_seq(name, &entry->rid, entry->kind, look.seq);
    }
    *ret_found = look.found;
    return true;
}

/* ---- Verdicts ----------------------------------------------------------- */

void zk_place_gone(hf_place *place, int reason)
{
    place->verdict = HF_GONE;
    place->reason = reason;
    place->token = 0;
}

void zk_settle(zk_member *member, hf_verdict verdict)
{
    hf_place *place = member->place;
    const zk_entry *entry = member->entry;

    place->verdict = verdict;
    place->reason = 0;
    place->num = (uint64_t)entry->czxid;
    place->token = verdict == HF_GRANTED ? place->num : 0;
    place->run = 1;
    place->remaining = 0;
    member->needs = ZK_SEE_DONE;
}

void zk_settle_gone(zk_job *job, zk_member *member)
{
    zk_entry *entry = member->entry;

    zk_store_lock(job->store);
    entry->gone = zk_entry_robbed(entry);
    zk_entry_disarm(job->store, entry);
    zk_place_gone(member->place, entry->gone ? HF_EFORCED : HF_ENOTHELD);
    zk_store_unlock(job->store);
    member->needs = ZK_SEE_DONE;
}

static bool is_overdue(const zk_entry *entry)
{
    return entry->broken_at &&
           hfd_now() >= entry->broken_at + entry->broken_for;
}

/* The path of whom it waits for, into member->whom. */
static bool note_whom(zk_member *member, const zk_look *look)
{
    size_t dir = member->entry->dir_len;
    zk_text *whom = &member->whom;

    if (!zk_text_reserve(whom, dir + 1 + look->whom_len + 1))
        return false;
    memcpy(whom->data, member->entry->path.data, dir);
    whom->data[dir] = '/';
    memcpy(whom->data + dir + 1, look->whom, look->whom_len);
    whom->len = dir + 1 + look->whom_len;
    whom->data[whom->len] = '\0';
    return true;
}

bool zk_look_judge(zk_job *job, zk_member *member, const zk_look *look)
{
    zk_entry *entry = member->entry;
    bool armed;

    zk_store_lock(job->store);
    entry->stirred = false; /* events before this answer are in it */
    zk_store_unlock(job->store);
    if (!look->found) {
        zk_settle_gone(job, member);
        return true;
    }
    member->place->look_in = 0;
    if (look->ahead == 0 && entry->mode == HF_PERMIT) {
        zk_store_lock(job->store);
        entry->stands = true;
        zk_store_unlock(job->store);
        member->needs = ZK_SEE_LEASES;
        return true;
    }
    if (look->ahead == 0) {
        zk_store_lock(job->store);
        zk_entry_disarm(job->store, entry);
        entry->granted = true;
        zk_store_unlock(job->store);
        zk_settle(member, HF_GRANTED);
        return true;
    }
    if (!note_whom(member, look))
        return false;
    member->sole = look->ahead == 1;
    zk_store_lock(job->store);
    entry->looked = hfd_now();
    armed = entry->armed && entry->watch.len == member->whom.len &&
            memcmp(entry->watch.data, member->whom.data, member->whom.len) == 0;
    if (armed)
        entry->sole = member->sole;
    else
        entry->broken_at = 0;
    zk_store_unlock(job->store);
    if (armed && is_overdue(entry))
        member->needs = ZK_SEE_REMOVE;
    else if (armed)
        zk_settle(member, HF_WAITS);
    else
        member->needs = ZK_SEE_WATCH;
    return true;
}

/* ---- Flights ------------------------------------------------------------ */

/* Whom it waits for is there, and watched from this answer on. */
static bool take_watch(zk_job *job, zk_member *member, const zk_reply *reply)
{
    zk_entry *entry = member->entry;
    zk_data data;
    bool armed;

    zk_data_read(&data, reply->data, reply->data_len);
    if (data.broken_ms < data.ttl_ms)
        data.broken_ms = data.ttl_ms; /* never less than its own session */
    zk_store_lock(job->store);
    armed = zk_entry_arm(job->store, entry, &member->whom, member->sole);
    entry->broken_at = 0;
    if (data.ours && data.broken) {
        entry->broken_at = hfd_now();
        entry->broken_for = HF_MS(data.broken_ms);
        entry->broken_version = reply->stat.version;
    }
    zk_store_unlock(job->store);
    if (data.broken)
        member->place->look_in = HF_MS(data.broken_ms) + 1;
    else if (member->sole && data.ours)
        member->place->look_in = HF_MS(data.ttl_ms);
    zk_settle(member, HF_WAITS);
    return armed;
}

static void look_take(zk_job *job, unsigned i, const zk_reply *reply)
{
    bool sync = job->asked[i] == SYNC;
    zk_member *member = &job->members[sync ? 0 : job->asked[i]];
    zk_look look;
    bool good = true;

    if (sync) {
        job->error = reply->error;
        return;
    }
    if (member->needs > ZK_SEE_REMOVE) {
        if (!zk_permit_take(job, member, reply))
            job->code = HF_ENOMEM;
        return;
    }
    if (reply->error && reply->error != ZK_NO_NODE &&
        reply->error != ZK_BAD_VERSION) {
        job->error = reply->error;
    } else if (member->needs == ZK_SEE_LIST && reply->error) {
        zk_settle_gone(job, member); /* the whole queue is not there */
    } else if (member->needs == ZK_SEE_LIST) {
        zk_look_read(&look, reply, &member->entry->id, member->entry->kind,
                     true, member->entry->seq);
        good = zk_look_judge(job, member, &look);
    } else if (member->needs == ZK_SEE_WATCH && reply->error == 0) {
        good = take_watch(job, member, reply);
    } else {
        member->needs = ZK_SEE_LIST; /* it is gone, or it was us */
        job->synced = true;
    }
    if (!good)
        job->code = HF_ENOMEM;
}

static void look_done(zk_job *job)
{
    if (job->code == HF_ENOMEM)
        zk_job_no_memory(job);
    else if (job->error && job->op->kind == HF_OP_JOIN)
        zk_job_unsettled(job, job->error); /* its node is there */
    else if (job->error)
        zk_job_refused(job, job->error, "queue");
    else
        zk_look_go(job);
}

static void ask_member(zk_job *job, unsigned i, unsigned k)
{
    zk_member *member = &job->members[k];
    zk_entry *entry = member->entry;

    job->asked[i] = (uint8_t)k;
    if (member->needs == ZK_SEE_LIST) {
        zk_job_ask(job, i, ZK_GET_CHILDREN, entry->path.data, entry->dir_len);
    } else if (member->needs == ZK_SEE_WATCH) {
        zk_job_ask(job, i, ZK_GET_DATA, member->whom.data, member->whom.len)
            ->watch = true;
    } else if (member->needs > ZK_SEE_REMOVE) {
        zk_permit_ask(job, i, member);
    } else {
        zk_store_lock(job->store);
        zk_entry_disarm(job->store, entry);
        zk_job_ask(job, i, ZK_DELETE, member->whom.data, member->whom.len)
            ->version = entry->broken_version;
        entry->broken_at = 0;
        zk_store_unlock(job->store);
    }
}

/* The member we are connected to may be behind.  Who looks because of an event
 * of its own is not behind that event; everybody else has it catch up first,
 * once an operation, in the same flight. */
static bool needs_sync(zk_job *job)
{
    bool needs = false;

    if (job->synced || job->member_count == ZK_MOST_REQUESTS)
        return false;
    zk_store_lock(job->store);
    for (unsigned k = 0; k < job->member_count; k++) {
        zk_member *member = &job->members[k];

        if ((member->needs == ZK_SEE_LIST && !member->entry->stirred) ||
            member->needs == ZK_SEE_OWN)
            needs = true;
    }
    zk_store_unlock(job->store);
    return needs;
}

void zk_look_go(zk_job *job)
{
    unsigned n = 0;

    if (needs_sync(job)) {
        job->synced = true;
        job->asked[n] = SYNC;
        zk_job_ask(job, n++, ZK_SYNC, "/", 1);
    }
    for (unsigned k = 0; k < job->member_count; k++) {
        if (job->members[k].needs != ZK_SEE_DONE)
            ask_member(job, n++, k);
    }
    if (n == 0) {
        job->looked(job);
        return;
    }
    job->error = 0;
    job->take = look_take;
    job->done = look_done;
    zk_job_send(job, n);
}

/* ---- Recheck ------------------------------------------------------------ */

static void recheck_some(zk_job *job);

zk_seeing zk_look_begin(const zk_entry *entry)
{
    if (entry->taking || entry->holds)
        return ZK_SEE_OWN;
    return entry->stands && entry->stirred ? ZK_SEE_LEASES : ZK_SEE_LIST;
}

static void recheck_redo(zk_job *job)
{
    job->synced = job->member_count == ZK_MOST_REQUESTS;
    zk_store_lock(job->store);
    for (unsigned i = 0; i < job->member_count; i++)
        job->members[i].needs = zk_look_begin(job->members[i].entry);
    zk_store_unlock(job->store);
    zk_look_go(job);
}

/* Nothing has been heard of it and its watch stands: the server need not be
 * asked, only pinged, so that an event that lies there comes out.  With mu
 * held. */
static bool is_quiet(zk_entry *entry, const hf_place *place)
{
    hf_nsec since = hfd_now() - entry->looked;
    bool quiet = entry->quiet;

    entry->quiet = false;
    if ((place->own[1] & HF_PLACE_PUSH) && since > HF_MS(4000))
        quiet = true;
    return quiet && entry->armed && !entry->broken_at && since < HF_MS(60000);
}

/* A place that needs no question, or a member of the next flight. */
static void add_place(zk_job *job, hf_place *place)
{
    hf_store *store = job->store;
    zk_member *member = &job->members[job->member_count];
    bool quiet = false;
    zk_entry *entry;

    zk_note_bell(store, place);
    zk_store_lock(store);
    entry = zk_entry_find(store, &place->rid);
    if (!entry || entry->tomb || !entry->created) {
        zk_place_gone(place, HF_ENOTHELD);
    } else if (entry->gone) {
        zk_place_gone(place, HF_EFORCED);
    } else {
        zk_entry_ref(entry);
        member->entry = entry;
        member->place = place;
        member->needs = zk_look_begin(entry);
        job->member_count++;
        quiet = is_quiet(entry, place);
        if (quiet)
            zk_settle(member, HF_WAITS);
    }
    zk_store_unlock(store);
    if (quiet)
        zk_wire_nudge(store->wire);
}

static void recheck_looked(zk_job *job)
{
    hf_store *store = job->store;

    zk_store_lock(store);
    for (unsigned i = 0; i < job->member_count; i++) {
        zk_entry_unref(store, job->members[i].entry);
        job->members[i].entry = NULL;
    }
    job->member_count = 0;
    zk_store_unlock(store);
    recheck_some(job);
}

static void recheck_some(zk_job *job)
{
    hf_op *op = job->op;

    /* The first flight has one request more. */
    size_t room = job->synced ? ZK_MOST_REQUESTS : ZK_MOST_REQUESTS - 1;

    while (job->at < op->place_count && job->member_count < room)
        add_place(job, op->places[job->at++]);
    if (job->member_count == 0)
        zk_job_ok(job);
    else
        zk_look_go(job);
}

void zk_recheck(hf_store *store, hf_op *op)
{
    zk_job *job = zk_job_new(store, op);

    if (!job)
        return;
    zk_store_lock(store);
    job->expired = !zk_session_is(store, &op->sid);
    job->call.session = store->session;
    zk_store_unlock(store);
    job->looked = recheck_looked;
    job->redo = recheck_redo;
    if (job->expired)
        zk_job_expired(job);
    else
        recheck_some(job);
}
