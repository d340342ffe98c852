/* wire_push_test.c - who is let in, and what is pushed.
 *
 * Handshakes with servers that are not what we want, each with the sentence
 * that helps; channels that come and go while connections are cut, or go on at
 * another one of the server's; threads that are parked over all of that. */
#include "harness/expect.h"
#include "harness/proxy.h"
#include "harness/runner.h"
#include "harness/server.h"

#include "wire_world.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- Handshakes ---- */

static void expect_refused(int port, const char *password, int code,
                           const char *has)
{
    world w = {0};
    hf_error err = {0};

    EXPECT_CODE(open_wire(&w, port, password, 1, &err), code);
    EXPECT_HAS(err.text, has);
    EXPECT_HAS(err.text, "127.0.0.1:");
    EXPECT(!password || !strstr(err.text, password));
}

static void passwords(void)
{
    server_options options = {.password = "s3cret"};
    world w = {0};
    hf_error err = {0};

    w.server = server_start(&options);
    expect_refused(w.server->port, NULL, HF_EAUTH, "URL");
    expect_refused(w.server->port, "wr0ng", HF_EAUTH, "refused");
    EXPECT_OK(open_wire(&w, w.server->port, "s3cret", 1, &err), err);
    expect_echo(w.wire);
    close_world(&w);
    w.server = server_start(NULL);
    expect_refused(w.server->port, "s3cret", HF_EAUTH, "no password set");
    server_stop(w.server);
}

static void servers_that_will_not_do(void)
{
    server *s = server_start(NULL);
    server_options cluster = {.more = {"--cluster-enabled", "yes", NULL}};
    int port = s->port;
    world w = {0};
    hf_error err = {0};
    ask a;

    EXPECT_OK(open_wire(&w, port, NULL, 1, &err), err);
    EXPECT_STR(server_ask(s, "REPLICAOF 127.0.0.1 1"), "OK");
    a = make_ask(w.wire, COUNT, 0, true, 2000);
    EXPECT_EQ(drive(&a), HF_NOT_APPLIED);
    EXPECT_EQ(a.error.code, HF_EUNAVAIL);
    EXPECT_HAS(a.error.text, "replica");
    expect_refused(port, NULL, HF_EUNAVAIL, "replica of '127.0.0.1'");
    EXPECT_STR(server_ask(s, "REPLICAOF NO ONE"), "OK");
    EXPECT(WAIT_FOR(echo(w.wire, 1, 2000) == HF_APPLIED, 5000));
    redis_wire_close(w.wire);

    EXPECT_STR(server_ask(s, "CONFIG SET maxclients 1"), "OK");
    EXPECT_OK(open_wire(&w, port, NULL, 1, &err), err);
    expect_refused(port, NULL, HF_EUNAVAIL, "maxclients");
    redis_wire_close(w.wire);
    server_stop(s);
    expect_refused(port, NULL, HF_EUNAVAIL, "");

    s = server_start(&cluster);
    expect_refused(s->port, NULL, HF_EURL, "Cluster");
    server_stop(s);
}

/* Says one thing to whoever comes, and is silent then. */
static void *say_something(void *arg)
{
    static const char words[] = "SSH-2.0-OpenSSH_9.2\r\n";
    int fd = accept(*(int *)arg, NULL, NULL);
    char byte;

    EXPECT(fd >= 0);
    EXPECT(send(fd, words, sizeof words - 1, MSG_NOSIGNAL) > 0);
    while (recv(fd, &byte, 1, 0) > 0)
        continue;
    close(fd);
    return NULL;
}

static void another_service(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t len = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    pthread_t thread;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(bind(listener, (struct sockaddr *)&address, len), 0);
    EXPECT_EQ(listen(listener, 5), 0);
    getsockname(listener, (struct sockaddr *)&address, &len);
    EXPECT_EQ(pthread_create(&thread, NULL, say_something, &listener), 0);
    expect_refused(ntohs(address.sin_port), NULL, HF_EPROTO, "protocol");
    pthread_join(thread, NULL);
    /* Nobody answers at all. */
    expect_refused(ntohs(address.sin_port), NULL, HF_EUNAVAIL, "no answer");
    close(listener);
}

/* ---- Pushes ---- */

static void publish(world *w, const char *channel, const char *text)
{
    server_ask(w->server, "PUBLISH %s %s", channel, text);
}

