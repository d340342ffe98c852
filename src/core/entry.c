/* entry.c - our places in the store's queues, and what is told about them.
 *
 * An entry is in the lists of its key and its session from its first join
 * until the store has nothing of it any more *and* the caller has given back
 * every handle; so a lost hold that was not yet released still answers its
 * owner.  It is freed with its last reference (lists, handles, flights,
 * requests).
 *
 * A loss is marked first and told afterwards (safety: a caller that is told
 * must not find it held), and telling needs no memory: the callback's job, the
 * result and the timer are parts of objects made with the hold.  The loss
 * descriptor is a timer of the kernel, armed for the deadline, so that a stuck
 * thread of ours cannot hide a loss. */
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "core/internal.h"

static size_t rid_slot(const hf__session *s, const hf_id *rid)
{
    uint64_t number;

    memcpy(&number, rid->bytes + 8, sizeof number);
    return number & (s->rid_room - 1); /* numbers are drawn one after another */
}

static int add_rid(hf__session *s, hf__entry *entry)
{
    size_t slot;

    if (s->rid_count == s->rid_room) {
        size_t room = s->rid_room ? s->rid_room * 2 : 16;
        size_t old_room = s->rid_room;
        hf__entry **old = s->rids;
        hf__entry **grown = hfd_alloc(room * sizeof(hf__entry *));

        if (!grown)
            return HF_ENOMEM;
        s->rids = grown;
        s->rid_room = room;
        for (size_t i = 0; i < old_room; i++) {
            for (hf__entry *e = old[i], *next; e; e = next) {
                next = e->rid_next;
                slot = rid_slot(s, &e->place.rid);
                e->rid_next = grown[slot];
                grown[slot] = e;
            }
        }
        hfd_free(old);
    }
    slot = rid_slot(s, &entry->place.rid);
    entry->rid_next = s->rids[slot];
    s->rids[slot] = entry;
    entry->in_rids = true;
    s->rid_count++;
    return 0;
}

static void remove_rid(hf__session *s, hf__entry *entry)
{
    hf__entry **at;

    if (!entry->in_rids)
        return;
    at = &s->rids[rid_slot(s, &entry->place.rid)];
    while (*at != entry)
        at = &(*at)->rid_next;
    *at = entry->rid_next;
    entry->in_rids = false;
    s->rid_count--;
}

hf__entry *hf__entry_find(hf__session *s, const hf_id *rid)
{
    hf__entry *e = s->rid_room ? s->rids[rid_slot(s, rid)] : NULL;

    while (e && memcmp(&e->place.rid, rid, sizeof *rid) != 0)
        e = e->rid_next;
    return e;
}

/* Unique for ever: 64 random bits of this session and a number, so that no
 * lock costs a system call; mixed, so that any eight bytes are a good hash. */
static void draw_rid(hf__session *s, hf_id *rid)
{
    uint64_t number = ++s->next_rid;
    uint64_t mixed = number * UINT64_C(0x9e3779b97f4a7c15);

    mixed = (mixed ^ mixed >> 32) * UINT64_C(0xd6e8feb86659fd93);
    mixed = (mixed ^ mixed >> 32) + s->rid_prefix;
    memcpy(rid->bytes, &mixed, 8);
    memcpy(rid->bytes + 8, &number, 8);
}

/* How many numbers to reserve, so that those who wait here can follow without
 * a round trip: all that are allowed, since who has had his turn comes back
 * while the others have theirs. */
static uint32_t wanted_run(const hf__session *s, const hf__key *key,
                           const hf__want *want)
{
    if (!(s->caps & HF_CAP_RUN) || want->mode != HF_EXCLUSIVE || want->lease ||
        want->at_least || want->value_len)
        return 1;
    return key->line_count > 0 ? HF_RUN_MAX : 1;
}

/* An entry in all lists and tables, with room for its timer; NULL: no memory,
 * and the value is freed. */
static hf__entry *make_entry(hf__session *s, hf__key *key,
                             const hf_place *place, void *value)
{
    hf__entry *entry = hfd_alloc(sizeof *entry);

    if (entry) {
        entry->place = *place;
        entry->place.key = key->text;
        entry->place.key_len = key->len;
    }
    if (!entry || hf__heap_reserve(&s->timers, s->timer_users + 1) != 0 ||
        add_rid(s, entry) != 0) {
        hfd_free(value);
        hfd_free(entry);
        return NULL;
    }
    s->timer_users++;
    entry->value = value;
    entry->s = s;
    entry->fd = -1;
    entry->gen = s->gen;
    entry->own_deadline = entry->cap = entry->look_at = HF_NEVER;
    entry->timer.fire = hf__leave_timer;
    hf__list_init(&entry->holds);
    key->refs++;
    entry->key = key;
    entry->refs = 1; /* the lists' */
    entry->listed = true;
    hf__list_append(&key->entries, &entry->of_key);
    hf__list_append(&s->entries, &entry->of_session);
    return entry;
}

