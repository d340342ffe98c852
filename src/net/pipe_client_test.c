/* pipe_client_test.c - the peer and the client of the pipe's tests. */
#include "harness/expect.h"
#include "harness/runner.h"

#include <arpa/inet.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/pipe_client.h"

/* ---- The peer ---- */

static void peer_answer(peer *p, long number, unsigned *seed)
{
    char text[32];
    int len = snprintf(text, sizeof text, "%ld\n", number);

    if (p->each_us) {
        struct timespec ts = {0, 1000L * (rand_r(seed) % p->each_us)};

        nanosleep(&ts, NULL);
    }
    /* It may be gone, which the reads will tell. */
    (void)!send(p->fd, text, (size_t)len, MSG_NOSIGNAL);
}

static void *peer_run(void *arg)
{
    peer *p = arg;
    static char bytes[65536];
    char digits[32];
    size_t have = 0;
    unsigned seed = 7;
    long answered = 0;
    ssize_t got;

    p->fd = accept(p->server, NULL, NULL);
    test_sleep_ms(p->first_ms);
    while ((got = recv(p->fd, bytes, sizeof bytes, 0)) > 0) {
        for (ssize_t i = 0; i < got; i++) {
            if (bytes[i] != '\n') {
                if (have < sizeof digits - 1)
                    digits[have++] = bytes[i];
                continue;
            }
            digits[have] = 0;
            have = 0;
            if (p->last_word) {
                (void)!send(p->fd, p->last_word, strlen(p->last_word), 0);
                close(p->fd);
                return NULL;
            }
            peer_answer(p, strtol(digits, NULL, 10), &seed);
            if (++answered == p->hold_after)
                EXPECT(WAIT_FOR(atomic_load(&p->go), 20000));
        }
    }
    close(p->fd);
    return NULL;
}

void peer_start(peer *p)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;

    p->server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(bind(p->server, (struct sockaddr *)&at, len), 0);
    EXPECT_EQ(listen(p->server, 4), 0);
    EXPECT_EQ(getsockname(p->server, (struct sockaddr *)&at, &len), 0);
    p->port = ntohs(at.sin_port);
    EXPECT_EQ(pthread_create(&p->thread, NULL, peer_run, p), 0);
}

void peer_stop(peer *p)
{
    pthread_join(p->thread, NULL);
    close(p->server);
}

/* ---- The client: a pipe and the line of those who expect an answer ---- */

static void finish(client *c, call *who)
{
    if (who->attended) {
        hf__pipe_attend(c->pipe, -1);
        atomic_fetch_add(&c->attended, 1);
        free(who);
    } else {
        hf__pipe_wake(c->pipe, &who->waiter);
    }
}

static call *take_first(client *c)
{
    call *who;

    pthread_mutex_lock(&c->mu);
    who = c->first;
    if (who) {
        c->first = who->next;
        if (!c->first)
            c->last = &c->first;
    }
    pthread_mutex_unlock(&c->mu);
    return who;
}

static ssize_t received(void *ctx, const char *bytes, size_t len, hf_error *err)
{
    client *c = ctx;
    const char *at = bytes, *end;

    EXPECT_EQ(atomic_load(&c->broken), 0);
    while ((end = memchr(at, '\n', len - (size_t)(at - bytes)))) {
        call *who;

        if (*at == '!')
            return hfd_error(err, HF_EPROTO, "test", 0, "not the protocol");
        who = take_first(c);
        EXPECT(who != NULL);
        EXPECT_EQ(strtol(*at == ':' ? at + 1 : at, NULL, 10), who->number);
        atomic_fetch_add(&c->answers, 1);
        finish(c, who);
        at = end + 1;
    }
    return at - bytes;
}

static void broken(void *ctx, const hf_error *why)
{
    client *c = ctx;
    call *who;

    c->why = *why;
    EXPECT_EQ(atomic_fetch_add(&c->broken, 1), 0);
    EXPECT(hf__pipe_begin(c->pipe) == NULL);
    while ((who = take_first(c)))
        finish(c, who);
}

static void *keep_run(void *arg)
{
    client *c = arg;
    struct epoll_event event;

    while (!atomic_load(&c->stop)) {
        if (epoll_wait(c->epoll_fd, &event, 1, 20) == 1)
            hf__pipe_dispatch(event.data.ptr ? c->pipe : NULL);
    }
    return NULL;
}

void client_open(client *c, const hf__address *address, hf__tls *tls,
                 bool patient)
{
    hf__pipe_user user = {c, received, broken};
    hf__link *link = NULL;
    hf_error err = {0};

    if (!c->format)
        c->format = "%ld%s\n";
    pthread_mutex_init(&c->mu, NULL);
    c->last = &c->first;
    c->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    EXPECT_OK(hf__dial(&link, address, 1, 0, NULL, tls,
                       hfd_now() + HF_MS(10000), &err),
              err);
    EXPECT_OK(
        hf__pipe_new(&c->pipe, link, &user, patient, c->epoll_fd, c, &err),
        err);
}

void client_to(client *c, peer *p, bool patient)
{
    hf__address address = {.host = "127.0.0.1"};

    peer_start(p);
    address.port = p->port;
    client_open(c, &address, NULL, patient);
}

void client_close(client *c)
{
    hf__pipe_free(c->pipe, true);
    close(c->epoll_fd);
    pthread_mutex_destroy(&c->mu);
    EXPECT(c->first == NULL);
}

bool ask(client *c, call *who, long number, const char *more)
{
    hf__buf *out;
    static const char blank[] = "";
    char text[64];
    int len;

    who->number = number;
    out = hf__pipe_begin(c->pipe);
    if (!out)
        return false;
    len = snprintf(text, sizeof text, c->format, number, blank);
    if (more)
        len = snprintf(text, sizeof text, "%ld ", number);
    hf__buf_add(out, text, (size_t)len);
    if (more) {
        hf__buf_add(out, more, strlen(more));
        hf__buf_add(out, "\n", 1);
    }
    pthread_mutex_lock(&c->mu);
    who->next = NULL;
    *c->last = who;
    c->last = &who->next;
    pthread_mutex_unlock(&c->mu);
    hf__pipe_end(c->pipe);
    return true;
}

void ask_attended(client *c, long number)
{
    call *who = calloc(1, sizeof *who);

    who->attended = true;
    hf__pipe_attend(c->pipe, 1);
    EXPECT(ask(c, who, number, NULL));
}

void keeper_start(client *c)
{
    EXPECT_EQ(pthread_create(&c->keeper, NULL, keep_run, c), 0);
}

void keeper_stop(client *c)
{
    atomic_store(&c->stop, true);
    pthread_join(c->keeper, NULL);
}

/* ---- A wait on a thread of its own ---- */

static void *wait_run(void *arg)
{
    waiting *w = arg;

    w->answer = hf__pipe_wait(w->c->pipe, &w->mine.waiter, w->until);
    atomic_store(&w->done, true);
    return NULL;
}

void wait_start(waiting *w, client *c, int ms)
{
    w->c = c;
    w->until = hfd_now() + HF_MS(ms);
    EXPECT_EQ(pthread_create(&w->thread, NULL, wait_run, w), 0);
    test_sleep_ms(20); /* it reads or sleeps by now; either is right */
}
