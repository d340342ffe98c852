/* turns.c - one thread of a client: it takes locks in every way there is (some
 * of them in ways.c), and writes down what it was told.
 *
 * A turn is a request (waiting for ever, for a while, not at all, until it is
 * cancelled; alone, shared or one of the places of a key), a section in which
 * the hold is checked and the fenced resource written to, sometimes taken again
 * by the same thread, and a release.  Instants are read so that what is written
 * down is never more than what was promised: a belief begins after the grant
 * was told, and ends with what hf_hold_remaining_ms had said before the last
 * check that said "held".
 *
 * Nothing is judged here: every answer is only recorded. */
#include "client.h"

#include <stdio.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* What the callback is given: it may come after the turn is over. */
void *camp_pack(const camp_turn *t)
{
    return (void *)((uintptr_t)t->task << 8 | t->key);
}

static camp_client *the_client; /* one per process: the callback needs it */

void camp_note_change(hf_state state, int reason, void *user)
{
    camp_write(the_client, (camp_record){
                               .kind = CAMP_CHANGE,
                               .task = (uint32_t)((uintptr_t)user >> 8),
                               .key = (uint8_t)(uintptr_t)user,
                               .number = (uint64_t)state,
                               .code = reason,
                           });
}

static void on_change(hf_hold *hold, hf_state state, int reason, void *user)
{
    (void)hold;
    camp_note_change(state, reason, user);
}

camp_record camp_line(const camp_turn *t, camp_kind kind)
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