hf__entry *hf__entry_new(hf__session *s, hf__key *key, hf__req *req)
{
    const hf__want *want = &req->want;
    hf_place place = {
        .mode = (uint8_t)want->mode,
        .places = want->places,
        .lease = want->lease,
        .run = wanted_run(s, key, want),
    };
    void *value = NULL;
    hf__entry *entry;

    if (want->value_len) {
        value = hf__alloc_text(want->value, want->value_len);
        if (!value)
            return NULL;
    }
    draw_rid(s, &place.rid);
    entry = make_entry(s, key, &place, value);
    if (entry) {
        entry->value_len = want->value_len;
        entry->at_least = want->at_least;
    }
    return entry;
}

hf__entry *hf__entry_adopt(hf__session *s, hf__key *key, const hf_place *place)
{
    hf__entry *entry = make_entry(s, key, place, NULL);

    if (entry) {
        entry->state = HF_ENTRY_WAITING;
        entry->stray = true; /* who knows what else of it is on its way */
    }
    return entry;
}

void hf__entry_close_fd(hf__entry *entry)
{
    if (entry->fd >= 0)
        close(entry->fd);
    entry->fd = -1;
}

void hf__entry_ref(hf__entry *entry)
{
    entry->refs++;
}

void hf__entry_unref(hf__entry *entry)
{
    hf__session *s = entry->s;

    if (--entry->refs > 0)
        return;
    hf__heap_remove(&s->timers, &entry->timer);
    s->timer_users--;
    remove_rid(s, entry);
    hf__entry_close_fd(entry);
    hf__key_put(s, entry->key);
    hfd_free(entry->value);
    hfd_free(entry);
}

void hf__entry_settle(hf__entry *entry)
{
    if (entry->listed && entry->state == HF_ENTRY_GONE &&
        entry->hold_count == 0) {
        entry->listed = false;
        hf__list_remove(&entry->of_key);
        hf__list_remove(&entry->of_session);
        hf__entry_unref(entry);
    }
}

void hf__entry_gone(hf__entry *entry)
{
    entry->state = HF_ENTRY_GONE;
    hf__heap_remove(&entry->s->timers, &entry->timer);
    remove_rid(entry->s, entry);
    if (entry->key->exclusive == entry)
        entry->key->exclusive = NULL;
    hf__entry_settle(entry);
}

static bool is_fixed(const hf__entry *entry)
{
    return entry->place.lease > 0;
}

bool hf__entry_each(const hf__entry *entry)
{
    return (entry->s->caps & HF_CAP_EACH) && !is_fixed(entry);
}

void hf__entry_extend(hf__entry *entry, hf_nsec sent, hf_nsec remaining)
{
    if (sent < entry->sure_at)
        return; /* a later question was answered before */
    /* A store whose clock was set back says more than was asked for. */
    if (is_fixed(entry) && remaining > entry->place.lease)
        remaining = entry->place.lease;
    entry->own_deadline = sent + remaining - hf__lease_guard(remaining);
    entry->sure_at = sent;
}

hf_nsec hf__entry_end(const hf__entry *entry)
{
    hf_nsec end = entry->cap;

    if (HF_MUTANT(EACH_BY_SESSION) && hf__entry_each(entry))
        return end;
    if (entry->own_deadline != HF_NEVER) {
        hf_nsec margin = entry->s->lease.stop_margin;

        if (is_fixed(entry) && entry->place.lease / 10 < margin)
            margin = entry->place.lease / 10;
        if (entry->own_deadline - margin < end)
            end = entry->own_deadline - margin;
    }
    return end;
}

hf_nsec hf__entry_lost_at(const hf__entry *entry)
{
    hf_nsec end = hf__entry_end(entry);
    hf_nsec session_end;

    if (entry->told == HF_LOST)
        return 0;
    if (is_fixed(entry))
        return end;
    if (entry->gen != entry->s->gen)
        return 0;
    session_end = hf__lease_lost_at(&entry->s->lease);
    return session_end < end ? session_end : end;
}

static void arm_fd(hf__entry *entry)
{
    hf_nsec at = hf__entry_lost_at(entry);
    struct itimerspec spec = {0};

    if (entry->fd < 0)
        return;
    if (at < 1)
        at = 1; /* 0 would disarm it; 1 ns after boot is long past */
    if (at != HF_NEVER) {
        spec.it_value.tv_sec = at / 1000000000;
        spec.it_value.tv_nsec = at % 1000000000;
    }
    timerfd_settime(entry->fd, TFD_TIMER_ABSTIME, &spec, NULL);
}