static void listen_to(world *w, const char *channel, bool pattern)
{
    int before = atomic_load(&w->listening);

    EXPECT_EQ(redis_wire_listen(w->wire, channel, strlen(channel), pattern), 0);
    EXPECT(WAIT_FOR(atomic_load(&w->listening) > before, 5000));
}

static void unlisten(world *w, const char *channel, bool pattern)
{
    redis_wire_unlisten(w->wire, channel, strlen(channel), pattern);
}

static void expect_message(world *w, const char *channel, const char *text)
{
    int before = atomic_load(&w->messages);

    publish(w, channel, text);
    EXPECT(WAIT_FOR(atomic_load(&w->messages) > before, 5000));
    EXPECT_EQ(atomic_load(&w->messages), before + 1);
    EXPECT_STR(w->last, text);
}

static long long subscribers(world *w, const char *channel)
{
    const char *raw = server_ask(w->server, "PUBSUB NUMSUB %s", channel);
    const char *number = raw ? strrchr(raw, ':') : NULL;

    EXPECT(number != NULL);
    return strtoll(number + 1, NULL, 10);
}

static void channels(void)
{
    world w;

    open_world(&w, 1);
    start_keeper(&w);
    listen_to(&w, "one", false);
    expect_message(&w, "one", "hello");
    listen_to(&w, "p*", true);
    expect_message(&w, "pattern", "matched");
    /* Counted: it stands until the last one is gone. */
    EXPECT_EQ(redis_wire_listen(w.wire, "one", 3, false), 0);
    unlisten(&w, "one", false);
    expect_message(&w, "one", "still");
    unlisten(&w, "one", false);
    EXPECT(WAIT_FOR(subscribers(&w, "one") == 0, 5000));
    /* On and off at once: what counts is the last. */
    for (int i = 0; i < 50; i++) {
        EXPECT_EQ(redis_wire_listen(w.wire, "two", 3, false), 0);
        unlisten(&w, "two", false);
    }
    listen_to(&w, "two", false);
    expect_message(&w, "two", "again");
    EXPECT_EQ(subscribers(&w, "two"), 1);
    stop_keeper(&w);
    close_world(&w);
}

static void channels_come_back(void)
{
    world w;

    open_world(&w, 1);
    start_keeper(&w);
    listen_to(&w, "one", false);
    listen_to(&w, "p*", true);
    for (int i = 0; i < 5; i++) {
        int before = atomic_load(&w.listening);

        server_ask(w.server, "CLIENT KILL TYPE pubsub");
        EXPECT(WAIT_FOR(atomic_load(&w.listening) > before, 5000));
        expect_message(&w, "one", "one");
        expect_message(&w, "px", "two");
        EXPECT(WAIT_FOR(atomic_load(&w.doubts) == i + 1, 1000));
    }
    server_kill(w.server);
    EXPECT(WAIT_FOR(atomic_load(&w.doubts) == 6, 5000));
    /* One that goes while there is no connection, and one that comes. */
    unlisten(&w, "one", false);
    EXPECT_EQ(redis_wire_listen(w.wire, "new", 3, false), 0);
    atomic_store(&w.listening, 0);
    server_restart(w.server, true);
    EXPECT(WAIT_FOR(atomic_load(&w.listening) == 1, 10000));
    expect_message(&w, "new", "fresh");
    EXPECT_EQ(subscribers(&w, "one"), 0);
    stop_keeper(&w);
    close_world(&w);
}

/* ---- A connection that is another one's, and nobody says so ---- */

/* A world that has a proxy in between. */
static proxy *open_behind(world *w, const server_options *options)
{
    hf_error err = {0};
    proxy *p;

    memset(w, 0, sizeof *w);
    w->server = server_start(options);
    p = proxy_start(w->server->port);
    EXPECT_OK(open_wire(w, proxy_port(p), options ? options->password : NULL, 1,
                        &err),
              err);
    start_keeper(w);
    return p;
}

static void close_behind(world *w, proxy *p)
{
    stop_keeper(w);
    redis_wire_close(w->wire);
    proxy_stop(p);
    server_stop(w->server);
}

/* It was noticed, and all channels stand again. */
static void expect_back(world *w, int before)
{
    EXPECT(WAIT_FOR(atomic_load(&w->listening) > before, 30000));
    EXPECT(atomic_load(&w->doubts) > 0);
    expect_message(w, "one", "once");
    expect_message(w, "px", "more");
}

