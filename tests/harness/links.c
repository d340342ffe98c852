/* links.c - TCP links that a test can hold and cut.
 *
 * One thread polls all sockets.  The caller's wishes are flags under a mutex
 * that the thread takes for each round; an eventfd wakes it.  A side is read
 * only when what was read before has gone to the other side, so that a peer
 * which stands still blocks nobody else.  A held connection is simply not
 * looked at: its bytes stay in the kernel, and flow when it is let go, in their
 * order, as TCP promises. */
#include "harness/links.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness/expect.h"

enum { LINKS_MAX = 16, CONNS_MAX = 160, NAMES_MAX = 4, CHUNK = 16384 };

typedef struct conn {
    int fds[2]; /* who came, whom he wants; -1: free */
    int link;
    bool named;
    char name[40];
    char bytes[2][CHUNK]; /* read from fds[i], not yet with the other */
    size_t from[2], to[2];
} conn;

typedef struct one_link {
    int listener, port, to_port;
    bool held, refuses, cut;
} one_link;

struct links {
    pthread_t thread;
    pthread_mutex_t mutex;
    int wake;
    bool stop;
    char mark[40];
    one_link each[LINKS_MAX];
    int count;
    char held[NAMES_MAX][40];
    conn *conns[CONNS_MAX];
    int used; /* no connection stands at this place or behind it */
};

/* ---- Sockets ------------------------------------------------------------ */

