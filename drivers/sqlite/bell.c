/* bell.c - grants for waiters that do not park.
 *
 * An event loop cannot sleep in a futex.  Its entries name the bell, word 0 of
 * the session's slot; a thread of ours sleeps there and writes an eventfd that
 * is in the store's epoll set.  Who rings writes the rid into a ring in the
 * slot first, so that ten thousand waiters are not all looked at for each
 * grant.  What the ring says is a hint: the core asks the tables.  A ring that
 * ran over, or a writer that died while writing, makes it "look at all". */
#include "store.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static void *listen_bell(void *arg)
{
    hf_store *s = arg;
    _Atomic uint32_t *bell = hf__sq_word(s, s->slot * SQ_WORDS);
    uint32_t seen = atomic_load(bell), value;
    uint64_t one = 1;

    /* What was rung before this thread ran. */
    if (write(s->bell_fd, &one, sizeof one) < 0)
        return NULL;
    while (!atomic_load(&s->bell_stop)) {
        value = hf__sq_futex_wait(bell, seen, HF_MS(3600000));
        if (value != seen && write(s->bell_fd, &one, sizeof one) < 0 &&
            errno != EAGAIN)
            break;
        seen = value;
    }
    return NULL;
}

bool hf__sq_bell_start(hf_store *s)
{
    sigset_t all, old;
    bool ok;

    pthread_mutex_lock(&s->watch_mu);
    ok = s->bell_runs;
    if (!ok && hf__sq_watch_bell(s)) {
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &old);
        ok = pthread_create(&s->bell, NULL, listen_bell, s) == 0;
        pthread_sigmask(SIG_SETMASK, &old, NULL);
        s->bell_runs = ok;
    }
    pthread_mutex_unlock(&s->watch_mu);
    return ok;
}

void hf__sq_bell_stop(hf_store *s)
{
    if (!s->bell_runs)
        return;
    atomic_store(&s->bell_stop, true);
    hf__sq_futex_bump(hf__sq_word(s, s->slot * SQ_WORDS));
    pthread_join(s->bell, NULL);
    s->bell_runs = false;
}

/* The next of the ring.  1: *ret; 0: no more now; -1: something was missed. */
static int take_ring(hf_store *s, sq_wake *ret)
{
    sq_slot *slot = &s->map->slot[s->slot];
    uint64_t head = atomic_load(&slot->head), seq, half[2];
    sq_ring_entry *entry = &slot->ring[s->ring_tail % SQ_RING];

    if (s->ring_tail == head)
        return 0;
    seq = atomic_load(&entry->seq);
    half[0] = atomic_load(&entry->rid[0]);
    half[1] = atomic_load(&entry->rid[1]);
    if ((seq & ~SQ_NEWS) == s->ring_tail + 1 &&
        atomic_load(&entry->seq) == seq) {
        memcpy(ret->rid.bytes, half, sizeof half);
        ret->news = (seq & SQ_NEWS) != 0;
        s->ring_tail++;
        return 1;
    }
    /* Being written: its bell is still to come.  If later ones are there, it
     * was overwritten or its writer died. */
    if (head - s->ring_tail == 1)
        return 0;
    s->ring_tail = head;
    return -1;
}

/* Called by the one thread that dispatches. */
void hf__sq_bell_rang(hf_store *s)
{
    bool news = false, missed = false;
    sq_wake wake;
    int got;

    while ((got = take_ring(s, &wake)) != 0) {
        if (got < 0)
            missed = true;
        else if (wake.news)
            news = true;
        else
            s->host.changed(s->host.ctx, &wake.rid, NULL);
    }
    if (news || missed)
        hf__sq_tell_news(s);
    if (missed)
        s->host.changed(s->host.ctx, NULL, NULL);
}
