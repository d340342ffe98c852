/* relay.c - TCP links that misbehave on command, whatever the bytes mean.
 *
 *     campaign_relay [--mark TEXT] TO_PORT...
 *
 * Prints `ports P...`: a loopback port per link, in the same order.  Then one
 * command per line of its input (below), each answered `ok N` (N: strikes that
 * have hit so far).  A connection has a name if it is not a client's: the word
 * behind the mark in its first bytes, or its address, if not 127.0.0.1.  One
 * thread, no lock: it sleeps in poll.  It ends with its input. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { LINKS = 32, CONNS = 400, NAMES = 8, QUEUE_MOST = 1 << 20 };
enum { UP, DOWN };
enum { CUT = 1, HALF, NOISE }; /* strikes */

typedef struct chunk {
    struct chunk *next;
    int64_t due;
    size_t len, sent;
    char bytes[];
} chunk;

typedef struct conn {
    int fd[2]; /* the client's, the server's; -1: free */
    int link;
    chunk *first[2], *last[2]; /* what is under way up, and down */
    size_t queued[2];
    bool ended[2]; /* who feeds this direction has ended */
    bool dialling, seen;
    char name[40];
} conn;

typedef struct link_state {
    int listener, port, to_port;
    bool hold[2], front[2], refuse, apart;
    int strike[2];
    int delay_ms, jitter_ms;
} link_state;

static link_state links[LINKS];
static int link_count;
static conn conns[CONNS];
static const char *mark;
static char held_names[NAMES][40];
static unsigned struck;
static uint64_t chance = 88172645463325252U;

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* ---- A connection ------------------------------------------------------- */

