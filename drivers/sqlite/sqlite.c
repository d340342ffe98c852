/* sqlite.c - the driver's table: a store in a file of this machine.
 *
 * Opens and closes a store and sends each operation to its file: session.c,
 * join.c, leave.c, recheck.c, list.c, break.c, probe.c.  Operations run on the
 * calling thread and are done when start returns.
 *
 * After a fork the child only closes descriptors: SQLite's handle is leaked,
 * since closing it could write to the file under its parent, and the slot's
 * lock is shared with the parent, so it is never unlocked there. */
#include "store.h"

#include <string.h>
#include <unistd.h>

static const char *const option_names[] = {"sync", "network", "timeout", NULL};

#define CAPS_LOCAL (HF_CAP_PUSH | HF_CAP_LINEARIZABLE | HF_CAP_CRASH_AT_ONCE)
#define CAPS_ALWAYS                                                            \
    (HF_CAP_FIFO | HF_CAP_TOKEN | HF_CAP_SHARED | HF_CAP_PERMIT |              \
     HF_CAP_FIXED_LEASE | HF_CAP_VALUE | HF_CAP_BREAK | HF_CAP_FAILOVER_SAFE | \
     HF_CAP_MARKS | HF_CAP_RUN | HF_CAP_BLOCKING)

static int read_options(hf_store *s, const hf_url *url, hf_error *err)
{
    const char *sync = hfd_url_option(url, "sync");
    int64_t timeout = 10000;
    int code = hfd_url_flag(url, "network", &s->network, err);

    if (code == 0)
        code = hfd_url_number(url, "timeout", 1, 600000, &timeout, err);
    if (code != 0)
        return code;
    s->patience = HF_MS(timeout);
    if (sync && strcmp(sync, "full") != 0 && strcmp(sync, "normal") != 0)
        return hfd_error(err, HF_EURL, "sqlite", 0,
                         "option 'sync' is '%s': write sync=normal or "
                         "sync=full",
                         sync);
    s->full = sync && strcmp(sync, "full") == 0;
    if (hfd_url_host_count(url) > 0 && hfd_url_host(url, 0)[0] != '\0')
        return hfd_error(err, HF_EURL, "sqlite", 0,
                         "the URL names a host, '%s', but a SQLite store is a "
                         "file: write sqlite:/path/to/locks.db",
                         hfd_url_host(url, 0));
    return 0;
}

static void free_store(hf_store *s)
{
    hf__sq_bell_stop(s);
    hf__sq_conn_close(&s->reader, false);
    hf__sq_conn_close(&s->writer, !s->network && hf__sq_side_idle(s));
    hf__sq_watch_close(s);
    hf__sq_side_close(s);
    hf__sq_known_clear(s);
    pthread_mutex_destroy(&s->reader_mu);
    pthread_mutex_destroy(&s->known_mu);
    pthread_mutex_destroy(&s->watch_mu);
    hfd_free(s);
}

static hf_store *new_store(const hf_host *host)
{
    hf_store *s = hfd_alloc(sizeof *s);

    if (!s)
        return NULL;
    s->host = *host;
    s->detached = true;
    s->side_fd = s->epoll_fd = s->bell_fd = s->timer_fd = -1;
    pthread_mutex_init(&s->reader_mu, NULL);
    pthread_mutex_init(&s->known_mu, NULL);
    pthread_mutex_init(&s->watch_mu, NULL);
    return s;
}

static int sqlite_open(hf_store **ret, const hf_url *url, const hf_host *host,
                       uint32_t *ret_caps, hf_error *err)
{
    hf_store *s = new_store(host);
    int code;

    if (!s)
        return hfd_error(err, HF_ENOMEM, "sqlite", 0, "out of memory");
    code = read_options(s, url, err);
    if (code == 0)
        code = hf__sq_self(&s->self, err);
    if (code == 0)
        code = hf__sq_locate(s, hfd_url_path(url), err);
    if (code == 0)
        code = hf__sq_watch_open(s, err);
    if (code == 0)
        code = hf__sq_side_open(s, err);
    if (code == 0)
        code = hf__sq_conn_open(s, &s->writer, err);
    if (code == 0)
        code = hf__sq_schema(s, err);
    if (code == 0)
        code = hf__sq_side_slot(s, err);
    if (code != 0) {
        free_store(s);
        return code;
    }
    hf__sq_side_opened(s);
    *ret = s;
    *ret_caps = CAPS_ALWAYS | (s->network ? 0 : CAPS_LOCAL);
    return 0;
}

static void sqlite_close(hf_store *s)
{
    free_store(s);
}

static void sqlite_abandon(hf_store *s)
{
    hf__sq_watch_abandon(s);
    if (s->side_fd >= 0)
        close(s->side_fd);
    s->side_fd = -1;
}

static void sqlite_start(hf_store *s, hf_op *op)
{
    switch (op->kind) {
    case HF_OP_ATTACH:
        hf__sq_write(s, op, hf__sq_attach);
        return;
    case HF_OP_RENEW:
        hf__sq_renew(s, op);
        return;
    case HF_OP_DETACH:
        hf__sq_write(s, op, hf__sq_detach);
        return;
    case HF_OP_JOIN:
        hf__sq_join(s, op);
        return;
    case HF_OP_CONFIRM:
        hf__sq_write(s, op, hf__sq_confirm);
        return;
    case HF_OP_LEAVE:
        hf__sq_write(s, op, hf__sq_leave);
        return;
    case HF_OP_RECHECK:
        hf__sq_recheck(s, op);
        return;
    case HF_OP_LIST:
        hf__sq_list(s, op);
        return;
    case HF_OP_PUBLISH:
        hf__sq_write(s, op, hf__sq_publish);
        return;
    case HF_OP_EVICT:
        hf__sq_write(s, op, hf__sq_evict);
        return;
    case HF_OP_PROBE:
        hf__sq_probe(s, op);
        return;
    }
    hfd_finish(op, HF_NOT_APPLIED, HF_ENOTSUP);
}

static int sqlite_fd(hf_store *s)
{
    return s->epoll_fd;
}

static void sqlite_dispatch(hf_store *s)
{
    hf__sq_watch_dispatch(s);
}

static void sqlite_park(hf_store *s, const hf_place *place, hf_nsec until)
{
    uint32_t word = (uint32_t)(place->own[1] >> 32) % SQ_WORDS;

    hf__sq_letter_await(s, s->slot * SQ_WORDS + word, (uint32_t)place->own[1],
                        until);
}

static void sqlite_unpark(hf_store *s, const hf_place *place)
{
    uint32_t word = (uint32_t)(place->own[1] >> 32) % SQ_WORDS;

    hf__sq_futex_bump(hf__sq_word(s, s->slot * SQ_WORDS + word));
}

static int sqlite_life_fd(hf_store *s)
{
    return s->side_fd;
}

extern const hf_driver hf__driver_sqlite;
const hf_driver hf__driver_sqlite = {
    HF_DRIVER_HEAD,
    .name = "sqlite",
    .schemes = "sqlite",
    .options = option_names,
    .open = sqlite_open,
    .close = sqlite_close,
    .abandon = sqlite_abandon,
    .start = sqlite_start,
    .fd = sqlite_fd,
    .dispatch = sqlite_dispatch,
    .park = sqlite_park,
    .unpark = sqlite_unpark,
    .life_fd = sqlite_life_fd,
};