void hf__entry_arm(hf__entry *entry)
{
    hf_nsec end = hf__entry_end(entry);

    if (entry->state == HF_ENTRY_GRANTED && entry->told != HF_LOST) {
        if (end != HF_NEVER) {
            hf__heap_set(&entry->s->timers, &entry->timer, end);
            hf__session_wake_keeper(entry->s, end);
        } else {
            hf__heap_remove(&entry->s->timers, &entry->timer);
        }
    }
    arm_fd(entry);
}

void hf__entry_granted(hf__entry *entry, hf__hold *hold, uint64_t owner,
                       hf_nsec now)
{
    if (entry->hold_count == 0) {
        entry->state = HF_ENTRY_GRANTED;
        entry->told = hf__lease_state(&entry->s->lease, now);
        if (is_fixed(entry) || entry->told != HF_DOUBTFUL)
            entry->told = HF_HELD;
        entry->owner = owner;
        entry->granted_at = now;
        entry->req = NULL;
        entry->s->holds++;
    }
    hold->entry = entry;
    hf__entry_ref(entry);
    hf__list_append(&entry->holds, &hold->node);
    entry->hold_count++;
    hf__entry_arm(entry);
}

static void run_callback(hf__job *job)
{
    hf__hold *hold = HF_CONTAINER(job, hf__hold, job);
    hf__session *s = hold->entry->s;
    hf_state state;
    int reason;

    hf__session_lock(s);
    hold->telling = false;
    state = hold->state;
    reason = hold->reason;
    hf__session_unlock(s);
    hold->on_change(HF_HANDLE(hf_hold, hold->id), state, reason, hold->user);
    hf__session_lock(s);
    hf__hold_unref(hold);
    hf__session_unlock(s);
}

static void tell_hold(hf__hold *hold, hf_state state, int reason)
{
    hf__session *s = hold->entry->s;

    hold->state = state;
    hold->reason = reason;
    if (hold->on_change && !hold->telling) {
        hold->telling = true;
        atomic_fetch_add(&hold->refs, 1);
        hold->job.run = run_callback;
        hf__crew_give(&s->teller, &hold->job);
    }
    if (hold->collected)
        hf__result_post(s, &hold->result);
}

void hf__entry_tell(hf__entry *entry, hf_state state, int reason)
{
    if (entry->told == state || entry->told == HF_LOST)
        return;
    entry->told = state;
    entry->reason = reason;
    arm_fd(entry);
    HF_LIST_EACH(node, &entry->holds)
        tell_hold(HF_CONTAINER(node, hf__hold, node), state, reason);
}

void hf__entry_lost(hf__entry *entry, int reason)
{
    hf__key *key = entry->key;

    if (entry->state != HF_ENTRY_GRANTED || entry->told == HF_LOST)
        return;
    hf__entry_tell(entry, HF_LOST, reason);
    hf__heap_remove(&entry->s->timers, &entry->timer);
    hfd_log(HF_LOG_WARN, "lost '%.*s' (token %llu): %s", (int)key->len,
            key->text, (unsigned long long)entry->token, hf_strerror(reason));
    if (key->exclusive == entry)
        key->exclusive = NULL; /* the next of this process need not wait */
}

void hf__entry_linger(hf__entry *entry, hf_nsec time)
{
    hf_nsec at = hfd_now() + time;

    if (entry->state != HF_ENTRY_GRANTED)
        return;
    hf__heap_set(&entry->s->timers, &entry->timer, at);
    hf__session_wake_keeper(entry->s, at);
}

/* Of its own deadline: only what was asked since a jump of the clock counts. */
static bool is_unsure(const hf__entry *entry)
{
    return entry->s->lease.jump_at > entry->sure_at &&
           !HF_MUTANT(FIXED_IGNORES_JUMP);
}

int hf__entry_check(hf__entry *entry, hf_nsec now)
{
    hf__session *s = entry->s;

    if (entry->told == HF_LOST)
        return entry->reason;
    if (now >= hf__entry_end(entry)) {
        hf__leave_timer(&entry->timer, now);
        return HF_EEXPIRED;
    }
    hf__lease_look_at_clocks(&s->lease);
    if (is_fixed(entry))
        return is_unsure(entry) ? HF_EUNKNOWN : 0;
    hf__session_judge(s, now);
    if (entry->told == HF_LOST)
        return entry->reason;
    if (s->lease.clock_doubt || (hf__entry_each(entry) && is_unsure(entry))) {
        /* A renewal that was under way at the grant did not ask for it. */
        if (s->lease.state == HF_HELD)
            s->lease.next_renew = now;
        hf__session_wake_keeper(s, 0);
        return HF_EUNKNOWN;
    }
    return 0;
}
