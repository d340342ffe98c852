/* waiters.c - what do two hundred who wait for one key ask of a server?
 *
 * The waiters are threads, of one session or of one each; the server counts
 * what it is asked, by functions of the caller, first while all of them sleep,
 * then while the key goes through all hands. */
#include "bench.h"

#include <holdfast/holdfast.h>
#include <pthread.h>

#define HOLD_US 1000
#define KEY "/bench/waiters"

static hf_session *open_session(const char *url)
{
    hf_session *s;
    hf_error err;

    if (hf_open(&s, url, NULL, &err) != 0)
        bench_die("holdfast: %s", err.text);
    return s;
}

static void *take_once(void *session)
{
    hf_hold *hold;
    hf_error err;

    if (hf_lock(session, KEY, NULL, &hold, &err) != 0)
        bench_die("holdfast: '%s': %s", KEY, err.text);
    sleep_us(HOLD_US);
    if (hf_release(hold, &err) != 0)
        bench_die("holdfast: '%s': %s", KEY, err.text);
    return NULL;
}

static void await_waiters(hf_session *const *session, int sessions)
{
    for (int i = 0; i < 3000; i++) {
        uint64_t waiting = 0;

        for (int k = 0; k < sessions; k++) {
            hf_stats now = {0};

            if (hf_session_stats(session[k], &now) != 0)
                bench_die("waiters: no statistics of a session");
            waiting += now.waiters;
        }
        if (waiting == WAITERS)
            return;
        sleep_us(10 * 1000);
    }
    bench_die("waiters: they do not all wait after half a minute");
}

static void start_waiters(pthread_t *ret, hf_session *const *session,
                          int sessions)
{
    for (int i = 0; i < WAITERS; i++) {
        if (pthread_create(&ret[i], NULL, take_once, session[i % sessions]) !=
            0)
            bench_die("cannot start a thread");
        /* How a stampede ends is another question. */
        if (sessions > 1)
            sleep_us(20 * 1000);
    }
    await_waiters(session, sessions);
    sleep_us(1000 * 1000); /* what begins with waiting is over */
}

struct waiting measure_waiters(const char *url, int sessions, double idle_s,
                               count_fn *const count[WAITER_COUNTS],
                               void *server)
{
    static hf_session *session[WAITERS];
    double before[WAITER_COUNTS];
    pthread_t thread[WAITERS];
    hf_session *first;
    struct waiting ret;
    int64_t begin;
    hf_hold *hold;
    hf_error err;

    first = open_session(url);
    if (hf_lock(first, KEY, NULL, &hold, &err) != 0)
        bench_die("holdfast: %s", err.text);
    for (int i = 0; i < sessions; i++)
        session[i] = open_session(url);
    start_waiters(thread, session, sessions);
    for (int i = 0; i < WAITER_COUNTS; i++)
        before[i] = count[i] ? count[i](server) : 0;
    sleep_us((int64_t)(idle_s * 1e6));
    for (int i = 0; i < WAITER_COUNTS; i++) {
        double now = count[i] ? count[i](server) : 0;

        ret.idle[i] = (now - before[i]) / idle_s;
        before[i] = now;
    }
    begin = now_ns();
    if (hf_release(hold, &err) != 0)
        bench_die("holdfast: %s", err.text);
    for (int i = 0; i < WAITERS; i++)
        pthread_join(thread[i], NULL);
    ret.ms = (double)(now_ns() - begin) / 1e6;
    for (int i = 0; i < WAITER_COUNTS; i++)
        ret.each[i] = count[i] ? (count[i](server) - before[i]) / WAITERS : 0;
    for (int i = 0; i < sessions; i++)
        hf_close(session[i]);
    hf_close(first);
    return ret;
}