static void at_another_connection(void)
{
    server_options locked = {.password = "s3cret"};

    for (int i = 0; i < 2; i++) {
        world w;
        proxy *p = open_behind(&w, i ? &locked : NULL);
        int before;

        listen_to(&w, "p*", true);
        listen_to(&w, "one", false);
        before = atomic_load(&w.listening);
        proxy_swap(p);
        expect_back(&w, before);
        close_behind(&w, p);
    }
}

/* Two that listen hear what the other one wants to hear. */
static void at_each_others(void)
{
    hf_error err = {0};
    world w, other = {0};
    proxy *p = open_behind(&w, NULL);
    int before, behind;

    EXPECT_OK(open_wire(&other, proxy_port(p), NULL, 1, &err), err);
    other.server = w.server;
    start_keeper(&other);
    listen_to(&w, "one", false);
    listen_to(&other, "two", false);
    before = atomic_load(&w.listening);
    behind = atomic_load(&other.listening);
    proxy_cross(p);
    EXPECT(WAIT_FOR(atomic_load(&w.listening) > before, 30000));
    EXPECT(WAIT_FOR(atomic_load(&other.listening) > behind, 30000));
    expect_message(&w, "one", "mine");
    expect_message(&other, "two", "theirs");
    stop_keeper(&other);
    redis_wire_close(other.wire);
    close_behind(&w, p);
}

/* Who listens next subscribes there, and only he would hear. */
static void at_another_and_one_more(void)
{
    world w;
    proxy *p = open_behind(&w, NULL);
    int before;

    listen_to(&w, "p*", true);
    listen_to(&w, "one", false);
    before = atomic_load(&w.listening);
    proxy_swap(p);
    EXPECT_EQ(redis_wire_listen(w.wire, "two", 3, false), 0);
    expect_back(&w, before);
    expect_message(&w, "two", "too");
    close_behind(&w, p);
}

/* Commands on the connection for pushes whose answer never comes. */
static void answers_that_are_missing(void)
{
    static const proxy_rule rules[] = {
        {.command = "SUBSCRIBE", .nth = 1, .act = PROXY_SWALLOW},
        {.command = "SUBSCRIBE", .nth = 1, .act = PROXY_DROP_REPLY},
        {.command = "PING", .nth = 1, .act = PROXY_SWALLOW}};

    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        world w;
        proxy *p = open_behind(&w, NULL);
        int before;

        listen_to(&w, "p*", true);
        before = atomic_load(&w.listening);
        proxy_set(p, &rules[i]);
        EXPECT_EQ(redis_wire_listen(w.wire, "one", 3, false), 0);
        if (strcmp(rules[i].command, "PING") == 0)
            before++; /* that it stands is told, then it is cut */
        expect_back(&w, before);
        close_behind(&w, p);
    }
}

/* Nothing stands since nothing is allowed: not a reason to come again. */
static void refused_channels_are_left(void)
{
    world w;
    proxy *p = open_behind(&w, NULL);
    unsigned before;

    server_ask(w.server, "ACL SETUSER default resetchannels");
    EXPECT_EQ(redis_wire_listen(w.wire, "one", 3, false), 0);
    EXPECT(WAIT_FOR(proxy_count(p, "SUBSCRIBE") == 1, 5000));
    before = proxy_count(p, "PING");
    EXPECT(WAIT_FOR(proxy_count(p, "PING") >= before + 2, 30000));
    EXPECT_EQ(atomic_load(&w.doubts), 0);
    EXPECT_EQ(proxy_connections(p), 2);
    close_behind(&w, p);
}

static void *keep_busy(void *arg)
{
    server_ask(arg, "EVAL while(true)do(redis.sha1hex)('')end 0");
    return NULL;
}

/* The server has a long script: neither half of a proof is answered, and that
 * is no reason to leave. */
static void busy_is_no_reason(void)
{
    world w;
    proxy *p = open_behind(&w, NULL);
    pthread_t thread;
    unsigned asked;

    listen_to(&w, "one", false);
    server_ask(w.server, "CONFIG SET busy-reply-threshold 50");
    EXPECT_EQ(pthread_create(&thread, NULL, keep_busy, w.server), 0);
    asked = proxy_count(p, "SUBSCRIBE");
    EXPECT(WAIT_FOR(proxy_count(p, "SUBSCRIBE") >= asked + 2, 15000));
    EXPECT_STR(server_ask(w.server, "SCRIPT KILL"), "OK");
    pthread_join(thread, NULL);
    EXPECT_EQ(atomic_load(&w.doubts), 0);
    EXPECT_EQ(server_number(w.server, "PUBLISH one x"), 1);
    close_behind(&w, p);
}

