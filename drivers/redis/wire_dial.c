/* wire_dial.c - when a connection is opened, and by whom.
 *
 * Answers: who dials, and what happens to the others meanwhile?  A caller who
 * waits anyway dials on his own thread; for everything else there is a thread
 * that exists while something is to be dialled: for calls that nobody drives,
 * for one connection more, and for pushes.  So the keeper never waits for a
 * name server.  Knows nothing of replies; wire_hello.c shakes the hands.
 *
 * One connection for commands is opened at a time; who comes meanwhile waits
 * for it, at most until his own deadline.  After a failure nobody tries for a
 * while, longer each time and by chance, so that a thousand clients do not
 * fall on a server that comes back.  An attempt that ended only because its
 * caller's time was short says nothing about the server and holds up nobody.
 *
 * Nothing is sent here but the handshake, so nothing can be lost. */
#include <linux/futex.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "wire_inside.h"

enum { BACKOFF_MS = 50, BACKOFF_MAX_MS = 500, SLICE_MS = 250 };

/* ---- Sleeping ---- */

void redis_futex_sleep(atomic_uint *word, unsigned seen, hf_nsec until)
{
    hf_nsec left = until - hfd_now();
    struct timespec ts = {0};

    if (left <= 0)
        return;
    /* The kernel's timeout stands still over a suspend: look now and then. */
    if (left > HF_MS(SLICE_MS))
        left = HF_MS(SLICE_MS);
    ts.tv_nsec = (long)left;
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, &ts, NULL, 0);
}

void redis_futex_ring(atomic_uint *word)
{
    atomic_fetch_add(word, 1);
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

void redis_backoff_more(redis_backoff *backoff)
{
    hf_nsec most = HF_MS(BACKOFF_MS) << backoff->failures;
    uint32_t chance;

    if (backoff->failures < 10)
        backoff->failures++;
    if (most > HF_MS(BACKOFF_MAX_MS))
        most = HF_MS(BACKOFF_MAX_MS);
    hfd_random(&chance, sizeof chance);
    backoff->until = hfd_now() + HF_MS(1) + most * (chance >> 16) / 65536;
}

/* ---- One connection ---- */

int redis_dial_command(redis_wire *wire, hf_nsec deadline, hf_error *err)
{
    /* Was this attempt as long as they get? */
    bool whole = deadline + HF_MS(1) >= hfd_now() + wire->dial_time;
    redis_conn *conn = NULL, *old = NULL;
    hf_error why = {0};
    bool failed = false, surplus = false;
    int code;

    wire->dialing = true;
    redis_unlock(wire);
    code = redis_dial(&conn, wire, false, deadline, &why);
    redis_lock(wire);
    wire->dialing = wire->more = false;
    if (code == 0) {
        surplus = !redis_conn_place(conn, &old);
        conn->used = hfd_now();
        memset(&wire->backoff, 0, sizeof wire->backoff);
    } else if (whole || hfd_now() < deadline) {
        failed = true;
        wire->failure = why;
        redis_backoff_more(&wire->backoff);
    } else if (wire->line.first) {
        failed = redis_dial_summon(wire) != 0;
    }
    redis_unlock(wire);
    redis_futex_ring(&wire->turn);
    if (surplus)
        redis_conn_drop(conn);
    if (old)
        redis_conn_drop(old);
    if (code == 0 || failed)
        redis_wire_move_line(wire, code == 0 ? NULL : &why);
    if (code != 0 && err)
        *err = why;
    return code;
}

/* With mu held, which is held again afterwards. */
static void dial_push(redis_wire *wire)
{
    redis_conn *conn = NULL;
    hf_error why = {0};
    int code;

    redis_unlock(wire);
    code = redis_dial(&conn, wire, true, hfd_now() + wire->dial_time, &why);
    if (code == 0)
        redis_push_stands(wire, conn);
    else
        hfd_log(HF_LOG_WARN, "redis: no connection for pushes: %s", why.text);
    redis_lock(wire);
    if (code != 0)
        redis_backoff_more(&wire->push_backoff);
}

/* ---- The thread ---- */

static bool command_wanted(const redis_wire *wire)
{
    return !wire->dialing &&
           (wire->more || (wire->line.first && !redis_any_stands(wire)));
}

static void *run_dialer(void *arg)
{
    redis_wire *wire = arg;

    redis_lock(wire);
    while (!wire->closing) {
        bool command = command_wanted(wire), push = redis_push_wanted(wire);
        hf_nsec now = hfd_now(), until = HF_NEVER;
        unsigned seen = atomic_load(&wire->bell);

        if (command && now >= wire->backoff.until) {
            redis_dial_command(wire, now + wire->dial_time, NULL);
            redis_lock(wire);
            continue;
        }
        if (push && now >= wire->push_backoff.until) {
            dial_push(wire);
            continue;
        }
        if (!command && !push)
            break;
        if (command)
            until = wire->backoff.until;
        if (push && wire->push_backoff.until < until)
            until = wire->push_backoff.until;
        redis_unlock(wire);
        redis_futex_sleep(&wire->bell, seen, until);
        redis_lock(wire);
    }
    wire->dialer_runs = false;
    redis_unlock(wire);
    return NULL;
}

int redis_dial_summon(redis_wire *wire)
{
    sigset_t all, old;
    int code;

    if (wire->closing)
        return 0;
    if (wire->dialer_runs) {
        redis_futex_ring(&wire->bell);
        return 0;
    }
    /* The one before has said that it ends, and needs no lock for that. */
    if (wire->dialer_joinable)
        pthread_join(wire->dialer, NULL);
    wire->dialer_joinable = false;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    code = pthread_create(&wire->dialer, NULL, run_dialer, wire);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (code != 0)
        return HF_ENOMEM;
    wire->dialer_runs = wire->dialer_joinable = true;
    return 0;
}

void redis_dial_stop(redis_wire *wire)
{
    bool joinable;

    redis_lock(wire);
    wire->closing = true;
    joinable = wire->dialer_joinable;
    wire->dialer_joinable = false;
    redis_unlock(wire);
    redis_futex_ring(&wire->bell);
    if (joinable)
        pthread_join(wire->dialer, NULL);
}
