/* proxy.c - one thread that carries bytes, frame by frame.
 *
 * Each connection has two directions with a buffer of what came and one of
 * what is to go.  Commands are cut out whole, judged by the rule and passed
 * on; what is to happen to their replies stands in a line, since Redis answers
 * in order.  A reply that begins with `message` belongs to nobody in the line:
 * it is a push, and the rule may name it.
 *
 * "Executed" is certain: a reply is lost only after it has come from the
 * server.  Towards the client a cut is a RST, so that it is noticed at once;
 * towards the server it is a FIN, so that what was passed on is still done.
 *
 * One mutex guards all; the thread lets go of it only in poll. */
#include "harness/proxy.h"

#include <poll.h>
#include <pthread.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "harness/expect.h"
#include "harness/frame.h"
#include "harness/proxy_bytes.h"
#include "harness/runner.h"

enum { CONNS_MAX = 64, LINE_MAX_ = 4096, NAMES_MAX = 64 };

typedef struct conn {
    int client, server; /* -1: free */
    bytes from_client, to_server, from_server, to_client;
    proxy_act line[LINE_MAX_]; /* what happens to the replies to come */
    unsigned line_first, line_end;
    long long deliver_at; /* replies wait until then; 0: not */
    bool delayed;         /* the reply at the front has waited already */
    bool ending;          /* what is in to_client goes out, then the end */
    bool listens;         /* it has sent a SUBSCRIBE */
} conn;

struct proxy {
    pthread_mutex_t mutex;
    pthread_t thread;
    int listener, wake, port, server_port;
    bool stopping, black_hole, refuse, cut_all, swap, cross;
    proxy_rule rule;
    bool has_rule;
    unsigned matched, struck;
    struct {
        char name[24];
        unsigned count;
    } names[NAMES_MAX];
    conn conns[CONNS_MAX];
};

/* ---- Rules -------------------------------------------------------------- */

static void count_name(proxy *p, const char *frame, size_t len)
{
    size_t size = 0;
    const char *word = frame_word(frame, len, 0, &size);

    for (size_t i = 0; word && i < NAMES_MAX; i++) {
        if (p->names[i].count == 0)
            snprintf(p->names[i].name, sizeof p->names[i].name, "%.*s",
                     (int)size, word);
        if (strlen(p->names[i].name) == size &&
            strncasecmp(p->names[i].name, word, size) == 0) {
            p->names[i].count++;
            return;
        }
    }
}

/* What the rule says about this command, or push. */
static proxy_act judge(proxy *p, const char *frame, size_t len, bool push)
{
    const proxy_rule *rule = &p->rule;

    if (!p->has_rule || (push && !rule->command))
        return PROXY_PASS;
    if (rule->command && !frame_word_is(frame, len, 0, rule->command))
        return PROXY_PASS;
    if (rule->word && !memmem(frame, len, rule->word, strlen(rule->word)))
        return PROXY_PASS;
    if (rule->nth != 0 && ++p->matched != rule->nth)
        return PROXY_PASS;
    p->struck++;
    return rule->act;
}

/* ---- A connection ------------------------------------------------------- */

