/* line.c - how many operations are under way that nobody drives.
 *
 * An event loop may ask for ten thousand locks at once.  Sent at once they
 * would all be late: the cluster commits a few thousand a second, each attempt
 * has a deadline, and what is late is asked again, until nothing else gets
 * through, renewals least of all.  So a limited number is under way; the others
 * wait here, in order, unsent.  Threads that drive their own operation, and
 * what belongs to the session, are not held up: there are few of them.
 *
 * One whose time is up before it was sent has certainly not been done, and is
 * told so when its turn comes.  That is soon: those under way have deadlines.
 *
 * Two threads: one at a time moves the line on, the other leaves it to him.  An
 * ending operation does so before it is told, while the store lives for
 * certain. */
#include "store.h"

enum { FLIGHTS_MAX = 128 };
static const hf_nsec too_late = HF_MS(100); /* no use in beginning */

static hf_op *take_next(hf_store *store)
{
    hf_op *op = store->flights < FLIGHTS_MAX ? store->line : NULL;

    if (op) {
        store->line = etcd_own_of(op)->next;
        if (!store->line)
            store->line_last = NULL;
        store->flights++;
    }
    return op;
}

static void begin(hf_store *store, hf_op *op)
{
    if (hfd_now() + too_late < op->deadline) {
        etcd_own_of(op)->counted = true;
        etcd_run(store, op);
        return;
    }
    pthread_mutex_lock(&store->mu);
    store->flights--;
    pthread_mutex_unlock(&store->mu);
    op->sent = hfd_now();
    hfd_error(&op->error, HF_EUNAVAIL, "etcd", 0,
              "too many requests of this process wait for the cluster");
    hfd_finish(op, HF_NOT_APPLIED, HF_EUNAVAIL);
}

static void move_on(hf_store *store)
{
    hf_op *op;

    pthread_mutex_lock(&store->mu);
    if (!store->moving) {
        store->moving = true;
        while ((op = take_next(store))) {
            pthread_mutex_unlock(&store->mu);
            begin(store, op);
            pthread_mutex_lock(&store->mu);
        }
        store->moving = false;
    }
    pthread_mutex_unlock(&store->mu);
}

void etcd_line_start(hf_store *store, hf_op *op)
{
    pthread_mutex_lock(&store->mu);
    if (store->line_last)
        etcd_own_of(store->line_last)->next = op;
    else
        store->line = op;
    store->line_last = op;
    pthread_mutex_unlock(&store->mu);
    move_on(store);
}

void etcd_line_ended(hf_store *store)
{
    pthread_mutex_lock(&store->mu);
    store->flights--;
    pthread_mutex_unlock(&store->mu);
    move_on(store);
}
