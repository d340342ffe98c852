/* redlock_pair.c - what does a lock on five servers cost beside one on one?
 *
 * The same pair, lock and release, on redis:// and on redlock:// over five
 * servers, round by round in turn.  First through a relay that keeps every
 * message for half a millisecond in each direction, as a network does: there
 * five servers that are asked side by side cost little more than one, and five
 * that are asked one after the other five times as much.  Then without it: on
 * one machine five servers and their client share its few cores, and what is
 * measured is how these are shared.
 *
 * The relay is one process for all servers, and the same for both sides. */
#include "redis.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { SERVERS = 5, FLOWS = 64, CHUNKS = 16, CHUNK = 8192, MAX_ROUNDS = 9 };
enum { HALF_TRIP_US = 500 };

/* ---- The relay ------------------------------------------------------- */

struct chunk {
    int64_t due;
    size_t len;
    char bytes[CHUNK];
};

struct flow { /* one direction of a connection */
    int from, to;
    unsigned first, count;
    struct chunk chunks[CHUNKS];
};

static struct flow flows[FLOWS];
static int flow_count;

static int socket_at(int port, bool listens)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

    if (fd < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        (listens ? bind(fd, (struct sockaddr *)&at, sizeof at)
                 : connect(fd, (struct sockaddr *)&at, sizeof at)) != 0 ||
        (listens && listen(fd, 16) != 0))
        bench_die("no relay on port %d: %s", port, strerror(errno));
    return fd;
}

static void add_flows(int listener, int port)
{
    int one = accept(listener, NULL, NULL), two = socket_at(port, false);
    int on = 1;

    if (one < 0 || flow_count + 2 > FLOWS)
        bench_die("the relay cannot take another connection");
    setsockopt(one, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(two, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    flows[flow_count].from = flows[flow_count + 1].to = one;
    flows[flow_count].to = flows[flow_count + 1].from = two;
    flow_count += 2;
}

static void take_in(struct flow *f)
{
    struct chunk *c = &f->chunks[(f->first + f->count) % CHUNKS];
    ssize_t n = read(f->from, c->bytes, CHUNK);

    if (n <= 0) {
        f->from = -1; /* poll passes it over */
        return;
    }
    c->len = (size_t)n;
    c->due = now_ns() + HALF_TRIP_US * 1000;
    f->count++;
}

/* Pass on what is due; when the next is. */
static int64_t pass_on(void)
{
    int64_t next = INT64_MAX;

    for (int i = 0; i < flow_count; i++) {
        struct flow *f = &flows[i];

        while (f->count > 0 && f->chunks[f->first].due <= now_ns()) {
            const struct chunk *c = &f->chunks[f->first];

            if (send(f->to, c->bytes, c->len, MSG_NOSIGNAL) != (ssize_t)c->len)
                f->from = -1;
            f->first = (f->first + 1) % CHUNKS;
            f->count--;
        }
        if (f->count > 0 && f->chunks[f->first].due < next)
            next = f->chunks[f->first].due;
    }
    return next;
}

static void run_relay(const int *listeners, const struct redis_server *s)
{
    struct pollfd at[SERVERS + FLOWS];

    for (;;) {
        int64_t next = pass_on(), left = next - now_ns();
        struct timespec wait = {.tv_nsec = left > 0 ? left : 0};
        int n = 0;

        for (int i = 0; i < SERVERS; i++)
            at[n++] = (struct pollfd){.fd = listeners[i], .events = POLLIN};
        for (int i = 0; i < flow_count; i++)
            at[n++] = (struct pollfd){
                .fd = flows[i].count < CHUNKS ? flows[i].from : -1,
                .events = POLLIN};
        if (ppoll(at, (nfds_t)n, next == INT64_MAX ? NULL : &wait, NULL) < 0)
            bench_die("the relay: %s", strerror(errno));
        for (int i = n - 1; i >= 0; i--) {
            if (at[i].revents && i >= SERVERS)
                take_in(&flows[i - SERVERS]);
            else if (at[i].revents)
                add_flows(listeners[i], s[i].port);
        }
    }
}

/* ---- The scenario ---------------------------------------------------- */

static void write_urls(char one[64], char all[200], const int *ports)
{
    int len = snprintf(all, 200, "redlock://");

    snprintf(one, 64, "redis://127.0.0.1:%d", ports[0]);
    for (int i = 0; i < SERVERS; i++)
        len += snprintf(all + len, 200 - (size_t)len, "%s127.0.0.1:%d",
                        i ? "," : "", ports[i]);
}

static void compare(const struct bench *b, const char *what, const int *ports,
                    int pairs, enum goal goal)
{
    const int rounds = b->quick ? 3 : MAX_ROUNDS;
    char url[2][200];
    double p50[2][MAX_ROUNDS];
    void *thread[2];

    write_urls(url[1], url[0], ports);
    for (int k = 0; k < 2; k++) {
        thread[k] =
            side_holdfast.open_thread(side_holdfast.open_process(url[k]), 0);
        measure_pairs(&side_holdfast, thread[k], pairs);
    }
    for (int r = 0; r < rounds; r++)
        for (int k = 0; k < 2; k++)
            p50[k][r] = measure_pairs(&side_holdfast, thread[k], pairs).p50_us;
    row_print(b, &(struct row){"redlock-pair", what, "us",
                               median(p50[0], (size_t)rounds), "one server",
                               median(p50[1], (size_t)rounds), goal, 2});
}

void bench_redlock_pair(const struct bench *b)
{
    struct redis_server s[SERVERS];
    int listeners[SERVERS], ports[SERVERS], direct[SERVERS];
    pid_t relay;

    redis_needed(b);
    for (int i = 0; i < SERVERS; i++) {
        redis_start(&s[i], b, ALL_CORES);
        direct[i] = s[i].port;
        ports[i] = free_port();
        listeners[i] = socket_at(ports[i], true);
    }
    relay = fork_bound();
    if (relay == 0)
        run_relay(listeners, s);
    pin_to(ALL_CORES);
    compare(b, "lock + release, p50, round trip of 1 ms", ports,
            b->quick ? 100 : 200, RATIO_AT_MOST);
    compare(b, "lock + release, p50, all on this machine", direct, 1000,
            NO_GOAL);
    end_child(relay);
    for (int i = 0; i < SERVERS; i++)
        redis_stop(&s[i]);
}