static int connect_to(int port)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

    EXPECT(fd >= 0);
    /* On the loopback this is answered at once, also by a paused server. */
    if (connect(fd, (struct sockaddr *)&to, sizeof to) != 0) {
        close(fd);
        return -1;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    EXPECT(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
    return fd;
}

static void reset(int fd)
{
    struct linger now = {1, 0};

    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(fd);
}

static void end_conn(links *l, int i)
{
    conn *c = l->conns[i];

    reset(c->fds[0]);
    reset(c->fds[1]);
    free(c);
    l->conns[i] = NULL;
}

static void accept_one(links *l, int link)
{
    one_link *k = &l->each[link];
    int one = 1, fd, i = 0;
    int on;

    fd = accept4(k->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    on = k->refuses ? -1 : connect_to(k->to_port);
    if (on < 0) {
        reset(fd);
        return;
    }
    while (i < CONNS_MAX && l->conns[i])
        i++;
    if (i == CONNS_MAX)
        FAIL_TEST("the links have no room");
    l->conns[i] = calloc(1, sizeof *l->conns[i]);
    EXPECT(l->conns[i] != NULL);
    l->used = i >= l->used ? i + 1 : l->used;
    l->conns[i]->fds[0] = fd;
    l->conns[i]->fds[1] = on;
    l->conns[i]->link = link;
    l->conns[i]->named = l->mark[0] == '\0';
}

/* ---- Carrying ----------------------------------------------------------- */

/* Who is it?  Known once the mark, or the end of the head, has come. */
static void find_name(links *l, conn *c)
{
    char head[2048];
    ssize_t n = recv(c->fds[0], head, sizeof head - 1, MSG_PEEK);
    const char *at;

    if (n <= 0) {
        c->named = true; /* the end is carried like anything else */
        return;
    }
    head[n] = '\0';
    at = strstr(head, l->mark);
    if (at) {
        at += strlen(l->mark);
        snprintf(c->name, sizeof c->name, "%.*s", (int)strcspn(at, "\r\n "),
                 at);
    }
    c->named = at || strstr(head, "\r\n\r\n") || n == sizeof head - 1;
}

static bool is_held(const links *l, const conn *c)
{
    if (l->each[c->link].held)
        return true;
    for (int i = 0; i < NAMES_MAX; i++) {
        if (c->name[0] && strcmp(l->held[i], c->name) == 0)
            return true;
    }
    return false;
}

/* What this side said to the other; false: the connection is over. */
static bool carry(conn *c, int side)
{
    ssize_t n;

    if (c->from[side] == c->to[side]) {
        n = read(c->fds[side], c->bytes[side], CHUNK);
        if (n <= 0)
            return n < 0 && (errno == EAGAIN || errno == EINTR);
        c->from[side] = 0;
        c->to[side] = (size_t)n;
    }
    n = send(c->fds[1 - side], c->bytes[side] + c->from[side],
             c->to[side] - c->from[side], MSG_NOSIGNAL);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    c->from[side] += (size_t)n;
    return true;
}

static short wants(const conn *c, int side)
{
    bool full = c->from[side] != c->to[side];
    bool pending = c->from[1 - side] != c->to[1 - side];

    return (short)((full ? 0 : POLLIN) | (pending ? POLLOUT : 0));
}

static void serve(links *l, int i, const struct pollfd *polled)
{
    conn *c = l->conns[i];
    bool lives = true;

    if (is_held(l, c))
        return;
    if (!c->named && polled[0].revents) {
        find_name(l, c);
        if (!c->named || is_held(l, c))
            return;
    }
    for (int side = 0; side < 2 && lives; side++) {
        if ((polled[side].revents & ~POLLOUT) || c->from[side] != c->to[side])
            lives = carry(c, side);
    }
    if (!lives)
        end_conn(l, i);
}

/* ---- The thread --------------------------------------------------------- */

typedef struct round {
    struct pollfd fds[1 + LINKS_MAX + 2 * CONNS_MAX];
} round;

/* A negative descriptor is not looked at: of what is free, and what is held.
 * How many there are. */
static nfds_t prepare(links *l, round *r)
{
    struct pollfd *at = r->fds;

    *at++ = (struct pollfd){.fd = l->wake, .events = POLLIN};
    for (int i = 0; i < LINKS_MAX; i++) {
        bool on = i < l->count && !l->each[i].held;

        *at++ = (struct pollfd){.fd = on ? l->each[i].listener : -1,
                                .events = POLLIN};
    }
    while (l->used > 0 && !l->conns[l->used - 1])
        l->used--;
    for (int i = 0; i < l->used; i++) {
        conn *c = l->conns[i];
        bool on = c && !is_held(l, c);

        for (int side = 0; side < 2; side++)
            *at++ = (struct pollfd){.fd = on ? c->fds[side] : -1,
                                    .events = on ? wants(c, side) : 0};
    }
    return (nfds_t)(at - r->fds);
}

static void do_round(links *l, const round *r)
{
    const struct pollfd *conns = r->fds + 1 + LINKS_MAX;
    uint64_t said;

    if (r->fds[0].revents)
        EXPECT(read(l->wake, &said, sizeof said) == sizeof said);
    for (int i = 0; i < l->used; i++) {
        if (l->conns[i] && l->each[l->conns[i]->link].cut)
            end_conn(l, i);
        else if (l->conns[i] &&
                 (conns[2 * i].revents || conns[2 * i + 1].revents))
            serve(l, i, conns + 2 * i);
    }
    for (int i = 0; i < l->count; i++) {
        l->each[i].cut = false;
        if (r->fds[1 + i].revents && !l->each[i].held)
            accept_one(l, i);
    }
}

static void *run_links(void *arg)
{
    links *l = arg;
    round *r = calloc(1, sizeof *r);
    bool stop = false;
    nfds_t count;

    EXPECT(r != NULL);
    while (!stop) {
        pthread_mutex_lock(&l->mutex);
        count = prepare(l, r);
        pthread_mutex_unlock(&l->mutex);
        poll(r->fds, count, -1);
        pthread_mutex_lock(&l->mutex);
        do_round(l, r);
        stop = l->stop;
        pthread_mutex_unlock(&l->mutex);
    }
    free(r);
    return NULL;
}

/* ---- The caller's side -------------------------------------------------- */

links *links_start(const char *mark)
{
    links *l = calloc(1, sizeof *l);

    EXPECT(l != NULL);
    snprintf(l->mark, sizeof l->mark, "%s", mark ? mark : "");
    l->wake = eventfd(0, EFD_CLOEXEC);
    EXPECT(l->wake >= 0);
    EXPECT(pthread_mutex_init(&l->mutex, NULL) == 0);
    EXPECT(pthread_create(&l->thread, NULL, run_links, l) == 0);
    return l;
}

/* With the mutex held; returns without it, the thread awake. */
static void tell(links *l)
{
    uint64_t one = 1;

    pthread_mutex_unlock(&l->mutex);
    EXPECT(write(l->wake, &one, sizeof one) == sizeof one);
}

void links_stop(links *l)
{
    if (!l)
        return;
    pthread_mutex_lock(&l->mutex);
    l->stop = true;
    tell(l);
    pthread_join(l->thread, NULL);
    for (int i = 0; i < CONNS_MAX; i++) {
        if (l->conns[i])
            end_conn(l, i);
    }
    for (int i = 0; i < l->count; i++)
        close(l->each[i].listener);
    close(l->wake);
    pthread_mutex_destroy(&l->mutex);
    free(l);
}

int links_add(links *l, int to_port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int link;

    EXPECT(fd >= 0);
    EXPECT(bind(fd, (struct sockaddr *)&at, sizeof at) == 0);
    EXPECT(listen(fd, 64) == 0);
    EXPECT(getsockname(fd, (struct sockaddr *)&at, &len) == 0);
    pthread_mutex_lock(&l->mutex);
    link = l->count++;
    EXPECT(link < LINKS_MAX);
    l->each[link] = (one_link){
        .listener = fd, .port = ntohs(at.sin_port), .to_port = to_port};
    tell(l);
    return link;
}

int links_port(links *l, int link)
{
    return l->each[link].port;
}

void links_hold(links *l, int link, bool on)
{
    pthread_mutex_lock(&l->mutex);
    l->each[link].held = on;
    tell(l);
}

void links_hold_named(links *l, const char *name, bool on)
{
    int at = 0;

    EXPECT(name[0] != '\0');
    pthread_mutex_lock(&l->mutex);
    while (at < NAMES_MAX && strcmp(l->held[at], on ? "" : name) != 0)
        at++;
    EXPECT(at < NAMES_MAX);
    snprintf(l->held[at], sizeof l->held[at], "%s", on ? name : "");
    tell(l);
}

void links_cut(links *l, int link)
{
    pthread_mutex_lock(&l->mutex);
    l->each[link].cut = true;
    tell(l);
}

void links_refuse(links *l, int link, bool on)
{
    pthread_mutex_lock(&l->mutex);
    l->each[link].refuses = on;
    tell(l);
}

int links_open(links *l, int link)
{
    int open = 0;

    pthread_mutex_lock(&l->mutex);
    for (int i = 0; i < CONNS_MAX; i++)
        open += l->conns[i] && l->conns[i]->link == link;
    pthread_mutex_unlock(&l->mutex);
    return open;
}