bool camp_check(camp_turn *t)
{
    camp_record r = camp_line(t, CAMP_CHECK);
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
static void act(camp_turn *t)
{
    _Atomic uint64_t *largest = &t->w->c->arena->largest[t->key];
    camp_record r = camp_line(t, CAMP_ACT);
    uint64_t seen = atomic_load(largest);

    if (t->token == 0 || t->mode == HF_PERMIT)
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

static void renew(camp_turn *t)
{
    camp_record r = camp_line(t, CAMP_RENEW);

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
void camp_name_key(const camp_turn *t, char *ret, size_t size)
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

void camp_ask(camp_turn *t, const hf_lock_options *opt, uint32_t above,
              camp_record *ret)
{
    camp_client *c = t->w->c;

    t->task = atomic_fetch_add(&c->tasks, 1) + 1;
    *ret = camp_line(t, CAMP_ASK);
    ret->at = ret->called = camp_now();
    ret->until = opt->wait_ms == HF_FOREVER ? INT64_MAX
                                            : ret->at + opt->wait_ms * 1000000;
    ret->number = above;
    ret->token = (uint64_t)t->length_ms * 1000000;
    camp_write(c, *ret);
    atomic_fetch_add(&c->arena->waiting[c->life], 1);
}

void camp_answer(camp_turn *t, const camp_record *asked, const hf_error *err)
{
    camp_client *c = t->w->c;
    camp_record r = camp_line(t, err->code == 0 ? CAMP_GRANT : CAMP_REFUSED);

    atomic_fetch_sub(&c->arena->waiting[c->life], 1);
    r.called = asked->called;
    r.code = err->code;
    r.number = asked->number;
    if (err->code == 0)
        r.token = t->token = hf_hold_token(t->hold);
    camp_write(c, r);
    if (err->code != 0 && hf_error_class(err->code) >= HF_CLASS_CALLER)
        fprintf(stderr, "%s: %s\n", hf_error_name(err->code), err->text);
}

bool camp_take(camp_turn *t, hf_lock_options *opt, uint32_t above)
{
    char name[HF_KEY_MAX + 1];
    hf_error err = {.code = 0};
    camp_record asked;

    camp_name_key(t, name, sizeof name);
    camp_ask(t, opt, above, &asked);
    opt->mode = (hf_mode)t->mode;
    opt->places = t->mode == HF_PERMIT ? CAMP_PLACES : 0;
    opt->on_change = on_change;
    opt->user = camp_pack(t);
    err.code = hf_lock(t->w->c->s, name, opt, &t->hold, &err);
    camp_answer(t, &asked, &err);
    return err.code == 0;
}

static void give(camp_turn *t)
{
    camp_record r = camp_line(t, CAMP_RELEASE);

    r.called = r.at = camp_now();
    camp_write(t->w->c, r);
    r.kind = CAMP_RELEASED;
    r.at = 0;
    r.code = hf_release(t->hold, NULL);
    camp_write(t->w->c, r);
}

/* The same thread once more, inside its own section. */
static void take_again(camp_turn *outer)
{
    camp_turn t = *outer;
    hf_lock_options opt = {HF_LOCK_OPTIONS, .wait_ms = 1000};

    t.flags = CAMP_AGAIN;
    if (!camp_take(&t, &opt, outer->task))
        return;
    camp_check(&t);
    act(&t);
    give(&t);
}

/* ---- A turn ------------------------------------------------------------- */

static void stay_inside(camp_turn *t)
{
    camp_worker *w = t->w;
    camp_client *c = w->c;
    _Atomic uint32_t *hurry = &c->arena->hurry;
    /* Most sections are short; one in many outlives the lease, and lives by
     * its renewals, or is lost if it ends by itself. */
    bool stays = camp_draw(w, t->length_ms ? 15 : 150) == 0;
    int64_t end = camp_now() + 1000000 * (stays ? c->lease_ms + c->lease_ms / 2
                                                : (int64_t)camp_draw(w, 12));
    bool good = camp_check(t);

    act(t);
    if (good && camp_draw(w, 8) == 0 && t->mode != HF_PERMIT && !t->length_ms)
        take_again(t);
    if (good && camp_draw(w, 20) == 0)
        renew(t);
    while (good && camp_now() < end &&
           !(stays && (atomic_load(&c->stop) || atomic_load(hurry)))) {
        sleep_us(stays ? 20000 + camp_draw(w, 60000) : 2000);
        /* Sometimes it writes without a look: the resource must know. */
        if (camp_draw(w, 2))
            act(t);
        good = camp_check(t);
    }
    act(t);
    /* Whoever gives it back at once cannot say that nobody told it. */
    if (!good && !atomic_load(&c->stop) && camp_draw(w, 3) == 0)
        sleep_us(2500000);
}

/* For ever, for a while, not at all, until it is cancelled. */
static void choose_wait(camp_turn *t, hf_lock_options *opt)
{
    uint32_t dice = camp_draw(t->w, 100);

    opt->wait_ms = HF_FOREVER;
    if (dice < 25) {
        opt->wait_ms = 0;
        t->flags = CAMP_TRY;
    } else if (dice < 55) {
        opt->wait_ms = 1 + camp_draw(t->w, 1500);
    } else if (dice < 65) {
        opt->cancel_fd = cancel_after(1 + camp_draw(t->w, 300));
        if (opt->cancel_fd > 0) /* else it has no descriptor left */
            t->flags = CAMP_CANCELS;
        else
            opt->cancel_fd = 0;
    }
}

static void choose_key(camp_turn *t)
{
    const camp_client *c = t->w->c;

    t->key = (uint8_t)camp_draw(t->w, (uint32_t)c->keys);
    if (atomic_load(&c->arena->odd))
        t->key = (uint8_t)(CAMP_ODD + camp_draw(t->w, CAMP_KEYS - CAMP_ODD));
    if ((c->caps & HF_CAP_SHARED) && camp_draw(t->w, 4) == 0)
        t->mode = HF_SHARED;
    if ((c->caps & HF_CAP_PERMIT) && camp_draw(t->w, 8) == 0) {
        t->key = CAMP_PERMITS;
        t->mode = HF_PERMIT;
    }
}

/* Among many who want the same: whoever was served stays away until its
 * process can be told from one that never left (rules_order.c). */
static void take_turn_in_crowd(camp_worker *w)
{
    camp_client *c = w->c;
    camp_turn t = {.w = w, .mode = HF_EXCLUSIVE};
    hf_lock_options opt = {HF_LOCK_OPTIONS, .wait_ms = HF_FOREVER};

    if (camp_take(&t, &opt, 0)) {
        atomic_fetch_add(&c->arena->inside[c->life], 1);
        camp_check(&t);
        sleep_us(15000);
        camp_check(&t);
        atomic_fetch_sub(&c->arena->inside[c->life], 1);
        give(&t);
    }
    sleep_us(25000 + camp_draw(w, 30000));
}

static void take_turn(camp_worker *w)
{
    camp_client *c = w->c;
    camp_turn t = {.w = w};
    hf_lock_options opt = {HF_LOCK_OPTIONS};

    choose_key(&t);
    choose_wait(&t, &opt);
    camp_embellish(&t, &opt);
    if (camp_draw(w, 40) == 0) {
        camp_leave_turn(&t, &opt);
    } else if (camp_draw(w, 10) == 0 && camp_loop_turn(&t, &opt)) {
        /* It was all there is to it. */
    } else if (camp_take(&t, &opt, 0)) {
        atomic_fetch_add(&c->arena->inside[c->life], 1);
        atomic_store(&c->shown[w->place], t.hold);
        stay_inside(&t);
        atomic_store(&c->shown[w->place], NULL);
        atomic_fetch_sub(&c->arena->inside[c->life], 1);
        give(&t);
    }
    if (!t.hold)
        sleep_us(20000); /* whoever was refused does not storm */
    if (opt.cancel_fd > 0)
        close(opt.cancel_fd);
    sleep_us(1000 + camp_draw(w, 30000));
}

void *camp_work(void *worker)
{
    camp_worker *w = worker;

    the_client = w->c;
    camp_name_thread();
    while (!atomic_load(&w->c->stop)) {
        if (atomic_load(&w->c->arena->crowd))
            take_turn_in_crowd(w);
        else
            take_turn(w);
    }
    return NULL;
}
