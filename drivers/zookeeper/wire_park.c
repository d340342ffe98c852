/* wire_park.c - threads that sleep until something is pushed to them.
 *
 * Answers: how does a waiter sleep so that an event reaches him without another
 * thread between?  He sleeps inside the connection's pipe, where he reads for
 * all when nobody else does; while there is no connection, on a bell of his
 * own.  Knows nothing of what events mean.
 *
 * A parked thread has two waiters: the caller's, which says that it is meant,
 * and one for the pipe it sleeps in, which also ends when that pipe breaks.
 * Both change under park_mu, so a waiter that is woken still exists.  The
 * connection broke between choosing it and lying down: it has stirred its
 * sleepers before, then `broken` is seen here, or it does so after, and then it
 * finds us.  Event lost with the connection: `again` is told, and the user
 * looks.  A push decides nothing; it says that a look is worth while. */
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "wire_inside.h"

enum { SLICE_MS = 250 };

/* On the stack of a parked thread. */
typedef struct zk_parker {
    hf__waiter inner; /* first: the caller's waiter points to it */
    atomic_uint bell; /* a futex, while there is no connection */
    zk_conn *conn;    /* whose pipe it sleeps in; NULL: on the bell */
    struct zk_parker *prev, *next;
} zk_parker;

void zk_futex_sleep(atomic_uint *word, unsigned seen, hf_nsec until)
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

void zk_futex_ring(atomic_uint *word)
{
    atomic_fetch_add(word, 1);
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

void zk_stir_parkers(zk_wire *wire, const zk_conn *conn)
{
    pthread_mutex_lock(&wire->park_mu);
    for (zk_parker *p = wire->parkers; p; p = p->next) {
        if (p->conn != conn)
            continue;
        if (conn)
            hf__pipe_wake(conn->pipe, &p->inner);
        else
            zk_futex_ring(&p->bell);
    }
    pthread_mutex_unlock(&wire->park_mu);
}

/* Takes his place among the parked; false: he was woken already. */
static bool go_to_bed(zk_wire *wire, zk_parker *p, hf__waiter *w, zk_conn *conn)
{
    bool goes;

    pthread_mutex_lock(&wire->park_mu);
    goes = !hf__waiter_woken(w);
    if (goes) {
        p->conn = conn && !conn->broken ? conn : NULL;
        w->next = &p->inner;
        p->next = wire->parkers;
        if (p->next)
            p->next->prev = p;
        wire->parkers = p;
    }
    pthread_mutex_unlock(&wire->park_mu);
    return goes;
}

static void get_up(zk_wire *wire, zk_parker *p, hf__waiter *w)
{
    pthread_mutex_lock(&wire->park_mu);
    w->next = NULL;
    if (p->next)
        p->next->prev = p->prev;
    if (p->prev)
        p->prev->next = p->next;
    else
        wire->parkers = p->next;
    pthread_mutex_unlock(&wire->park_mu);
}

void zk_wire_park(zk_wire *wire, hf__waiter *w, hf_nsec until)
{
    while (!hf__waiter_woken(w) && hfd_now() < until) {
        zk_parker p = {0};
        zk_conn *conn;

        zk_lock(wire);
        conn = wire->conn;
        if (conn)
            conn->refs++;
        zk_unlock(wire);
        if (go_to_bed(wire, &p, w, conn)) {
            if (p.conn)
                hf__pipe_wait(p.conn->pipe, &p.inner, until);
            else
                zk_futex_sleep(&p.bell, 0, until);
            get_up(wire, &p, w);
        }
        if (conn)
            zk_conn_drop(conn);
    }
}

void zk_wire_wake(zk_wire *wire, hf__waiter *w)
{
    zk_parker *p;

    pthread_mutex_lock(&wire->park_mu);
    p = (zk_parker *)(void *)w->next;
    if (!(atomic_fetch_or(&w->word, 1) & 1) && p) {
        if (p->conn)
            hf__pipe_wake(p->conn->pipe, &p->inner);
        else
            zk_futex_ring(&p->bell);
    }
    pthread_mutex_unlock(&wire->park_mu);
}
