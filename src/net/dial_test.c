/* dial_test.c - connections over TCP and Unix sockets: which address is taken,
 * what is said when none is, and that nobody waits longer than he was told. */
#include "harness/expect.h"
#include "harness/runner.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "net/dial.h"

static hf_nsec in_ms(int ms)
{
    return hfd_now() + HF_MS(ms);
}

static int listen_tcp(uint16_t *ret_port, int backlog)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    EXPECT(fd >= 0);
    EXPECT_EQ(bind(fd, (struct sockaddr *)&at, len), 0);
    if (backlog >= 0)
        EXPECT_EQ(listen(fd, backlog), 0);
    EXPECT_EQ(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    *ret_port = ntohs(at.sin_port);
    return fd;
}

/* A link and the peer's socket. */
static hf__link *connect_pair(int *ret_peer)
{
    hf__address address = {.host = "127.0.0.1"};
    int server = listen_tcp(&address.port, 8);
    hf__link *link = NULL;
    hf_error err = {0};

    EXPECT_OK(hf__dial(&link, &address, 1, 0, NULL, NULL, in_ms(5000), &err),
              err);
    *ret_peer = accept(server, NULL, NULL);
    EXPECT(*ret_peer >= 0);
    close(server);
    return link;
}

static void refused(void)
{
    hf__address address = {.host = "127.0.0.1"};
    int dead = listen_tcp(&address.port, -1); /* bound, not listening */
    hf__link *link = NULL;
    hf_error err = {0};
    char name[32];

    EXPECT_CODE(hf__dial(&link, &address, 1, 0, NULL, NULL, in_ms(5000), &err),
                HF_EUNAVAIL);
    snprintf(name, sizeof name, "127.0.0.1:%u: ", address.port);
    EXPECT_HAS(err.text, name);
    EXPECT_HAS(err.text, "Connection refused (is the server running?)");
    EXPECT_STR(err.driver, "net");
    EXPECT_EQ(err.native, ECONNREFUSED);
    EXPECT(link == NULL);
    close(dead);
}

static void first_is_dead(void)
{
    hf__address at[3] = {
        {.host = "127.0.0.1"}, {.host = "127.0.0.1"}, {.host = "localhost"}};
    int dead = listen_tcp(&at[0].port, -1), live = listen_tcp(&at[2].port, 8);
    hf__link *link = NULL;
    hf_error err = {0};
    size_t which = 9;

    at[1].port = at[0].port;
    EXPECT_OK(hf__dial(&link, at, 3, 0, &which, NULL, in_ms(5000), &err), err);
    EXPECT_EQ(which, 2); /* localhost may be ::1 first, where nobody listens */
    hf__link_close(link, false);
    EXPECT_OK(hf__dial(&link, at, 3, 2, &which, NULL, in_ms(5000), &err), err);
    EXPECT_EQ(which, 2);
    hf__link_close(link, false);
    /* Counted round, and all texts. */
    EXPECT_CODE(hf__dial(&link, at, 2, 1, NULL, NULL, in_ms(5000), &err),
                HF_EUNAVAIL);
    EXPECT_HAS(err.text, "; 127.0.0.1:");
    close(dead);
    close(live);
}

/* A server that does not accept: the address behind it has its share. */
static void first_is_silent(void)
{
    hf__address at[2] = {{.host = "127.0.0.1"}, {.host = "127.0.0.1"}};
    int full = listen_tcp(&at[0].port, 0), live = listen_tcp(&at[1].port, 8);
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                             .sin_port = htons(at[0].port)};
    int filling[4];
    hf__link *link = NULL;
    hf_error err = {0};
    size_t which = 9;

    for (int i = 0; i < 4; i++) {
        filling[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        EXPECT(connect(filling[i], (struct sockaddr *)&to, sizeof to) == 0 ||
               errno == EINPROGRESS);
    }
    test_sleep_ms(20);
    EXPECT_OK(hf__dial(&link, at, 2, 0, &which, NULL, in_ms(1500), &err), err);
    EXPECT_EQ(which, 1);
    hf__link_close(link, false);
    EXPECT_CODE(hf__dial(&link, at, 1, 0, NULL, NULL, in_ms(200), &err),
                HF_EUNAVAIL);
    EXPECT_EQ(err.native, ETIMEDOUT);
    for (int i = 0; i < 4; i++)
        close(filling[i]);
    close(full);
    close(live);
}

static void names(void)
{
    hf__address address = {.host = "no-such-host.invalid", .port = 1};
    hf__link *link = NULL;
    hf_error err = {0};

    EXPECT_CODE(hf__dial(&link, &address, 1, 0, NULL, NULL, in_ms(5000), &err),
                HF_EUNAVAIL);
    EXPECT_HAS(err.text, "'no-such-host.invalid' cannot be looked up");
    EXPECT_CODE(hf__dial(&link, &address, 0, 0, NULL, NULL, in_ms(5000), &err),
                HF_EUNAVAIL);
    EXPECT_HAS(err.text, "no address");
}

