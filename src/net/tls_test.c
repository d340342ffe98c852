/* tls_test.c - TLS with a real server: who is believed, and what is said when
 * somebody is not.  The certificates are made for the test. */
#include "harness/expect.h"
#include "harness/runner.h"
#include "harness/server.h"

#include <arpa/inet.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net/dial.h"

static char paths[8][300];

static const char *file(int slot, const char *name)
{
    snprintf(paths[slot], sizeof paths[slot], "%s/%s", test_certificates(),
             name);
    return paths[slot];
}

/* Dial and say PING; the code, and the link's or the error's text. */
static int ping(const char *host, int port, const hf__tls_options *options,
                hf_error *err)
{
    hf__address address = {.host = host, .port = (uint16_t)port};
    hf_nsec until = hfd_now() + HF_MS(10000);
    char buf[64] = "";
    hf__tls *tls = NULL;
    hf__link *link = NULL;
    ssize_t got;
    int rc = hf__tls_new(&tls, options, err);

    if (rc != 0)
        return rc;
    rc = hf__dial(&link, &address, 1, 0, NULL, tls, until, err);
    if (rc == 0) {
        got = hf__link_send(link, "PING\r\n", 6, err);
        /* A server that refuses us may have closed by now; its last word is
         * there all the same. */
        if (got == 6 || got < 0)
            got = hf__link_recv(link, buf, sizeof buf - 1, until, -1, err);
        rc = got < 0 ? err->code : 0;
        if (rc == 0)
            EXPECT_STR(buf, "+PONG\r\n");
        hf__link_close(link, false);
    }
    hf__tls_free(tls);
    return rc;
}

static void believed(void)
{
    server *s = server_start(&(server_options){.tls = true});
    hf__tls_options good = {.ca_file = file(0, "ca.pem")};
    hf_error err = {0};

    EXPECT_OK(ping("localhost", s->tls_port, &good, &err), err);
    EXPECT_OK(ping("127.0.0.1", s->tls_port, &good, &err), err); /* IP SAN */
    good.server_name = "localhost";
    EXPECT_OK(ping("127.0.0.1", s->tls_port, &good, &err), err);
    server_stop(s);
}

static void not_believed(void)
{
    server *s = server_start(&(server_options){.tls = true});
    hf__tls_options wrong = {.ca_file = file(0, "other-ca.pem")};
    hf__tls_options name = {.ca_file = file(1, "ca.pem"),
                            .server_name = "elsewhere.invalid"};
    hf__tls_options number = {.ca_file = file(1, "ca.pem"),
                              .server_name = "127.0.0.9"};
    hf__tls_options insecure = {.insecure = true};
    hf__tls_options plain = {.ca_file = file(1, "ca.pem")};
    hf_error err = {0};

    EXPECT_CODE(ping("localhost", s->tls_port, &wrong, &err), HF_EAUTH);
    EXPECT_HAS(err.text, "certificate of 'localhost' refused: ");
    EXPECT_HAS(err.text, "(set ca_file=)");
    EXPECT_CODE(ping("localhost", s->tls_port, &name, &err), HF_EAUTH);
    EXPECT_HAS(err.text, "'elsewhere.invalid' refused: host name mismatch");
    EXPECT_HAS(err.text, "set tls_name= to what it names");
    EXPECT_CODE(ping("localhost", s->tls_port, &number, &err), HF_EAUTH);
    EXPECT_HAS(err.text, "IP address mismatch");
    EXPECT_OK(ping("localhost", s->tls_port, &insecure, &err), err);
    /* A port without TLS. */
    EXPECT_CODE(ping("localhost", s->port, &plain, &err), HF_EUNAVAIL);
    EXPECT_HAS(err.text, "does the server speak");
    server_stop(s);
}

static void client_certificate(void)
{
    server *s = server_start(&(server_options){.tls_clients = true});
    hf__tls_options none = {.ca_file = file(0, "ca.pem")};
    hf__tls_options mine = {.ca_file = file(0, "ca.pem"),
                            .cert_file = file(1, "client.pem"),
                            .key_file = file(2, "client.key")};
    hf__tls_options stranger = {.ca_file = file(0, "ca.pem"),
                                .cert_file = file(3, "other-ca.pem"),
                                .key_file = file(4, "other-ca.key")};
    hf_error err = {0};

    EXPECT_OK(ping("localhost", s->tls_port, &mine, &err), err);
    EXPECT_CODE(ping("localhost", s->tls_port, &none, &err), HF_EAUTH);
    EXPECT_HAS(err.text, "(set cert_file=)");
    EXPECT_CODE(ping("localhost", s->tls_port, &stranger, &err), HF_EAUTH);
    EXPECT_HAS(err.text, "our certificate");
    server_stop(s);
}

