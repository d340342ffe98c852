/* relay.c - TCP links that misbehave on command, whatever the bytes mean.
 *
 *     campaign_relay [--mark TEXT] TO_PORT...
 *
 * Prints `ports P...`: a loopback port per link, in the same order.  Then one
 * command per line of its input (relay_words.c), each answered `ok N` (N:
 * strikes that have hit so far).  A connection has a name if it is not a
 * client's: the word behind the mark in its first bytes, or its address, if not
 * 127.0.0.1.  One thread, no lock: it sleeps in poll; it ends with its
 * input. */
#include "relay.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* Nobody speaks for so long: between two commands. */
#define QUIET INT64_C(20000000)

link_state relay_links[LINKS];
int relay_link_count;
conn relay_conns[CONNS];
char relay_held_names[NAMES][40];
unsigned relay_struck;
static const char *mark;
static uint64_t chance = 88172645463325252U;

int64_t relay_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* ---- A connection ------------------------------------------------------- */

void relay_end(conn *c, bool reset)
{
    struct linger now = {1, 0};

    if (reset) /* the client is told at once; the server does what it has */
        setsockopt(c->fd[0], SOL_SOCKET, SO_LINGER, &now, sizeof now);
    for (int way = 0; way < 2; way++) {
        while (c->first[way]) {
            chunk *next = c->first[way]->next;

            free(c->first[way]);
            c->first[way] = next;
        }
        close(c->fd[way]);
    }
    memset(c, 0, sizeof *c);
    c->fd[0] = c->fd[1] = -1;
}

static bool is_held(const conn *c, int way)
{
    const link_state *l = &relay_links[c->link];

    if (l->hold[way] || (c->name[0] ? l->apart : l->front[way]))
        return true;
    for (int i = 0; c->name[0] && i < NAMES; i++) {
        if (strcmp(relay_held_names[i], c->name) == 0)
            return true;
    }
    return false;
}

static void take_name(conn *c, const char *bytes, size_t len)
{
    const char *at = mark ? memmem(bytes, len, mark, strlen(mark)) : NULL;
    size_t n = 0;

    c->seen = true;
    if (!at || c->name[0])
        return;
    for (at += strlen(mark);
         at + n < bytes + len && at[n] > ' ' && n + 1 < sizeof c->name; n++)
        c->name[n] = at[n];
}

/* ---- Is something under way? -------------------------------------------- */

static void end_part(passed *p)
{
    p->whole += --p->parts == 0;
}

/* A line of Redis's protocol, which says what follows. */
static void take_line(passed *p)
{
    long number = strtol(p->line + 1, NULL, 10);

    if (p->parts == 0)
        p->parts = 1;
    if (p->line[0] == '$' && number >= 0) {
        p->skip = (size_t)number + 2;
        return;
    }
    if (p->line[0] == '*' && number > 0)
        p->parts += number;
    end_part(p);
}

static void count_passed(passed *p, const char *bytes, size_t len)
{
    while (len > 0) {
        size_t n = p->skip < len ? p->skip : len;

        if (n > 0) {
            p->skip -= n;
            if (p->skip == 0)
                end_part(p);
        } else {
            n = 1;
            if (p->len + 1 < sizeof p->line)
                p->line[p->len++] = *bytes;
            if (*bytes == '\n') {
                p->line[p->len] = '\0';
                p->len = 0;
                take_line(p);
            }
        }
        bytes += n;
        len -= n;
    }
}

/* The server spoke last, some time ago, and, where that can be told, has
 * answered everything: this is between two commands. */
static bool is_quiet(const conn *c, int64_t now)
{
    return !c->dialling && !c->first[UP] && !c->first[DOWN] && c->way == DOWN &&
           (!c->redis || c->passed[DOWN].whole >= c->passed[UP].whole) &&
           now - c->moved >= QUIET;
}

/* ---- Its bytes ---------------------------------------------------------- */

static void queue_bytes(conn *c, int way, const char *bytes, size_t len)
{
    const link_state *l = &relay_links[c->link];
    chunk *piece = malloc(sizeof *piece + len);
    int64_t delay = l->delay_ms;

    if (!piece)
        abort();
    chance ^= chance << 13;
    chance ^= chance >> 7;
    chance ^= chance << 17;
    if (l->jitter_ms > 0)
        delay += (int64_t)((chance >> 16) % (uint64_t)l->jitter_ms);
    *piece = (chunk){.due = relay_now() + delay * 1000000, .len = len};
    memcpy(piece->bytes, bytes, len);
    if (c->last[way] && c->first[way])
        c->last[way]->next = piece;
    else
        c->first[way] = piece;
    c->last[way] = piece;
    c->queued[way] += len;
    c->moved = relay_now();
    c->way = way;
    c->redis |= way == UP && bytes[0] == '*';
    if (c->redis)
        count_passed(&c->passed[way], bytes, len);
}

