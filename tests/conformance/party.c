/* party.c - a store, its session, and what it was told.
 *
 * A party is what the core is to a driver, without any of the core's thinking:
 * it opens the store, speaks for one session and writes down every push.  Two
 * parties never share a store, only the URL. */
#include "suite.h"

#include <poll.h>

#include "base/url.h"
#include "core/registry.h"

static void note_event(party *p, const event *e)
{
    pthread_mutex_lock(&p->mutex);
    if (p->event_count < EVENTS_MAX)
        p->events[p->event_count++] = *e;
    pthread_mutex_unlock(&p->mutex);
}

static void note_changed(void *ctx, const hf_id *rid, const hf_place *fresh)
{
    event e = {.any = rid == NULL};

    if (rid)
        e.rid = *rid;
    if (fresh) {
        e.verdict = fresh->verdict;
        e.token = fresh->token;
    }
    note_event(ctx, &e);
}

static void note_news(void *ctx, const hf_id *rid, int reason)
{
    event e = {.any = rid == NULL, .reason = reason};

    EXPECT(hf_error_class(reason) == HF_CLASS_LOST);
    if (rid)
        e.rid = *rid;
    note_event(ctx, &e);
}

static void note_doubt(void *ctx, int reason, const char *text)
{
    (void)ctx;
    FAIL_TEST("the store is in doubt: %s, %s", hf_error_name(reason),
              text ? text : "");
}

party *party_open(int ttl_ms)
{
    party *p = calloc(1, sizeof *p);
    hf_host host = {.ctx = p,
                    .changed = note_changed,
                    .news = note_news,
                    .doubt = note_doubt};
    hf_error err = {.code = 0};

    EXPECT(p != NULL);
    pthread_mutex_init(&p->mutex, NULL);
    EXPECT_OK(hf__registry_open(&p->driver, &p->store, &p->url,
                                the_target->url("a"), &host, &p->caps, &err),
              err);
    skip_if_unfit(p->caps);
    party_attach(p, ttl_ms);
    return p;
}

/* Wait for something, until the store has told that it listens. */
static void warm_up(party *p)
{
    hf_place held = make_place("warm", HF_EXCLUSIVE);
    hf_place waits = make_place("warm", HF_EXCLUSIVE);

    waits.own[1] = HF_PLACE_PUSH;
    if (join(p, &held) == 0 && held.verdict == HF_GRANTED) {
        must_wait(p, &waits);
        EXPECT(wait_changed(p, &waits.rid, PATIENCE_MS));
        leave(p, &waits);
    }
    leave(p, &held);
    forget_events(p);
}

void party_attach(party *p, int ttl_ms)
{
    hf_op op;

    hfd_random(&p->sid, sizeof p->sid);
    op = make_op(p, HF_OP_ATTACH);
    op.ttl = HF_MS(ttl_ms);
    op.text = "conformance";
    op.text_len = strlen(op.text);
    run_op(p, &op);
    EXPECT_CODE(op.error.code, 0);
    EXPECT(op.remaining > 0 && op.remaining <= HF_MS(ttl_ms));
    if (the_target->quirks.settle)
        the_target->quirks.settle("a");
    if (the_target->quirks.listens_late)
        warm_up(p);
}

int party_renew(party *p, int ttl_ms)
{
    hf_op op = make_op(p, HF_OP_RENEW);

    op.ttl = HF_MS(ttl_ms);
    op.places = p->held;
    op.place_count = HAS_CAP(p, HF_CAP_EACH) ? p->held_count : 0;
    run_op(p, &op);
    if (op.error.code == 0)
        EXPECT(op.remaining > 0 && op.remaining <= HF_MS(ttl_ms));
    return op.error.code;
}

void party_detach(party *p)
{
    hf_op op = make_op(p, HF_OP_DETACH);

    run_op(p, &op);
    EXPECT_CODE(op.error.code, 0);
}

void party_drop(party *p)
{
    if (atomic_load(&p->serving))
        party_unserve(p);
    p->driver->close(p->store);
    hf__url_free(p->url);
    pthread_mutex_destroy(&p->mutex);
    free(p);
}

void party_close(party *p)
{
    party_detach(p);
    party_drop(p);
}

/* ---- Pushes ------------------------------------------------------------- */

static void poll_once(party *p, int ms)
{
    struct pollfd fd = {.fd = p->driver->fd(p->store), .events = POLLIN};

    if (fd.fd < 0)
        test_sleep_ms(ms < 5 ? ms : 5);
    else if (poll(&fd, 1, ms) > 0)
        p->driver->dispatch(p->store);
}

static void *serve_party(void *arg)
{
    party *p = arg;

    while (atomic_load(&p->serving))
        poll_once(p, 20);
    return NULL;
}

void party_serve(party *p)
{
    atomic_store(&p->serving, true);
    EXPECT_EQ(pthread_create(&p->server, NULL, serve_party, p), 0);
}

void party_unserve(party *p)
{
    atomic_store(&p->serving, false);
    pthread_join(p->server, NULL);
}

static bool find_event(party *p, const hf_id *rid, int reason)
{
    bool found = false;

    pthread_mutex_lock(&p->mutex);
    for (size_t i = 0; i < p->event_count && !found; i++) {
        const event *e = &p->events[i];

        found = e->reason == reason && (e->any || SAME_ID(e->rid, *rid));
    }
    pthread_mutex_unlock(&p->mutex);
    return found;
}

static bool wait_event(party *p, const hf_id *rid, int reason, int ms)
{
    long long end = test_now_ms() + ms;

    while (!find_event(p, rid, reason)) {
        if (test_now_ms() >= end)
            return false;
        if (atomic_load(&p->serving))
            test_sleep_ms(1);
        else
            poll_once(p, 20);
    }
    return true;
}

bool wait_changed(party *p, const hf_id *rid, int ms)
{
    return wait_event(p, rid, 0, ms);
}

bool wait_news(party *p, const hf_id *rid, int reason, int ms)
{
    return wait_event(p, rid, reason, ms);
}

bool told_granted(party *p, const hf_id *rid, uint64_t *ret_token)
{
    bool found = false;

    pthread_mutex_lock(&p->mutex);
    for (size_t i = 0; i < p->event_count && !found; i++) {
        const event *e = &p->events[i];

        found = !e->any && SAME_ID(e->rid, *rid) && e->verdict == HF_GRANTED;
        if (found && ret_token)
            *ret_token = e->token;
    }
    pthread_mutex_unlock(&p->mutex);
    return found;
}

void forget_events(party *p)
{
    pthread_mutex_lock(&p->mutex);
    p->event_count = 0;
    pthread_mutex_unlock(&p->mutex);
}