static void files(void)
{
    hf__tls_options away = {.ca_file = "/no/ca.pem"};
    hf__tls_options empty = {.ca_file = "/dev/null"};
    hf__tls_options lone = {.key_file = file(0, "client.key")};
    hf__tls_options other = {.cert_file = file(1, "client.pem"),
                             .key_file = file(2, "server.key")};
    hf__tls *tls = NULL;
    hf_error err = {0};

    EXPECT_CODE(hf__tls_new(&tls, &away, &err), HF_EURL);
    EXPECT_HAS(err.text, "ca_file '/no/ca.pem': No such file");
    EXPECT_CODE(hf__tls_new(&tls, &empty, &err), HF_EURL);
    EXPECT_HAS(err.text, "'/dev/null' cannot be used");
    EXPECT_CODE(hf__tls_new(&tls, &lone, &err), HF_EURL);
    EXPECT_HAS(err.text, "without a cert_file");
    EXPECT_CODE(hf__tls_new(&tls, &other, &err), HF_EURL);
    EXPECT_HAS(err.text, "server.key' cannot be used");
    EXPECT(tls == NULL);
}

/* Somebody accepts and says nothing: the handshake ends in time. */
static void silent(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    hf__tls_options options = {.insecure = true};
    hf__address address = {.host = "127.0.0.1"};
    hf__link *link = NULL;
    hf__tls *tls = NULL;
    hf_error err = {0};

    EXPECT_EQ(bind(fd, (struct sockaddr *)&at, len), 0);
    EXPECT_EQ(listen(fd, 4), 0);
    EXPECT_EQ(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    address.port = ntohs(at.sin_port);
    EXPECT_OK(hf__tls_new(&tls, &options, &err), err);
    EXPECT_CODE(hf__dial(&link, &address, 1, 0, NULL, tls,
                         hfd_now() + HF_MS(100), &err),
                HF_EUNAVAIL);
    EXPECT_HAS(err.text, "TLS handshake");
    hf__tls_free(tls);
    close(fd);
}

/* More than a record, in pieces smaller than a record: what OpenSSL keeps is
 * told although the socket is empty. */
static void long_reply(void)
{
    server *s = server_start(&(server_options){.tls = true});
    hf__tls_options options = {.ca_file = file(0, "ca.pem")};
    hf__address address = {.host = "localhost", .port = (uint16_t)s->tls_port};
    static const char ask[] = "EVAL \"return string.rep('x', 50000)\" 0\r\n";
    hf_nsec until = hfd_now() + HF_MS(20000);
    hf__link *link = NULL;
    hf__tls *tls = NULL;
    hf_error err = {0};
    char buf[1000];
    ssize_t all = 0, got;

    EXPECT_OK(hf__tls_new(&tls, &options, &err), err);
    EXPECT_OK(hf__dial(&link, &address, 1, 0, NULL, tls, until, &err), err);
    EXPECT_EQ(hf__link_send(link, ask, sizeof ask - 1, &err), sizeof ask - 1);
    while (all < 50000 + 10) { /* $50000 CRLF ... CRLF */
        got = hf__link_recv(link, buf, sizeof buf, until, -1, &err);
        EXPECT(got > 0);
        all += got;
    }
    EXPECT_EQ(all, 50010);
    hf__link_close(link, true);
    hf__tls_free(tls);
    server_stop(s);
}

/* The name of the program is its caller's: nothing is loaded from there. */
static void not_beside_the_program(void)
{
    char name[400], object[400];
    char which[] = "files", *words[] = {name, which, NULL};
    int status = 0;
    FILE *made;
    pid_t pid;

    snprintf(name, sizeof name, "%s/name", test_folder());
    snprintf(object, sizeof object, "%s/holdfast-tls.so", test_folder());
    made = fopen(object, "w");
    EXPECT(made != NULL);
    EXPECT(fputs("not an object", made) >= 0 && fclose(made) == 0);
    EXPECT_EQ(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, words, environ),
              0);
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_EQ(status, 0);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {TEST(believed),
                                      TEST(not_believed),
                                      TEST(client_certificate),
                                      TEST(files),
                                      TEST(silent),
                                      TEST(long_reply),
                                      TEST(not_beside_the_program)};

    return run_tests(argc, argv, "tls", cases, sizeof cases / sizeof *cases);
}
