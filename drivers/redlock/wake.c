/* wake.c - whoever waits is told of a release.
 *
 * Answers: when is it worth while to vote again?  A release is told by each
 * server, on a channel beside the key, when it deletes its vote; a waiter
 * listens at all of them, and is woken when a majority has told: before, there
 * is nothing to win.  Votes that are taken back after a split are told by
 * nobody, or those who split them would wake each other on and on.
 *
 * A message is a hint and nothing else: whoever is woken votes like everybody,
 * and whoever is not looks by itself (format_ops.c), as it must beside other
 * libraries, which tell nobody.  Message lost, a server dead, two releases
 * mixed up: a look too late, or one in vain.  Which servers have told stands in
 * the waiter's record; who tells a second time tells of another release. */
#include "layout.h"
#include "redlock.h"

/* A server at which nobody listens is one voice less. */
int redis_hear(hf_store *base, const char *channel, size_t len, bool on)
{
    redlock_store *store = redlock_of(base);
    int code = 0;

    for (size_t i = 0; i < store->count && code == 0; i++) {
        if (on)
            code = redis_wire_listen(store->nodes[i].wire, channel, len, false);
        else
            redis_wire_unlisten(store->nodes[i].wire, channel, len, false);
    }
    return code;
}

void redlock_told(redlock_store *store, size_t node, const char *channel,
                  size_t len)
{
    format_data *data = format_of(&store->base);
    hf_id rids[16];
    size_t n;

    if (len < sizeof FORMAT_WAKE - 1)
        return;
    pthread_mutex_lock(&data->mu);
    n = format_told(data, channel + sizeof FORMAT_WAKE - 1,
                    len - (sizeof FORMAT_WAKE - 1), (unsigned)node,
                    vote_majority(store->count), rids,
                    sizeof rids / sizeof *rids);
    pthread_mutex_unlock(&data->mu);
    for (size_t i = 0; i < n; i++)
        store->base.host.changed(store->base.host.ctx, &rids[i], NULL);
}

/* What was told before the channels stood is found by a look: one, though they
 * stand on several servers, when the last of those has answered. */
void redlock_listens(redlock_store *store, size_t node)
{
    for (size_t i = node + 1; i < store->count; i++) {
        if (atomic_load(&store->nodes[i].answers))
            return;
    }
    store->base.host.changed(store->base.host.ctx, NULL, NULL);
}

/* Nobody parks here: the core sleeps by itself, and is told by `changed`. */
void redis_note_bell(hf_store *store, hf_place *place)
{
    (void)store;
    (void)place;
}

void redis_ring(hf_store *store, const hf_id *rid)
{
    (void)store;
    (void)rid;
}