static void end_conn(conn *c, bool reset)
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
    const link_state *l = &links[c->link];

    if (l->hold[way] || (c->name[0] ? l->apart : l->front[way]))
        return true;
    for (int i = 0; c->name[0] && i < NAMES; i++) {
        if (strcmp(held_names[i], c->name) == 0)
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

static void queue_bytes(conn *c, int way, const char *bytes, size_t len)
{
    const link_state *l = &links[c->link];
    chunk *piece = malloc(sizeof *piece + len);
    int64_t delay = l->delay_ms;

    if (!piece)
        abort();
    chance ^= chance << 13;
    chance ^= chance >> 7;
    chance ^= chance << 17;
    if (l->jitter_ms > 0)
        delay += (int64_t)((chance >> 16) % (uint64_t)l->jitter_ms);
    *piece = (chunk){.due = now_ns() + delay * 1000000, .len = len};
    memcpy(piece->bytes, bytes, len);
    if (c->last[way] && c->first[way])
        c->last[way]->next = piece;
    else
        c->first[way] = piece;
    c->last[way] = piece;
    c->queued[way] += len;
}

/* What is left of these bytes after a strike: how many. */
static size_t strike_bytes(conn *c, int way, char *bytes, size_t len)
{
    int how = links[c->link].strike[way];

    links[c->link].strike[way] = 0;
    struck += how != 0;
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
        end_conn(c, true);
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
        end_conn(c, true);
    return c->fd[0] >= 0;
}

static bool drain(conn *c, int way)
{
    while (c->first[way] && c->first[way]->due <= now_ns()) {
        chunk *piece = c->first[way];
        ssize_t n = send(c->fd[1 - way], piece->bytes + piece->sent,
                         piece->len - piece->sent, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return true;
        if (n < 0) {
            end_conn(c, true);
            return false;
        }
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
        end_conn(c, false);
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
        end_conn(c, true);
}

static void accept_one(int which)
{
    link_state *l = &links[which];
    struct sockaddr_in from = {0};
    socklen_t len = sizeof from;
    int fd = accept4(l->listener, (struct sockaddr *)&from, &len,
                     SOCK_CLOEXEC | SOCK_NONBLOCK);
    int one = 1;
    conn *c = conns;

    if (fd < 0)
        return;
    while (c < conns + CONNS && c->fd[0] >= 0)
        c++;
    if (c == conns + CONNS || l->refuse) {
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

/* ---- Commands ----------------------------------------------------------- */

/* LINK is a number from 0, or `all`; `up` is towards the server:
 *   hold LINK up|down|both on|off   nothing passes in that direction
 *   front LINK up|down|both on|off  the same, for those without a name
 *   apart LINK on|off, name WORD on|off   hold those with a name, with this one
 *   refuse LINK on|off              a new connection is ended at once
 *   cut LINK                        all its connections end, with a RST
 *   delay LINK MS JITTER            each way, of all bytes from now on
 *   before LINK, after LINK         the next bytes of a client, or of a server,
 *                                   are thrown away, and its connection ends
 *   half LINK, noise LINK           of those only half arrive, or others
 *   swap LINK TO                    its connections go on at TO's server */
static void cut_link(int which)
{
    for (int i = 0; i < CONNS; i++) {
        if (conns[i].fd[0] >= 0 && conns[i].link == which)
            end_conn(&conns[i], true);
    }
}

static void swap_link(int which, int to)
{
    for (int i = 0; i < CONNS; i++) {
        conn *c = &conns[i];

        if (c->fd[0] < 0 || c->link != which || c->dialling || c->name[0])
            continue;
        close(c->fd[1]);
        c->ended[DOWN] = false;
        dial(c, links[to].to_port);
    }
}

static void hold_name(const char *word, bool on)
{
    for (int i = 0; i < NAMES; i++) {
        if (on ? held_names[i][0] == '\0' : !strcmp(held_names[i], word)) {
            snprintf(held_names[i], sizeof held_names[i], "%s", on ? word : "");
            return;
        }
    }
}

static void obey_link(int which, char words[4][40])
{
    link_state *l = &links[which];
    bool on = strcmp(words[words[3][0] ? 3 : 2], "on") == 0;
    bool *held = strcmp(words[0], "front") == 0 ? l->front : l->hold;

    if (held == l->front || strcmp(words[0], "hold") == 0) {
        if (strcmp(words[2], "down") != 0)
            held[UP] = on;
        if (strcmp(words[2], "up") != 0)
            held[DOWN] = on;
    } else if (strcmp(words[0], "refuse") == 0) {
        l->refuse = on;
    } else if (strcmp(words[0], "cut") == 0) {
        cut_link(which);
    } else if (strcmp(words[0], "delay") == 0) {
        l->delay_ms = (int)strtol(words[2], NULL, 10);
        l->jitter_ms = (int)strtol(words[3], NULL, 10);
    } else if (strcmp(words[0], "apart") == 0) {
        l->apart = on;
    } else if (strcmp(words[0], "swap") == 0) {
        swap_link(which, (int)(strtoul(words[2], NULL, 10) % LINKS));
    } else if (strcmp(words[0], "before") == 0) {
        l->strike[UP] = CUT;
    } else if (strcmp(words[0], "after") == 0) {
        l->strike[DOWN] = CUT;
    } else if (strcmp(words[0], "half") == 0) {
        l->strike[DOWN] = HALF;
    } else if (strcmp(words[0], "noise") == 0) {
        l->strike[DOWN] = NOISE;
    }
}

static void obey(const char *line)
{
    char words[4][40] = {"", "", "", ""};

    sscanf(line, "%39s %39s %39s %39s", words[0], words[1], words[2], words[3]);
    if (strcmp(words[0], "name") == 0) {
        hold_name(words[1], strcmp(words[2], "on") == 0);
    } else {
        for (int i = 0; i < link_count; i++) {
            if (strcmp(words[1], "all") == 0 || strtol(words[1], NULL, 10) == i)
                obey_link(i, words);
        }
    }
    printf("ok %u\n", struck);
    fflush(stdout);
}

/* False: the end. */
static bool read_commands(void)
{
    static char text[4096];
    static size_t len;
    ssize_t n = read(STDIN_FILENO, text + len, sizeof text - 1 - len);
    char *end;

    if (n <= 0)
        return false;
    len += (size_t)n;
    text[len] = '\0';
    while ((end = strchr(text, '\n')) != NULL) {
        *end = '\0';
        obey(text);
        len -= (size_t)(end + 1 - text);
        memmove(text, end + 1, len + 1);
    }
    return true;
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
        if (c->first[out]->due <= now_ns())
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
            end_conn(c, true);
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

static bool step(void)
{
    static struct pollfd fds[1 + LINKS + 2 * CONNS];
    int64_t due = INT64_MAX, now;
    int timeout = -1;

    fds[0] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
    for (int i = 0; i < LINKS; i++)
        fds[1 + i] = (struct pollfd){
            .fd = i < link_count && !links[i].hold[UP] ? links[i].listener : -1,
            .events = POLLIN};
    for (int i = 0; i < 2 * CONNS; i++) {
        conn *c = &conns[i / 2];
        struct pollfd *p = &fds[1 + LINKS + i];

        *p = (struct pollfd){.fd = -1};
        if (c->fd[0] < 0)
            continue;
        p->events = wanted(c, i % 2, &due);
        /* Without a wish an ended socket would wake us again and again. */
        p->fd = p->events ? c->fd[i % 2] : -1;
    }
    now = now_ns();
    if (due != INT64_MAX)
        timeout = due > now ? (int)((due - now) / 1000000) + 1 : 0;
    if (poll(fds, sizeof fds / sizeof *fds, timeout) < 0 && errno != EINTR)
        return false;
    if (fds[0].revents && !read_commands())
        return false;
    for (int i = 0; i < CONNS; i++) {
        if (conns[i].fd[0] >= 0)
            serve_conn(&conns[i], fds[1 + LINKS + 2 * i].revents,
                       fds[2 + LINKS + 2 * i].revents);
    }
    for (int i = 0; i < link_count; i++) {
        if (fds[1 + i].revents)
            accept_one(i);
    }
    return true;
}

static void add_link(int to_port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    link_state *l = &links[link_count++];
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
        conns[i].fd[0] = conns[i].fd[1] = -1;
    printf("ports");
    for (int i = first; i < argc && link_count < LINKS; i++) {
        add_link((int)strtol(argv[i], NULL, 10));
        printf(" %d", links[link_count - 1].port);
    }
    putchar('\n');
    fflush(stdout);
    while (step())
        continue;
    return 0;
}