static void unix_socket(void)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    hf__address address = {.path = at.sun_path}, away = {.path = "/no/socket"};
    int server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), peer;
    char buf[8], longer[200];
    hf__link *link = NULL;
    hf_error err = {0};

    snprintf(at.sun_path, sizeof at.sun_path, "%s/s", test_folder());
    EXPECT_EQ(bind(server, (struct sockaddr *)&at, sizeof at), 0);
    EXPECT_EQ(listen(server, 4), 0);
    EXPECT_OK(hf__dial(&link, &address, 1, 0, NULL, NULL, in_ms(5000), &err),
              err);
    peer = accept(server, NULL, NULL);
    EXPECT_EQ(hf__link_send(link, "hello", 5, &err), 5);
    EXPECT_EQ(read(peer, buf, sizeof buf), 5);
    EXPECT_EQ(write(peer, "you", 3), 3);
    EXPECT_EQ(hf__link_recv(link, buf, sizeof buf, in_ms(5000), -1, &err), 3);
    hf__link_close(link, true);
    close(peer);
    close(server);

    EXPECT_CODE(hf__dial(&link, &away, 1, 0, NULL, NULL, in_ms(5000), &err),
                HF_EUNAVAIL);
    EXPECT_HAS(err.text, "/no/socket: No such file");
    memset(longer, 'a', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    away.path = longer;
    EXPECT_CODE(hf__dial(&link, &away, 1, 0, NULL, NULL, in_ms(5000), &err),
                HF_EURL);
}

static void on_alarm(int signal)
{
    (void)signal;
}

/* Signals do not end a wait early, and no wait ends before its instant. */
static void silence(void)
{
    struct sigaction action = {.sa_handler = on_alarm};
    struct itimerval often = {{0, 3000}, {0, 3000}}, never = {{0, 0}, {0, 0}};
    char buf[8];
    hf_error err = {0};
    int peer, wake = eventfd(0, EFD_CLOEXEC);
    hf__link *link = connect_pair(&peer);
    static const int waits[] = {40, 160, 5, 0, 90};

    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    for (int i = 0; i < 10; i++) {
        hf_nsec until = in_ms(waits[i / 2]);

        EXPECT_EQ(hf__link_recv(link, buf, sizeof buf, until, i % 2 ? wake : -1,
                                &err),
                  0);
        EXPECT(hfd_now() >= until);
    }
    setitimer(ITIMER_REAL, &never, NULL);
    EXPECT_EQ(hf__link_recv(link, buf, sizeof buf, 0, -1, &err), 0);
    /* An answer that is here is taken, late or not. */
    EXPECT_EQ(write(peer, "ab", 2), 2);
    EXPECT_EQ(hf__link_recv(link, buf, 1, 1, -1, &err), 1);
    EXPECT_EQ(hf__link_recv(link, buf, 1, 0, -1, &err), 1);
    EXPECT_EQ(eventfd_write(wake, 1), 0);
    EXPECT_EQ(hf__link_recv(link, buf, 8, in_ms(30000), wake, &err), 0);
    hf__link_close(link, false);
    close(peer);
    close(wake);
}

static void *cut_soon(void *link)
{
    test_sleep_ms(30);
    hf__link_cut(link);
    return NULL;
}

static void cut(void)
{
    char buf[8];
    hf_error err = {0};
    pthread_t thread;
    int peer;
    hf__link *link = connect_pair(&peer);

    pthread_create(&thread, NULL, cut_soon, link);
    EXPECT_EQ(hf__link_recv(link, buf, 8, in_ms(30000), -1, &err), -1);
    EXPECT_EQ(err.code, HF_EUNAVAIL);
    pthread_join(thread, NULL);
    EXPECT_EQ(hf__link_send(link, "x", 1, &err), -1); /* and no SIGPIPE */
    EXPECT_EQ(err.native, EPIPE);
    hf__link_close(link, false);
    close(peer);
}

static void ends(void)
{
    char buf[8];
    hf_error err = {0};
    int peer;
    hf__link *link = connect_pair(&peer);

    EXPECT_EQ(write(peer, "bye", 3), 3);
    close(peer);
    EXPECT_EQ(hf__link_recv(link, buf, 8, in_ms(5000), -1, &err), 3);
    EXPECT_EQ(hf__link_recv(link, buf, 8, in_ms(5000), -1, &err), -1);
    EXPECT_HAS(err.text, "the server closed the connection");
    hf__link_close(link, false);

    link = connect_pair(&peer);
    hf__link_close(link, true);
    EXPECT_EQ(read(peer, buf, 8), -1);
    EXPECT_EQ(errno, ECONNRESET);
    close(peer);

    link = connect_pair(&peer);
    hf__link_close(link, false);
    EXPECT_EQ(read(peer, buf, 8), 0);
    close(peer);
}

/* A peer that does not read: sending says so and does not wait. */
static void full(void)
{
    static char bytes[65536];
    hf_error err = {0};
    ssize_t sent, all = 0;
    int peer;
    hf__link *link = connect_pair(&peer);

    while ((sent = hf__link_send(link, bytes, sizeof bytes, &err)) > 0)
        all += sent;
    EXPECT_EQ(sent, 0);
    EXPECT(all > 0);
    hf__link_close(link, true);
    close(peer);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        TEST(refused), TEST(first_is_dead), TEST(first_is_silent),
        TEST(names),   TEST(unix_socket),   TEST(silence),
        TEST(cut),     TEST(ends),          TEST(full)};

    return run_tests(argc, argv, "dial", cases, sizeof cases / sizeof *cases);
}