static void end_conn(conn *c)
{
    struct linger reset = {1, 0};

    if (c->client < 0)
        return;
    if (!c->ending)
        setsockopt(c->client, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    close(c->client);
    close(c->server);
    for (bytes *b = &c->from_client; b <= &c->to_client; b++)
        free(b->data);
    *c = (conn){.client = -1, .server = -1};
}

static void expect_replies(conn *c, proxy_act act, size_t n)
{
    for (; n > 0; n--) {
        EXPECT(c->line_end - c->line_first < LINE_MAX_);
        c->line[c->line_end++ % LINE_MAX_] = act;
    }
}

/* A subscription is answered channel by channel, all others once. */
static size_t reply_count(const char *frame, size_t len)
{
    if (frame_word_is(frame, len, 0, "SUBSCRIBE") ||
        frame_word_is(frame, len, 0, "PSUBSCRIBE") ||
        frame_word_is(frame, len, 0, "UNSUBSCRIBE") ||
        frame_word_is(frame, len, 0, "PUNSUBSCRIBE"))
        return frame_words(frame) > 1 ? frame_words(frame) - 1 : 1;
    return 1;
}

static void carry_commands(proxy *p, conn *c)
{
    size_t len;

    while (c->client >= 0 && c->from_client.len > 0 &&
           (len = frame_size(c->from_client.data, c->from_client.len)) > 0) {
        const char *frame = c->from_client.data;
        proxy_act act;

        count_name(p, frame, len);
        c->listens = c->listens || frame_word_is(frame, len, 0, "SUBSCRIBE");
        act = judge(p, frame, len, false);
        if (act == PROXY_CUT_BEFORE) {
            /* What went before is still to reach the server. */
            drain(c->server, &c->to_server);
            end_conn(c);
            return;
        }
        if (act != PROXY_SWALLOW) {
            expect_replies(c, act, reply_count(frame, len));
            add_bytes(&c->to_server, frame, len);
        }
        eat_bytes(&c->from_client, len);
    }
}

/* One whole reply; false: the connection is over, or replies wait. */
static bool carry_reply(proxy *p, conn *c, const char *frame, size_t len)
{
    bool push = frame[0] == '*' && (frame_word_is(frame, len, 0, "message") ||
                                    frame_word_is(frame, len, 0, "pmessage"));
    proxy_act act = PROXY_PASS;

    if (c->delayed)
        c->delayed = false;
    else if (push)
        act = judge(p, frame, len, true);
    else if (c->line_first != c->line_end)
        act = c->line[c->line_first++ % LINE_MAX_];
    if (act == PROXY_CUT_REPLY || act == PROXY_CUT_BEFORE) {
        end_conn(c);
        return false;
    }
    if (act == PROXY_DELAY) {
        c->delayed = true;
        c->deliver_at = test_now_ms() + p->rule.ms;
        return false;
    }
    if (act == PROXY_TRUNCATE) {
        add_bytes(&c->to_client, frame, len / 2);
        c->ending = true;
        return false;
    }
    if (act == PROXY_REPLACE && p->rule.text)
        add_bytes(&c->to_client, p->rule.text,
                  p->rule.len ? p->rule.len : strlen(p->rule.text));
    else if (act != PROXY_DROP_REPLY && act != PROXY_SWALLOW)
        add_bytes(&c->to_client, frame, len);
    return true;
}

static void carry_replies(proxy *p, conn *c)
{
    size_t len;

    if (c->deliver_at > test_now_ms())
        return;
    c->deliver_at = 0;
    while (c->client >= 0 && !c->ending && c->from_server.len > 0 &&
           (len = frame_size(c->from_server.data, c->from_server.len)) > 0) {
        if (!carry_reply(p, c, c->from_server.data, len))
            return;
        eat_bytes(&c->from_server, len);
    }
}

static void serve_conn(proxy *p, conn *c, short client, short server)
{
    if ((client & (POLLIN | POLLHUP | POLLERR)) &&
        !fill(c->client, &c->from_client)) {
        end_conn(c);
        return;
    }
    carry_commands(p, c);
    if (c->client < 0)
        return;
    if ((server & (POLLIN | POLLHUP | POLLERR)) &&
        !fill(c->server, &c->from_server)) {
        carry_replies(p, c);
        if (c->client >= 0) {
            drain(c->client, &c->to_client);
            end_conn(c);
        }
        return;
    }
    carry_replies(p, c);
    if (c->client < 0)
        return;
    if (!drain(c->server, &c->to_server) || !drain(c->client, &c->to_client) ||
        (c->ending && c->to_client.len == 0))
        end_conn(c);
}

/* ---- The thread --------------------------------------------------------- */

static void accept_conn(proxy *p)
{
    int fd = accept4(p->listener, NULL, NULL, SOCK_CLOEXEC), one = 1;
    conn *c = p->conns;
    int server;

    if (fd < 0)
        return;
    while (c < p->conns + CONNS_MAX && c->client >= 0)
        c++;
    EXPECT(c < p->conns + CONNS_MAX);
    server = p->refuse ? -1 : dial_port(p->server_port);
    if (server < 0) {
        close(fd);
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    c->client = fd;
    c->server = server;
}

/* What was under way to the old one, and its answers, are lost. */
static void join_to(conn *c, int server)
{
    EXPECT(server >= 0);
    c->server = server;
    c->to_server.len = c->from_server.len = 0;
    c->line_first = c->line_end = 0;
    c->deliver_at = 0;
    c->delayed = false;
}

static void swap_servers(proxy *p)
{
    conn *other = NULL;

    for (conn *c = p->conns; c < p->conns + CONNS_MAX; c++) {
        if (c->client >= 0 && p->swap) {
            close(c->server);
            join_to(c, dial_port(p->server_port));
        } else if (c->client >= 0 && c->listens && other) {
            int server = other->server;

            join_to(other, c->server);
            join_to(c, server);
            other = NULL;
        } else if (c->client >= 0 && c->listens) {
            other = c;
        }
    }
    p->swap = p->cross = false;
}

static int gather_fds(proxy *p, struct pollfd *fds, conn **of)
{
    int count = 0;

    fds[count++] = (struct pollfd){p->wake, POLLIN, 0};
    if (p->black_hole)
        return count;
    fds[count++] = (struct pollfd){p->listener, POLLIN, 0};
    for (conn *c = p->conns; c < p->conns + CONNS_MAX; c++) {
        if (c->client < 0)
            continue;
        of[count] = c;
        fds[count++] = (struct pollfd){
            c->client, POLLIN | (c->to_client.len > 0 ? POLLOUT : 0), 0};
        fds[count++] =
            (struct pollfd){c->server,
                            (short)((c->deliver_at ? 0 : POLLIN) |
                                    (c->to_server.len > 0 ? POLLOUT : 0)),
                            0};
    }
    return count;
}

static int poll_time(const proxy *p)
{
    long long now = test_now_ms(), left = 1000;

    for (const conn *c = p->conns; c < p->conns + CONNS_MAX; c++) {
        if (c->client >= 0 && c->deliver_at && c->deliver_at - now < left)
            left = c->deliver_at - now;
    }
    return left < 0 ? 0 : (int)left;
}

static void *run_proxy(void *arg)
{
    proxy *p = arg;
    struct pollfd fds[2 + 2 * CONNS_MAX];
    conn *of[2 + 2 * CONNS_MAX];
    uint64_t rung;

    pthread_mutex_lock(&p->mutex);
    while (!p->stopping) {
        int count = gather_fds(p, fds, of), wait = poll_time(p);

        pthread_mutex_unlock(&p->mutex);
        poll(fds, (nfds_t)count, wait);
        pthread_mutex_lock(&p->mutex);
        if (fds[0].revents)
            EXPECT(read(p->wake, &rung, sizeof rung) == sizeof rung);
        if (p->cut_all || p->stopping) {
            for (conn *c = p->conns; c < p->conns + CONNS_MAX; c++)
                end_conn(c);
            p->cut_all = false;
            continue;
        }
        if (p->swap || p->cross) {
            swap_servers(p);
            continue; /* what was polled is gone */
        }
        if (p->black_hole || count == 1)
            continue;
        for (int i = 2; i < count; i += 2)
            serve_conn(p, of[i], fds[i].revents, fds[i + 1].revents);
        if (fds[1].revents)
            accept_conn(p);
    }
    pthread_mutex_unlock(&p->mutex);
    return NULL;
}

/* ---- For the test ------------------------------------------------------- */

proxy *proxy_start(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    proxy *p = calloc(1, sizeof *p);

    EXPECT(p != NULL);
    for (conn *c = p->conns; c < p->conns + CONNS_MAX; c++)
        *c = (conn){.client = -1, .server = -1};
    p->server_port = port;
    p->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    p->wake = eventfd(0, EFD_CLOEXEC);
    EXPECT(p->listener >= 0 && p->wake >= 0);
    EXPECT(bind(p->listener, (struct sockaddr *)&address, len) == 0);
    EXPECT(listen(p->listener, 64) == 0);
    EXPECT(getsockname(p->listener, (struct sockaddr *)&address, &len) == 0);
    p->port = ntohs(address.sin_port);
    pthread_mutex_init(&p->mutex, NULL);
    EXPECT(pthread_create(&p->thread, NULL, run_proxy, p) == 0);
    return p;
}

int proxy_port(const proxy *p)
{
    return p->port;
}

static void unlock_ring(proxy *p)
{
    uint64_t one = 1;

    EXPECT(write(p->wake, &one, sizeof one) == sizeof one);
    pthread_mutex_unlock(&p->mutex);
}

void proxy_stop(proxy *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->mutex);
    p->stopping = true;
    unlock_ring(p);
    pthread_join(p->thread, NULL);
    for (conn *c = p->conns; c < p->conns + CONNS_MAX; c++)
        end_conn(c);
    close(p->listener);
    close(p->wake);
    pthread_mutex_destroy(&p->mutex);
    free(p);
}

void proxy_set(proxy *p, const proxy_rule *rule)
{
    pthread_mutex_lock(&p->mutex);
    p->has_rule = rule != NULL;
    if (rule)
        p->rule = *rule;
    p->matched = p->struck = 0;
    unlock_ring(p);
}

unsigned proxy_struck(proxy *p)
{
    unsigned struck;

    pthread_mutex_lock(&p->mutex);
    struck = p->struck;
    pthread_mutex_unlock(&p->mutex);
    return struck;
}

unsigned proxy_count(proxy *p, const char *command)
{
    unsigned count = 0;

    pthread_mutex_lock(&p->mutex);
    for (size_t i = 0; i < NAMES_MAX && p->names[i].count > 0; i++) {
        if (!command || strcasecmp(command, p->names[i].name) == 0)
            count += p->names[i].count;
    }
    pthread_mutex_unlock(&p->mutex);
    return count;
}

unsigned proxy_connections(proxy *p)
{
    unsigned count = 0;

    pthread_mutex_lock(&p->mutex);
    for (const conn *c = p->conns; c < p->conns + CONNS_MAX; c++)
        count += c->client >= 0;
    pthread_mutex_unlock(&p->mutex);
    return count;
}

static void set_flag(proxy *p, bool *flag, bool on)
{
    pthread_mutex_lock(&p->mutex);
    *flag = on;
    unlock_ring(p);
}

void proxy_cut_all(proxy *p)
{
    set_flag(p, &p->cut_all, true);
}

/* The thread takes the flag back when it is done. */
static void set_and_wait(proxy *p, bool *flag)
{
    bool done = false;

    set_flag(p, flag, true);
    while (!done) {
        test_sleep_ms(1);
        pthread_mutex_lock(&p->mutex);
        done = !*flag;
        pthread_mutex_unlock(&p->mutex);
    }
}

void proxy_swap(proxy *p)
{
    set_and_wait(p, &p->swap);
}

void proxy_cross(proxy *p)
{
    set_and_wait(p, &p->cross);
}

void proxy_black_hole(proxy *p, bool on)
{
    set_flag(p, &p->black_hole, on);
}

void proxy_refuse(proxy *p, bool on)
{
    set_flag(p, &p->refuse, on);
}
