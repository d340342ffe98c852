/* turns.c - one thread of a client: it takes locks in every way there is, and
 * writes down what it was told.
 *
 * A turn is a request (waiting for ever, for a while, not at all, until it is
 * cancelled; alone or shared), a section in which the hold is checked and the
 * fenced resource written to, sometimes taken again by the same thread, and a
 * release.  Instants are read so that what is written down is never more than
 * what was promised: a belief begins after the grant was told, and ends with
 * what hf_hold_remaining_ms had said before the last check that said "held".
 *
 * Nothing is judged here: every answer is only recorded. */
#include "client.h"

#include <stdio.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

typedef struct turn {
    camp_worker *w;
    uint32_t task;
    uint8_t key, mode, flags;
    hf_hold *hold;
    uint64_t token;
} turn;

/* What the callback is given: it may come after the turn is over. */
static void *pack_turn(const turn *t)
{
    return (void *)((uintptr_t)t->task << 8 | t->key);
}

static camp_client *the_client; /* one per process: the callback needs it */

static void on_change(hf_hold *hold, hf_state state, int reason, void *user)
{
    (void)hold;
    camp_write(the_client, (camp_record){
                               .kind = CAMP_CHANGE,
                               .task = (uint32_t)((uintptr_t)user >> 8),
                               .key = (uint8_t)(uintptr_t)user,
                               .number = (uint64_t)state,
                               .code = reason,
                           });
}

static camp_record record_of(const turn *t, camp_kind kind)
{
    return (camp_record){.kind = (uint8_t)kind,
                         .task = t->task,
                         .key = t->key,
                         .mode = t->mode,
                         .flags = t->flags};
}

static void sleep_us(uint32_t us)
{
    struct timespec t = {us / 1000000, us % 1000000 * 1000L};

    nanosleep(&t, NULL);
}

/* ---- What a holder does ------------------------------------------------- */

static bool check(turn *t)
{
    camp_record r = record_of(t, CAMP_CHECK);
    int64_t remaining;

    r.called = camp_now();
    remaining = hf_hold_remaining_ms(t->hold);
    r.code = hf_hold_check(t->hold, NULL);
    if (r.code == 0)
        r.until = r.called + remaining * 1000000;
    r.token = t->token;
    camp_write(t->w->c, r);
    return r.code == 0;
}

/* The fenced resource: it refuses a token that is smaller than the largest
 * exclusive one, atomically. */
static void act(turn *t)
{
    _Atomic uint64_t *largest = &t->w->c->arena->largest[t->key];
    camp_record r = record_of(t, CAMP_ACT);
    uint64_t seen = atomic_load(largest);

    if (t->token == 0)
        return;
    r.called = camp_now();
    while (seen < t->token && t->mode == HF_EXCLUSIVE &&
           !atomic_compare_exchange_weak(largest, &seen, t->token))
        continue;
    r.code = seen > t->token;
    r.number = seen;
    r.token = t->token;
    camp_write(t->w->c, r);
}

static void renew(turn *t)
{
    camp_record r = record_of(t, CAMP_RENEW);

    r.called = camp_now();
    r.code = hf_renew(t->hold, NULL);
    camp_write(t->w->c, r);
}

/* ---- A request ---------------------------------------------------------- */

static int cancel_after(uint32_t ms)
{
    struct itimerspec when = {.it_value = {ms / 1000, ms % 1000 * 1000000L}};
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);

    if (fd >= 0)
        timerfd_settime(fd, 0, &when, NULL);
    return fd;
}

/* Names that must not be taken for each other, by whatever a store makes of
 * them, and the longest there may be. */
static void name_key(const turn *t, char *ret, size_t size)
{
    static const char *const odd[] = {"a", "A", "a ", "a/", "a/b", "{a}", "%"};
    const camp_client *c = t->w->c;
    unsigned n = t->key - CAMP_ODD;

    if (c->planted)
        snprintf(ret, size, "camp/%d/of %u", t->key, c->life);
    else if (t->key < CAMP_ODD)
        snprintf(ret, size, "camp/%d", t->key);
    else if (n < sizeof odd / sizeof *odd)
        snprintf(ret, size, "%s", odd[n]);
    else
        for (size_t i = 0; i < size; i++)
            ret[i] = i < HF_KEY_MAX ? (char)(1 + i % 255) : '\0';
}

