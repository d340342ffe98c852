/* shim.c - what every shim does alike.
 *
 * Everything goes through to the inner driver.  The one thing made up here is
 * park, where the inner driver tells through dispatch alone: a push or an
 * unpark for a place leaves a mark if nobody sleeps on it yet, and a park that
 * finds the mark returns at once.  A join or a recheck removes the mark before
 * it asks, so a change after the answer is never slept through. */
#include "shim.h"

#include <string.h>
#include <time.h>

static shim *shim_of(hf_store *store)
{
    return (shim *)(void *)store;
}

static bool same_rid(const hf_id *a, const hf_id *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

int shim_open(shim *self, const hf_url *url, const hf_host *host,
              const hf_host *told, uint32_t *ret_caps, hf_error *err)
{
    pthread_condattr_t attr;
    int code;

    self->host = *host;
    code = hfd_open_inner(&self->inner, &self->store, url, told, ret_caps, err);
    if (code != 0)
        return code;
    pthread_mutex_init(&self->mutex, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&self->wake, &attr);
    pthread_condattr_destroy(&attr);
    return 0;
}

/* Called with the mutex held; rid NULL: all of them. */
static void drop_marks(shim *self, const hf_id *rid)
{
    shim_mark **at = &self->marks;

    while (*at) {
        shim_mark *mark = *at;

        if (!rid || same_rid(&mark->rid, rid)) {
            *at = mark->next;
            hfd_free(mark);
        } else {
            at = &mark->next;
        }
    }
}

void shim_close(shim *self)
{
    self->inner->close(self->store);
    drop_marks(self, NULL);
    pthread_cond_destroy(&self->wake);
    pthread_mutex_destroy(&self->mutex);
}

/* ---- Waking ------------------------------------------------------------- */

void shim_note_op(shim *self, const hf_op *op)
{
    if (self->inner->park)
        return;
    pthread_mutex_lock(&self->mutex);
    switch (op->kind) {
    case HF_OP_JOIN:
    case HF_OP_LEAVE:
        drop_marks(self, &op->place->rid);
        break;
    case HF_OP_RECHECK:
        for (size_t i = 0; i < op->place_count && self->marks; i++)
            drop_marks(self, &op->places[i]->rid);
        break;
    case HF_OP_DETACH:
        drop_marks(self, NULL);
        break;
    default:
        break;
    }
    pthread_mutex_unlock(&self->mutex);
}

/* Called with the mutex held. */
static void add_mark(shim *self, const hf_id *rid)
{
    shim_mark *mark = self->marks;

    while (mark && !same_rid(&mark->rid, rid))
        mark = mark->next;
    if (mark)
        return;
    mark = hfd_alloc(sizeof *mark);
    if (!mark) {
        self->missed = true;
        return;
    }
    mark->rid = *rid;
    mark->next = self->marks;
    self->marks = mark;
}

/* rid NULL: whoever sleeps. */
static void wake_sleeper(shim *self, const hf_id *rid)
{
    bool found = false;

    if (self->inner->park)
        return;
    pthread_mutex_lock(&self->mutex);
    for (shim_sleeper *s = self->sleepers; s; s = s->next) {
        if (!rid || same_rid(&s->rid, rid))
            found = s->woken = true;
    }
    if (found)
        pthread_cond_broadcast(&self->wake);
    else if (rid)
        add_mark(self, rid);
    if (!rid)
        self->missed = true;
    pthread_mutex_unlock(&self->mutex);
}

/* Was the place woken since its last join or recheck?  Mutex held. */
static bool take_mark(shim *self, const hf_id *rid)
{
    bool taken = self->missed;

    self->missed = false;
    for (shim_mark *mark = self->marks; mark && !taken; mark = mark->next)
        taken = same_rid(&mark->rid, rid);
    drop_marks(self, rid);
    return taken;
}

/* At most a quarter of a second, so that a sleep of the machine, which
 * CLOCK_MONOTONIC does not count, cannot make it late. */
static struct timespec next_look(hf_nsec until)
{
    hf_nsec left = until - hfd_now();
    struct timespec at;

    if (left > HF_MS(250))
        left = HF_MS(250);
    clock_gettime(CLOCK_MONOTONIC, &at);
    left += at.tv_nsec;
    at.tv_sec += (time_t)(left / HF_MS(1000));
    at.tv_nsec = (long)(left % HF_MS(1000));
    return at;
}

static void sleep_here(shim *self, const hf_id *rid, hf_nsec until)
{
    shim_sleeper me = {.rid = *rid};
    shim_sleeper **at = &self->sleepers;

    pthread_mutex_lock(&self->mutex);
    if (!take_mark(self, rid)) {
        me.next = self->sleepers;
        self->sleepers = &me;
        while (!me.woken && hfd_now() < until) {
            struct timespec look = next_look(until);

            pthread_cond_timedwait(&self->wake, &self->mutex, &look);
        }
        while (*at != &me)
            at = &(*at)->next;
        *at = me.next;
    }
    pthread_mutex_unlock(&self->mutex);
}

void shim_tell_changed(shim *self, const hf_id *rid, const hf_place *fresh)
{
    self->host.changed(self->host.ctx, rid, fresh);
    wake_sleeper(self, rid);
}

void shim_tell_news(shim *self, const hf_id *rid, int reason)
{
    self->host.news(self->host.ctx, rid, reason);
}

void shim_tell_doubt(shim *self, int reason, const char *text)
{
    self->host.doubt(self->host.ctx, reason, text);
}

/* ---- The table ---------------------------------------------------------- */

void shim_abandon(hf_store *store)
{
    shim *self = shim_of(store);

    self->inner->abandon(self->store);
}

void shim_drive(hf_store *store, hf_op *op)
{
    shim *self = shim_of(store);

    if (self->inner->drive)
        self->inner->drive(self->store, op);
}

int shim_fd(hf_store *store)
{
    shim *self = shim_of(store);

    return self->inner->fd ? self->inner->fd(self->store) : -1;
}

void shim_dispatch(hf_store *store)
{
    shim *self = shim_of(store);

    if (self->inner->dispatch)
        self->inner->dispatch(self->store);
}

void shim_park(hf_store *store, const hf_place *place, hf_nsec until)
{
    shim *self = shim_of(store);

    if (self->inner->park)
        self->inner->park(self->store, place, until);
    else
        sleep_here(self, &place->rid, until);
}

void shim_unpark(hf_store *store, const hf_place *place)
{
    shim *self = shim_of(store);

    if (self->inner->unpark)
        self->inner->unpark(self->store, place);
    else
        wake_sleeper(self, &place->rid);
}

int shim_life_fd(hf_store *store)
{
    shim *self = shim_of(store);

    return self->inner->life_fd ? self->inner->life_fd(self->store) : -1;
}

const char *shim_op_name(hf_op_kind kind)
{
    static const char *const names[] = {
        [HF_OP_ATTACH] = "attach",   [HF_OP_RENEW] = "renew",
        [HF_OP_DETACH] = "detach",   [HF_OP_JOIN] = "join",
        [HF_OP_CONFIRM] = "confirm", [HF_OP_LEAVE] = "leave",
        [HF_OP_RECHECK] = "recheck", [HF_OP_LIST] = "list",
        [HF_OP_PUBLISH] = "publish", [HF_OP_EVICT] = "evict",
        [HF_OP_PROBE] = "probe"};
    size_t i = (size_t)kind;

    return i < sizeof names / sizeof *names && names[i] ? names[i] : "other";
}
