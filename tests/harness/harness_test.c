/* harness_test.c - do the server and the proxy of the tests do as they say?
 *
 * A test that relies on "the reply was lost after the server had executed it"
 * proves nothing if the proxy only pretends, so each act of the proxy is asked
 * here with a plain socket, and the server is asked what it saw. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "harness/expect.h"
#include "harness/proxy.h"
#include "harness/runner.h"
#include "harness/server.h"

/* ---- A client without manners ------------------------------------------- */

static int dial(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval patience = {0, 300000};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    EXPECT(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    EXPECT(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    return fd;
}

static void say(int fd, const char *text)
{
    EXPECT(send(fd, text, strlen(text), MSG_NOSIGNAL) == (ssize_t)strlen(text));
}

/* What comes; "ended" and "silent" for the other two ends. */
static const char *hear(int fd)
{
    static char text[4096];
    ssize_t n = recv(fd, text, sizeof text - 1, 0);

    if (n < 0)
        return errno == EAGAIN ? "silent" : "ended";
    text[n] = '\0';
    return n == 0 ? "ended" : text;
}

#define INCR "*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n"
#define PING "*1\r\n$4\r\nPING\r\n"

typedef struct scene {
    server *s;
    proxy *p;
    int fd;
} scene;

static scene begin(void)
{
    scene sc = {.s = server_start(NULL)};

    sc.p = proxy_start(sc.s->port);
    sc.fd = dial(proxy_port(sc.p));
    say(sc.fd, INCR PING);
    EXPECT_STR(hear(sc.fd)[0] == ':' ? "number" : "other", "number");
    return sc;
}

static void finish(scene *sc)
{
    close(sc->fd);
    proxy_stop(sc->p);
    server_stop(sc->s);
}

static void hear_rest(int fd)
{
    while (strcmp(hear(fd), "silent") != 0)
        ;
}

/* ---- The server --------------------------------------------------------- */

static void server_comes_and_goes(void)
{
    server *s = server_start(&(server_options){.aof = true, .tls = true});
    pid_t pid = s->pid;

    EXPECT_STR(server_ask(s, "SET a 1"), "OK");
    EXPECT_STR(server_ask(s, "GET a"), "1");
    EXPECT_STR(server_ask(s, "GET none"), "");
    EXPECT(server_ask(s, "NONSENSE")[0] == '-');
    EXPECT_STR(server_info(s, "redis_mode"), "standalone");
    EXPECT(s->port != s->tls_port && s->tls_port != 0);
    server_kill(s);
    EXPECT(kill(pid, 0) == -1 && errno == ESRCH);
    EXPECT(server_ask(s, "PING") == NULL);
    server_restart(s, false);
    EXPECT_STR(server_ask(s, "GET a"), "1");
    server_terminate(s);
    server_restart(s, true);
    EXPECT_STR(server_ask(s, "GET a"), "");
    server_stop(s);
}

static void server_has_a_password(void)
{
    server *s = server_start(&(server_options){.password = "secret"});
    int fd = dial(s->port);

    EXPECT_EQ(server_number(s, "INCR n"), 1);
    say(fd, PING);
    EXPECT_HAS(hear(fd), "NOAUTH");
    close(fd);
    server_stop(s);
}

static void certificates_are_made(void)
{
    char path[300];
    const char *names[] = {"ca.pem",     "other-ca.pem", "server.pem",
                           "server.key", "wrong.pem",    "client.pem",
                           "client.key", "expired.pem",  "expired.key"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", test_certificates(), names[i]);
        EXPECT(access(path, R_OK) == 0);
    }
}

/* ---- The proxy ---------------------------------------------------------- */

static void proxy_passes_and_counts(void)
{
    scene sc = begin();

    hear_rest(sc.fd);
    EXPECT_EQ(proxy_count(sc.p, "incr"), 1);
    EXPECT_EQ(proxy_count(sc.p, NULL), 2);
    EXPECT_EQ(proxy_connections(sc.p), 1);
    proxy_cut_all(sc.p);
    EXPECT_STR(hear(sc.fd), "ended");
    finish(&sc);
}

/* One act on the second INCR from now: what the client hears of three, and
 * what the server did. */
static void play(proxy_rule rule, const char *hears, long long executed)
{
    scene sc = begin();
    char got[4096] = "";

    hear_rest(sc.fd);
    rule.command = "INCR";
    rule.nth = 2;
    proxy_set(sc.p, &rule);
    say(sc.fd, INCR INCR PING INCR);
    for (;;) {
        const char *text = hear(sc.fd);

        snprintf(got + strlen(got), sizeof got - strlen(got), "%s", text);
        if (strcmp(text, "ended") == 0 || strcmp(text, "silent") == 0)
            break;
    }
    /* A RST may overtake what was said before it. */
    if (strcmp(got, "ended") != 0 || strcmp(hears, ":2\r\nended") != 0)
        EXPECT_STR(got, hears);
    EXPECT_EQ(proxy_struck(sc.p), 1);
    test_sleep_ms(20); /* what was passed on before a cut is executed */
    EXPECT_EQ(server_number(sc.s, "GET n"), executed);
    finish(&sc);
}

static void proxy_cuts_before(void)
{
    play((proxy_rule){.act = PROXY_CUT_BEFORE}, ":2\r\nended", 2);
}

static void proxy_loses_a_reply(void)
{
    play((proxy_rule){.act = PROXY_CUT_REPLY}, ":2\r\nended", 4);
}

static void proxy_swallows(void)
{
    play((proxy_rule){.act = PROXY_SWALLOW}, ":2\r\n+PONG\r\n:3\r\nsilent", 3);
}

static void proxy_drops(void)
{
    play((proxy_rule){.act = PROXY_DROP_REPLY}, ":2\r\n+PONG\r\n:4\r\nsilent",
         4);
}

static void proxy_truncates(void)
{
    play((proxy_rule){.act = PROXY_TRUNCATE}, ":2\r\n:3ended", 4);
}

static void proxy_replaces(void)
{
    play((proxy_rule){.act = PROXY_REPLACE, .text = "$-1\r\n"},
         ":2\r\n$-1\r\n+PONG\r\n:4\r\nsilent", 4);
}

static void proxy_delays(void)
{
    long long before = test_now_ms();

    play((proxy_rule){.act = PROXY_DELAY, .ms = 150},
         ":2\r\n:3\r\n+PONG\r\n:4\r\nsilent", 4);
    EXPECT(test_now_ms() - before >= 150);
}

static void proxy_knows_pushes(void)
{
    scene sc = begin();

    hear_rest(sc.fd);
    say(sc.fd, "*3\r\n$9\r\nSUBSCRIBE\r\n$1\r\na\r\n$1\r\nb\r\n");
    hear_rest(sc.fd);
    proxy_set(sc.p, &(proxy_rule){.command = "message",
                                  .word = "lost",
                                  .act = PROXY_DROP_REPLY});
    EXPECT_EQ(server_number(sc.s, "PUBLISH a lost"), 1);
    EXPECT_EQ(server_number(sc.s, "PUBLISH b told"), 1);
    const char *text = hear(sc.fd);
    EXPECT_HAS(text, "told");
    EXPECT(strstr(text, "lost") == NULL);
    EXPECT_EQ(proxy_struck(sc.p), 1);
    finish(&sc);
}

static void proxy_is_a_black_hole(void)
{
    scene sc = begin();

    hear_rest(sc.fd);
    proxy_black_hole(sc.p, true);
    say(sc.fd, INCR);
    EXPECT_STR(hear(sc.fd), "silent");
    EXPECT_EQ(server_number(sc.s, "GET n"), 1);
    proxy_black_hole(sc.p, false);
    EXPECT_STR(hear(sc.fd), ":2\r\n");
    proxy_refuse(sc.p, true);
    int fd = dial(proxy_port(sc.p));
    EXPECT_STR(hear(fd), "ended");
    close(fd);
    finish(&sc);
}

static const test_case cases[] = {
    TEST(server_comes_and_goes), TEST(server_has_a_password),
    TEST(certificates_are_made), TEST(proxy_passes_and_counts),
    TEST(proxy_cuts_before),     TEST(proxy_loses_a_reply),
    TEST(proxy_swallows),        TEST(proxy_drops),
    TEST(proxy_truncates),       TEST(proxy_replaces),
    TEST(proxy_delays),          TEST(proxy_knows_pushes),
    TEST(proxy_is_a_black_hole)};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "harness", cases,
                     sizeof cases / sizeof *cases);
}