typedef struct sleeper {
    pthread_t thread;
    world *w;
    hf__waiter waiter;
    hf_nsec until;
    atomic_bool up;
} sleeper;

static void *run_sleeper(void *arg)
{
    sleeper *s = arg;

    redis_wire_park(s->w->wire, &s->waiter, s->until);
    atomic_store(&s->up, true);
    return NULL;
}

static void start_sleeper(world *w, sleeper *s, int ms)
{
    memset(s, 0, sizeof *s);
    s->w = w;
    s->until = hfd_now() + HF_MS(ms);
    EXPECT_EQ(pthread_create(&s->thread, NULL, run_sleeper, s), 0);
}

/* Nobody polls: the parked threads themselves read and tell. */
static void parked_threads_read(void)
{
    enum { SLEEPERS = 8 };
    world w;
    sleeper sleepers[SLEEPERS];

    open_world(&w, 1);
    EXPECT_EQ(redis_wire_listen(w.wire, "one", 3, false), 0);
    for (int i = 0; i < SLEEPERS; i++)
        start_sleeper(&w, &sleepers[i], 30000);
    EXPECT(WAIT_FOR(atomic_load(&w.listening) == 1, 5000));
    expect_message(&w, "one", "hello");
    for (int i = 0; i < SLEEPERS; i++) {
        int before = atomic_load(&w.messages);

        EXPECT(!atomic_load(&sleepers[i].up));
        w.wake = &sleepers[i].waiter;
        publish(&w, "one", "wake");
        EXPECT(WAIT_FOR(atomic_load(&sleepers[i].up), 5000));
        EXPECT(WAIT_FOR(atomic_load(&w.messages) == before + 1, 5000));
        pthread_join(sleepers[i].thread, NULL);
        w.wake = NULL;
    }
    close_world(&w);
}

/* Woken from outside; too late; woken before; and over cut connections. */
static void parked_threads_end(void)
{
    enum { SLEEPERS = 4 };
    world w;
    sleeper sleepers[SLEEPERS], late, early = {0};

    open_world(&w, 1);
    /* Not even a connection for pushes. */
    start_sleeper(&w, &sleepers[0], 30000);
    test_sleep_ms(20);
    redis_wire_wake(w.wire, &sleepers[0].waiter);
    pthread_join(sleepers[0].thread, NULL);

    EXPECT_EQ(redis_wire_listen(w.wire, "one", 3, false), 0);
    for (int i = 0; i < SLEEPERS; i++)
        start_sleeper(&w, &sleepers[i], 30000);
    start_sleeper(&w, &late, 50);
    pthread_join(late.thread, NULL);
    EXPECT(hfd_now() >= late.until);
    EXPECT(!hf__waiter_woken(&late.waiter));
    redis_wire_wake(w.wire, &early.waiter);
    redis_wire_park(w.wire, &early.waiter, HF_NEVER);

    for (int i = 0; i < SLEEPERS; i++) {
        int before = atomic_load(&w.listening);

        server_ask(w.server, "CLIENT KILL TYPE pubsub");
        if (i > 0)
            EXPECT(WAIT_FOR(atomic_load(&w.listening) > before, 5000));
        for (int k = i; k < SLEEPERS; k++)
            EXPECT(!atomic_load(&sleepers[k].up));
        redis_wire_wake(w.wire, &sleepers[i].waiter);
        pthread_join(sleepers[i].thread, NULL);
    }
    close_world(&w);
}

static const test_case cases[] = {
    TEST(passwords),
    TEST(servers_that_will_not_do),
    TEST(another_service),
    TEST(channels),
    TEST(channels_come_back),
    TEST(at_another_connection),
    TEST(at_each_others),
    TEST(at_another_and_one_more),
    TEST(answers_that_are_missing),
    TEST(refused_channels_are_left),
    TEST(busy_is_no_reason),
    TEST(parked_threads_read),
    TEST(parked_threads_end),
};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "wire_push", cases,
                     sizeof cases / sizeof *cases);
}
