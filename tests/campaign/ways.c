/* ways.c - the rarer ways to take a lock: with a lease of its own, with an end
 * that was said before, with a value, by an event loop that cancels at some
 * moment, and by a thread that ends while it holds.
 *
 * As in turns.c every answer is only recorded.  The results of a session are
 * for whoever collects, so one thread at a time plays the event loop; what it
 * collects of an earlier turn, whose hold was given back before its loss was
 * told, it writes down by its number.  Of a thread that ends nobody can say
 * what its release was answered: its hold is believed to have been kept no
 * longer than its last check said. */
#include "client.h"

#include <poll.h>
#include <stdio.h>
#include <unistd.h>

enum { LOOK_MS = 10 };

void camp_embellish(camp_turn *t, hf_lock_options *opt)
{
    static const char value[] = "who, why and since when";
    camp_worker *w = t->w;
    uint32_t lease = (uint32_t)w->c->lease_ms;

    if ((w->c->caps & HF_CAP_VALUE) && camp_draw(w, 8) == 0) {
        opt->value = value;
        opt->value_len = 1 + camp_draw(w, sizeof value - 1);
    }
    if ((w->c->caps & HF_CAP_FIXED_LEASE) && camp_draw(w, 16) == 0)
        opt->lease_ms = t->length_ms = 100 + camp_draw(w, lease - 100);
    else if (camp_draw(w, 16) == 0)
        opt->at_most_ms = t->length_ms = 20 + camp_draw(w, lease);
    if (t->length_ms)
        t->flags |= CAMP_ENDS;
}

/* ---- An event loop ------------------------------------------------------ */

/* The next result of this kind, within this time; changes are written down.
 * false: it has not come. */
static bool collect(camp_client *c, hf_result_kind kind, int wait_ms,
                    hf_result *ret)
{
    struct pollfd p = {.fd = hf_session_fd(c->s), .events = POLLIN};
    int64_t end = camp_now() + wait_ms * INT64_C(1000000);

    do {
        while (hf_collect(c->s, ret) == 1) {
            if (ret->kind == kind)
                return true;
            if (ret->kind == HF_RESULT_CHANGE)
                camp_note_change(ret->state, ret->error.code, ret->user);
        }
        /* Without a descriptor for it: by the clock. */
        if (wait_ms > 0)
            poll(&p, p.fd >= 0, LOOK_MS);
    } while (camp_now() < end);
    return false;
}

/* Every request is collected once; one that is not is a hang, which the
 * conductor notices when this process does not end. */
static void await(camp_client *c, hf_result_kind kind, hf_result *ret)
{
    while (!collect(c, kind, LOOK_MS, ret))
        continue;
}

static void stay_in_loop(camp_turn *t)
{
    camp_worker *w = t->w;
    bool stays = camp_draw(w, 20) == 0;
    int64_t end =
        camp_now() + 1000000 * (stays ? w->c->lease_ms + w->c->lease_ms / 2
                                      : (int64_t)camp_draw(w, 40));
    hf_result none;

    while (camp_check(t) && camp_now() < end &&
           !(stays &&
             (atomic_load(&w->c->stop) || atomic_load(&w->c->arena->hurry))))
        collect(w->c, HF_RESULT_LOCK, LOOK_MS, &none);
}

static void give_in_loop(camp_turn *t)
{
    camp_record r = camp_line(t, CAMP_RELEASE);
    camp_client *c = t->w->c;
    hf_request *request;
    hf_result done = {.kind = HF_RESULT_RELEASE};

    r.called = r.at = camp_now();
    camp_write(c, r);
    r.kind = CAMP_RELEASED;
    r.at = 0;
    r.code = hf_release_start(t->hold, camp_pack(t), &request, NULL);
    if (r.code == 0) {
        await(c, HF_RESULT_RELEASE, &done);
        r.code = done.error.code;
    } else { /* it could not even be started */
        r.code = hf_release(t->hold, NULL);
    }
    camp_write(c, r);
}

/* The request is made; sometimes it is cancelled after a while. */
static void await_lock(camp_turn *t, hf_request *request, hf_result *ret)
{
    camp_client *c = t->w->c;

    if ((t->flags & CAMP_CANCELS) &&
        !collect(c, HF_RESULT_LOCK, (int)camp_draw(t->w, 300), ret))
        (void)hf_cancel(request, NULL); /* it may be over this instant */
    else if (t->flags & CAMP_CANCELS)
        return;
    await(c, HF_RESULT_LOCK, ret);
}

static void play_loop(camp_turn *t, hf_lock_options *opt)
{
    camp_client *c = t->w->c;
    hf_result got = {.kind = HF_RESULT_LOCK};
    char name[HF_KEY_MAX + 1];
    hf_request *request = NULL;
    camp_record asked;

    camp_name_key(t, name, sizeof name);
    if (!(t->flags & CAMP_TRY) && camp_draw(t->w, 2))
        t->flags |= CAMP_CANCELS;
    camp_ask(t, opt, 0, &asked);
    opt->mode = (hf_mode)t->mode;
    opt->places = t->mode == HF_PERMIT ? CAMP_PLACES : 0;
    got.error.code =
        hf_lock_start(c->s, name, opt, camp_pack(t), &request, &got.error);
    if (got.error.code == 0)
        await_lock(t, request, &got);
    t->hold = got.error.code == 0 ? got.hold : NULL;
    camp_answer(t, &asked, &got.error);
    if (!t->hold)
        return;
    atomic_fetch_add(&c->arena->inside[c->life], 1);
    stay_in_loop(t);
    atomic_fetch_sub(&c->arena->inside[c->life], 1);
    give_in_loop(t);
}

bool camp_loop_turn(camp_turn *t, hf_lock_options *opt)
{
    if (pthread_mutex_trylock(&t->w->c->loop) != 0)
        return false;
    play_loop(t, opt);
    pthread_mutex_unlock(&t->w->c->loop);
    return true;
}

/* ---- A thread that ends ------------------------------------------------- */

typedef struct visit {
    camp_turn *t;
    hf_lock_options *opt;
} visit;

static void *hold_and_end(void *arg)
{
    visit *v = arg;
    camp_client *c = v->t->w->c;
    camp_record r;

    camp_name_thread();
    if (!camp_take(v->t, v->opt, 0))
        return NULL;
    atomic_fetch_add(&c->arena->inside[c->life], 1);
    camp_check(v->t);
    if (camp_draw(v->t->w, 2))
        poll(NULL, 0, (int)camp_draw(v->t->w, 50));
    camp_check(v->t);
    atomic_fetch_sub(&c->arena->inside[c->life], 1);
    r = camp_line(v->t, CAMP_RELEASE);
    camp_write(c, r);
    return NULL;
}

void camp_leave_turn(camp_turn *t, hf_lock_options *opt)
{
    visit v = {t, opt};
    camp_record r;
    pthread_t thread;

    t->flags |= CAMP_LEAVES;
    if (pthread_create(&thread, NULL, hold_and_end, &v) != 0)
        return; /* no memory for one */
    pthread_join(thread, NULL);
    if (!t->hold)
        return;
    r = camp_line(t, CAMP_RELEASED);
    camp_write(t->w->c, r);
}
