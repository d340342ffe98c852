/* grpc_dial.c - when a connection is opened, to which member, and by whom.
 *
 * Answers: who dials, and what happens to the others meanwhile?  A caller who
 * waits anyway dials on his own thread; for calls that nobody drives, for
 * streams that were lost, and where there is a login, which may take longer
 * than a caller has, there is a thread that exists while something is to be
 * dialled.  So the keeper never waits for a name server.  Knows nothing of
 * answers.
 *
 * The members are tried in turn, each with a fair share of the time, beginning
 * behind the one whose connection was lost.  A connection stands when the other
 * side has said its first word of HTTP/2 and, with a user, has given a token:
 * a member that is stopped accepts connections, too, and says nothing.
 *
 * One connection is opened at a time; who comes meanwhile waits for it, at most
 * until his own deadline.  After a failure nobody tries for a while, longer
 * each time and by chance, so that a thousand clients do not fall on a cluster
 * that comes back.  An attempt that ended only because its caller's time was
 * short says nothing about the members and holds up nobody.  Nothing is sent
 * here but greeting and login, so nothing can be lost. */
#include <linux/futex.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "grpc_inside.h"

enum { BACKOFF_MS = 50, BACKOFF_MAX_MS = 500, SLICE_MS = 250 };

/* ---- Sleeping ---- */

void grpc_futex_sleep(atomic_uint *word, unsigned seen, hf_nsec until)
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