/* What is left of these bytes after a strike: how many. */
static size_t strike_bytes(conn *c, int way, char *bytes, size_t len)
{
    int how = relay_links[c->link].strike[way];

    relay_links[c->link].strike[way] = 0;
    relay_struck += how != 0;
    if (how == NOISE)
        memset(bytes, 0xff, len);
    if (how == HALF)
        c->ended[way] = true;
    return how == CUT ? 0 : how == HALF ? len / 2 : len;
}

/* False: the connection is gone. */
static bool fill(conn *c, int way)
{
    char bytes[16384];
    ssize_t n = recv(c->fd[way], bytes, sizeof bytes, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (n < 0) {
        relay_end(c, true);
        return false;
    }
    if (n == 0) {
        c->ended[way] = true;
        return true;
    }
    if (way == UP && !c->seen)
        take_name(c, bytes, (size_t)n);
    n = (ssize_t)strike_bytes(c, way, bytes, (size_t)n);
    if (n > 0)
        queue_bytes(c, way, bytes, (size_t)n);
    else if (!c->ended[way])
        relay_end(c, true);
    return c->fd[0] >= 0;
}

static bool drain(conn *c, int way)
{
    while (c->first[way] && c->first[way]->due <= relay_now()) {
        chunk *piece = c->first[way];
        ssize_t n = send(c->fd[1 - way], piece->bytes + piece->sent,
                         piece->len - piece->sent, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return true;
        if (n < 0) {
            relay_end(c, true);
            return false;
        }
        c->moved = relay_now();
        piece->sent += (size_t)n;
        c->queued[way] -= (size_t)n;
        if (piece->sent < piece->len)
            return true;
        c->first[way] = piece->next;
        if (!c->first[way])
            c->last[way] = NULL;
        free(piece);
    }
    if (!c->first[way] && c->ended[way]) {
        relay_end(c, false);
        return false;
    }
    return true;
}

static void dial(conn *c, int to_port)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)to_port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1;

    c->fd[1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (c->fd[1] < 0)
        abort();
    setsockopt(c->fd[1], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    c->dialling = true;
    if (connect(c->fd[1], (struct sockaddr *)&to, sizeof to) != 0 &&
        errno != EINPROGRESS)
        relay_end(c, true);
}

static void accept_one(int which)
{
    link_state *l = &relay_links[which];
    struct sockaddr_in from = {0};
    socklen_t len = sizeof from;
    int fd = accept4(l->listener, (struct sockaddr *)&from, &len,
                     SOCK_CLOEXEC | SOCK_NONBLOCK);
    int one = 1;
    conn *c = relay_conns;

    if (fd < 0)
        return;
    while (c < relay_conns + CONNS && c->fd[0] >= 0)
        c++;
    if (c == relay_conns + CONNS || l->refuse) {
        close(fd);
        return;
    }
    memset(c, 0, sizeof *c);
    c->link = which;
    c->fd[0] = fd;
    if (ntohl(from.sin_addr.s_addr) != INADDR_LOOPBACK)
        inet_ntop(AF_INET, &from.sin_addr, c->name, sizeof c->name);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    dial(c, l->to_port);
}

/* ---- The loop ----------------------------------------------------------- */

static short wanted(const conn *c, int side, int64_t *due)
{
    int out = 1 - side; /* the way whose bytes go out at this side */
    short events = 0;

    if (side == 1 && c->dialling)
        return POLLOUT;
    if (!is_held(c, side) && !c->ended[side] && c->queued[side] < QUEUE_MOST)
        events |= POLLIN;
    if (c->first[out] && !is_held(c, out)) {
        if (c->first[out]->due <= relay_now())
            events |= POLLOUT;
        else if (c->first[out]->due < *due)
            *due = c->first[out]->due;
    }
    return events;
}

static void serve_conn(conn *c, short client, short server)
{
    int fail = 0;
    socklen_t len = sizeof fail;

    if (c->dialling && server) {
        getsockopt(c->fd[1], SOL_SOCKET, SO_ERROR, &fail, &len);
        c->dialling = false;
        if (fail != 0) {
            relay_end(c, true);
            return;
        }
    }
    /* A way that is held learns nothing, not even of an end. */
    if ((client & (POLLIN | POLLERR | POLLHUP)) && !is_held(c, UP) &&
        !c->ended[UP] && !fill(c, UP))
        return;
    if ((server & (POLLIN | POLLERR | POLLHUP)) && !is_held(c, DOWN) &&
        !c->ended[DOWN] && !c->dialling && !fill(c, DOWN))
        return;
    if (!c->dialling && !is_held(c, UP) && !drain(c, UP))
        return;
    if (!is_held(c, DOWN))
        drain(c, DOWN);
}

/* When it is due; INT64_MAX: nothing is. */
static int64_t swap_conn(conn *c, int64_t now)
{
    int to_port = c->swap_port;

    if (c->fd[0] < 0 || to_port == 0)
        return INT64_MAX;
    if (is_quiet(c, now)) {
        c->swap_port = 0;
        memset(c->passed, 0, sizeof c->passed);
        close(c->fd[1]);
        c->ended[DOWN] = false;
        dial(c, to_port);
    } else if (now >= c->swap_by) {
        relay_end(c, true);
    } else {
        return now + QUIET / 4;
    }
    return INT64_MAX;
}

static bool step(void)
{
    static struct pollfd fds[1 + LINKS + 2 * CONNS];
    int64_t due = INT64_MAX, now;
    int timeout = -1;

    fds[0] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
    for (int i = 0; i < LINKS; i++)
        fds[1 + i] = (struct pollfd){.fd = i < relay_link_count &&
                                                   !relay_links[i].hold[UP]
                                               ? relay_links[i].listener
                                               : -1,
                                     .events = POLLIN};
    now = relay_now();
    for (int i = 0; i < CONNS; i++) {
        int64_t then = swap_conn(&relay_conns[i], now);

        due = then < due ? then : due;
    }
    for (int i = 0; i < 2 * CONNS; i++) {
        conn *c = &relay_conns[i / 2];
        struct pollfd *p = &fds[1 + LINKS + i];

        *p = (struct pollfd){.fd = -1};
        if (c->fd[0] < 0)
            continue;
        p->events = wanted(c, i % 2, &due);
        /* Without a wish an ended socket would wake us again and again. */
        p->fd = p->events ? c->fd[i % 2] : -1;
    }
    now = relay_now();
    if (due != INT64_MAX)
        timeout = due > now ? (int)((due - now) / 1000000) + 1 : 0;
    if (poll(fds, sizeof fds / sizeof *fds, timeout) < 0 && errno != EINTR)
        return false;
    if (fds[0].revents && !relay_read_words())
        return false;
    for (int i = 0; i < CONNS; i++) {
        if (relay_conns[i].fd[0] >= 0)
            serve_conn(&relay_conns[i], fds[1 + LINKS + 2 * i].revents,
                       fds[2 + LINKS + 2 * i].revents);
    }
    for (int i = 0; i < relay_link_count; i++) {
        if (fds[1 + i].revents)
            accept_one(i);
    }
    return true;
}

static void add_link(int to_port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    link_state *l = &relay_links[relay_link_count++];
    socklen_t len = sizeof at;

    l->to_port = to_port;
    l->listener =
        socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (l->listener < 0 ||
        bind(l->listener, (struct sockaddr *)&at, sizeof at) != 0 ||
        listen(l->listener, 128) != 0 ||
        getsockname(l->listener, (struct sockaddr *)&at, &len) != 0) {
        perror("relay");
        exit(1);
    }
    l->port = ntohs(at.sin_port);
}

int main(int argc, char **argv)
{
    int first = 1;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGPIPE, SIG_IGN);
    if (argc > 2 && strcmp(argv[1], "--mark") == 0) {
        mark = argv[2];
        first = 3;
    }
    for (int i = 0; i < CONNS; i++)
        relay_conns[i].fd[0] = relay_conns[i].fd[1] = -1;
    printf("ports");
    for (int i = first; i < argc && relay_link_count < LINKS; i++) {
        add_link((int)strtol(argv[i], NULL, 10));
        printf(" %d", relay_links[relay_link_count - 1].port);
    }
    putchar('\n');
    fflush(stdout);
    while (step())
        continue;
    return 0;
}