static bool take(turn *t, int64_t wait_ms, int cancel_fd, uint32_t above)
{
    camp_client *c = t->w->c;
    hf_lock_options opt = {HF_LOCK_OPTIONS, .wait_ms = wait_ms,
                           .mode = (hf_mode)t->mode, .cancel_fd = cancel_fd,
                           .on_change = on_change};
    camp_record r = record_of(t, CAMP_ASK), answer;
    char name[HF_KEY_MAX + 1];
    hf_error err = {.code = 0};

    name_key(t, name, sizeof name);
    t->task = r.task = atomic_fetch_add(&c->tasks, 1) + 1;
    opt.user = pack_turn(t);
    r.at = r.called = camp_now();
    r.until = wait_ms == HF_FOREVER ? INT64_MAX : r.at + wait_ms * 1000000;
    r.number = above;
    camp_write(c, r);
    atomic_fetch_add(&c->arena->waiting[c->life], 1);
    r.code = hf_lock(c->s, name, &opt, &t->hold, &err);
    atomic_fetch_sub(&c->arena->waiting[c->life], 1);
    answer = record_of(t, r.code == 0 ? CAMP_GRANT : CAMP_REFUSED);
    answer.called = r.called;
    answer.code = r.code;
    answer.number = above;
    if (r.code == 0)
        answer.token = t->token = hf_hold_token(t->hold);
    camp_write(c, answer);
    if (r.code != 0 && hf_error_class(r.code) >= HF_CLASS_CALLER)
        fprintf(stderr, "%s: %s\n", hf_error_name(r.code), err.text);
    return r.code == 0;
}

static void give(turn *t)
{
    camp_record r = record_of(t, CAMP_RELEASE);

    r.called = r.at = camp_now();
    camp_write(t->w->c, r);
    r.kind = CAMP_RELEASED;
    r.at = 0;
    r.code = hf_release(t->hold, NULL);
    camp_write(t->w->c, r);
}

/* The same thread once more, inside its own section. */
static void take_again(turn *outer)
{
    turn t = *outer;

    t.flags = CAMP_AGAIN;
    if (!take(&t, 1000, 0, outer->task))
        return;
    check(&t);
    act(&t);
    give(&t);
}

/* ---- A turn ------------------------------------------------------------- */

static void stay_inside(turn *t)
{
    camp_worker *w = t->w;
    camp_client *c = w->c;
    _Atomic uint32_t *hurry = &c->arena->hurry;
    /* Most sections are short; one in many outlives the lease, and lives by
     * its renewals. */
    bool stays = camp_draw(w, 150) == 0;
    int64_t end = camp_now() + 1000000 * (stays ? c->lease_ms + c->lease_ms / 2
                                                : (int64_t)camp_draw(w, 12));
    bool good = check(t);

    act(t);
    if (good && camp_draw(w, 8) == 0)
        take_again(t);
    if (good && camp_draw(w, 20) == 0)
        renew(t);
    while (good && camp_now() < end &&
           !(stays && (atomic_load(&c->stop) || atomic_load(hurry)))) {
        sleep_us(stays ? 20000 + camp_draw(w, 60000) : 2000);
        /* Sometimes it writes without a look: the resource must know. */
        if (camp_draw(w, 2))
            act(t);
        good = check(t);
    }
    act(t);
    /* Whoever gives it back at once cannot say that nobody told it. */
    if (!good && !atomic_load(&c->stop) && camp_draw(w, 3) == 0)
        sleep_us(2500000);
}

static void take_turn(camp_worker *w)
{
    camp_client *c = w->c;
    turn t = {.w = w, .key = (uint8_t)camp_draw(w, (uint32_t)c->keys)};
    int64_t wait_ms = HF_FOREVER;
    uint32_t dice = camp_draw(w, 100);
    int cancel_fd = 0;

    if (atomic_load(&c->arena->odd))
        t.key = (uint8_t)(CAMP_ODD + camp_draw(w, CAMP_KEYS - CAMP_ODD));
    if ((c->caps & HF_CAP_SHARED) && camp_draw(w, 4) == 0)
        t.mode = HF_SHARED;
    if (dice < 25) {
        wait_ms = 0;
        t.flags = CAMP_TRY;
    } else if (dice < 55) {
        wait_ms = 1 + camp_draw(w, 1500);
    } else if (dice < 65) {
        cancel_fd = cancel_after(1 + camp_draw(w, 300));
        if (cancel_fd > 0) /* else it has no descriptor left */
            t.flags = CAMP_CANCELS;
    }
    if (take(&t, wait_ms, cancel_fd, 0)) {
        atomic_fetch_add(&c->arena->inside[c->life], 1);
        atomic_store(&c->shown[w->place], t.hold);
        stay_inside(&t);
        atomic_store(&c->shown[w->place], NULL);
        atomic_fetch_sub(&c->arena->inside[c->life], 1);
        give(&t);
    } else {
        sleep_us(20000); /* whoever was refused does not storm */
    }
    if (cancel_fd > 0)
        close(cancel_fd);
    sleep_us(1000 + camp_draw(w, 30000));
}

void *camp_work(void *worker)
{
    camp_worker *w = worker;

    the_client = w->c;
    camp_name_thread();
    while (!atomic_load(&w->c->stop))
        take_turn(w);
    return NULL;
}