void grpc_futex_ring(atomic_uint *word)
{
    atomic_fetch_add(word, 1);
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

void grpc_backoff_more(grpc_backoff *backoff)
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

/* ---- One member ---- */

static int greet(grpc_conn *conn, hf_nsec deadline, hf_error *err)
{
    hf_error why = {0};
    int code = 0;

    if (conn->channel->user[0]) {
        code = grpc_auth_first(conn, deadline, &why);
    } else {
        grpc_conn_flush(conn);
        if (!hf__pipe_wait(conn->pipe, &conn->hello, deadline))
            code = hfd_error(&why, HF_EUNAVAIL, "etcd", 0,
                             "%s: connected, but the member says nothing",
                             conn->where);
    }
    if (code == 0 && conn->broken) {
        why = conn->why;
        code = why.code;
    }
    if (code != 0) {
        hf__pipe_cut(conn->pipe, &why);
        if (err)
            *err = why;
    }
    return code;
}

int grpc_dial_member(grpc_conn **ret, grpc_channel *channel, size_t i,
                     hf_nsec deadline, hf_error *err)
{
    grpc_conn *conn = NULL;
    hf__link *link = NULL;
    int code = hf__dial(&link, &channel->addresses[i], 1, 0, NULL, channel->tls,
                        deadline, err);

    if (code == 0)
        code = grpc_conn_new(&conn, channel, link, i, err);
    if (code != 0)
        return code;
    code = greet(conn, deadline, err);
    if (code != 0) {
        grpc_conn_drop(conn);
        return code;
    }
    *ret = conn;
    return 0;
}

/* ---- Whichever answers ---- */

/* Texts of several attempts, one behind the other, as far as there is room. */
static void add_text(char *all, size_t room, const char *text)
{
    size_t used = strlen(all);
    const char *parts[] = {used > 0 ? "; " : "", text};

    for (unsigned i = 0; i < 2; i++) {
        for (const char *at = parts[i]; *at && used + 1 < room; at++)
            all[used++] = *at;
    }
    all[used] = '\0';
}

static int dial_any(grpc_conn **ret, grpc_channel *channel, size_t first,
                    hf_nsec deadline, hf_error *err)
{
    size_t n = channel->address_count;
    char all[sizeof err->text] = "";
    int code = HF_EUNAVAIL, native = 0;

    for (size_t i = 0; i < n; i++) {
        hf_nsec now = hfd_now();
        hf_error why = {0};
        int rc =
            grpc_dial_member(ret, channel, (first + i) % n,
                             now + (deadline - now) / (hf_nsec)(n - i), &why);

        if (rc == 0)
            return 0;
        /* A refused login or certificate is what somebody has to act on. */
        if (code != HF_EAUTH) {
            code = rc;
            native = why.native;
        }
        add_text(all, sizeof all, why.text);
    }
    return hfd_error(err, code, "etcd", native, "%s",
                     n ? all : "there is no address to connect to");
}

/* It is the current one from now on; with mu held.  The reference is the
 * channel's.  *ret_attention: what the pipe is to be told. */
static bool place(grpc_channel *channel, grpc_conn *conn, int *ret_attention)
{
    if (conn->broken || conn->retired || channel->current || channel->closing)
        return false;
    conn->used = hfd_now();
    channel->current = conn;
    channel->stood++;
    channel->which = conn->which;
    channel->wanted = false;
    *ret_attention = channel->attention;
    memset(&channel->backoff, 0, sizeof channel->backoff);
    return true;
}

/* A connection stands: who waited for it goes on. */
static void tell_standing(grpc_channel *channel, grpc_conn *conn, int attention,
                          bool first)
{
    if (attention != 0)
        hf__pipe_attend(conn->pipe, attention);
    grpc_stir(channel, NULL);
    if (!first)
        channel->listener.standing(channel->listener.ctx);
}

int grpc_dial(grpc_channel *channel, hf_nsec deadline, bool first,
              hf_error *err)
{
    /* Was this attempt as long as they get? */
    bool whole = deadline + HF_MS(1) >= hfd_now() + channel->dial_time;
    size_t which = channel->which;
    grpc_conn *conn = NULL;
    hf_error why = {0};
    bool failed = false, placed = false;
    int code, attention = 0;

    channel->dialing = true;
    grpc_unlock(channel);
    code = dial_any(&conn, channel, which, deadline, &why);
    grpc_lock(channel);
    channel->dialing = false;
    if (conn) {
        conn->refs++; /* ours, while we tell */
        placed = place(channel, conn, &attention);
    } else if (whole || hfd_now() < deadline) {
        failed = true;
        channel->failure = why;
        channel->which = which + 1;
        grpc_backoff_more(&channel->backoff);
    } else if (channel->line.first) {
        failed = grpc_dial_summon(channel) != 0;
    }
    grpc_unlock(channel);
    grpc_futex_ring(&channel->turn);
    if (placed)
        tell_standing(channel, conn, attention, first);
    if (conn && !placed)
        grpc_conn_drop(conn);
    if (conn)
        grpc_conn_drop(conn);
    if (code == 0 || failed)
        grpc_move_line(channel, code == 0 ? NULL : &why);
    if (code != 0 && err)
        *err = why;
    return code;
}

/* ---- The thread ---- */

static bool is_wanted(const grpc_channel *channel)
{
    return !channel->dialing && !channel->current &&
           (channel->wanted || channel->line.first || channel->waiting > 0);
}

static void *run_dialer(void *arg)
{
    grpc_channel *channel = arg;

    grpc_lock(channel);
    while (!channel->closing && is_wanted(channel)) {
        unsigned seen = atomic_load(&channel->bell);
        hf_nsec now = hfd_now(), until = channel->backoff.until;

        if (now >= until) {
            grpc_dial(channel, now + channel->dial_time, false, NULL);
        } else {
            grpc_unlock(channel);
            grpc_futex_sleep(&channel->bell, seen, until);
        }
        grpc_lock(channel);
    }
    channel->dialer_runs = false;
    grpc_unlock(channel);
    return NULL;
}

int grpc_dial_summon(grpc_channel *channel)
{
    sigset_t all, old;
    int code;

    if (channel->closing)
        return 0;
    if (channel->dialer_runs) {
        grpc_futex_ring(&channel->bell);
        return 0;
    }
    /* The one before has said that it ends, and needs no lock for that. */
    if (channel->dialer_joinable)
        pthread_join(channel->dialer, NULL);
    channel->dialer_joinable = false;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    code = pthread_create(&channel->dialer, NULL, run_dialer, channel);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (code != 0)
        return HF_ENOMEM;
    channel->dialer_runs = channel->dialer_joinable = true;
    return 0;
}

void grpc_dial_stop(grpc_channel *channel)
{
    bool joinable;

    grpc_lock(channel);
    channel->closing = true;
    joinable = channel->dialer_joinable;
    channel->dialer_joinable = false;
    grpc_unlock(channel);
    grpc_futex_ring(&channel->bell);
    if (joinable)
        pthread_join(channel->dialer, NULL);
}
