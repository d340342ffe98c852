/* place_test.c - what a URL says about a database, and what is refused in it.
 *
 * No server: that its words reach the client libraries is tested by the
 * drivers. */
#include "place.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/url.h"
#include "harness/expect.h"
#include "harness/runner.h"

static const sql_place_words words = {"test", "socket", 77};

static int read_place(sql_place *ret, const char *text, hf_error *err)
{
    hf_url *url = NULL;
    int code;

    *ret = (sql_place){0};
    EXPECT_CODE(hf__url_parse(&url, text, err), 0);
    code = sql_place_read(ret, url, &words, err);
    hf__url_free(url);
    return code;
}

static void expect_place(const char *text, const char *all, const char *first)
{
    char said[200];
    sql_place p;
    hf_error err;

    EXPECT_OK(read_place(&p, text, &err), err);
    sql_place_say(&p, said, sizeof said);
    EXPECT_STR(said, all);
    sql_place_say_host(&p, 0, said, sizeof said);
    EXPECT_STR(said, first);
    sql_place_done(&p);
    EXPECT(p.text == NULL && p.password == NULL);
}

static void expect_refusal(const char *text, const char *part)
{
    sql_place p;
    hf_error err;

    EXPECT_CODE(read_place(&p, text, &err), HF_EURL);
    EXPECT(strstr(err.text, part) != NULL);
    sql_place_done(&p);
}

static void hosts_and_names(void)
{
    sql_place p;
    hf_error err;

    expect_place("test:", "127.0.0.1:77", "127.0.0.1:77");
    expect_place("test://a/app", "a:77/app", "a:77");
    expect_place("test://a:1,b,c:3/app", "a:1,b:77,c:3/app", "a:1");
    expect_place("test:///app?socket=/run/s", "/run/s/app", "/run/s");
    EXPECT_OK(read_place(&p, "test://me:secret@a/app", &err), err);
    EXPECT_STR(p.user, "me");
    EXPECT_STR(p.password, "secret");
    EXPECT_STR(p.database, "app");
    EXPECT(p.socket == NULL);
    sql_place_done(&p);
    expect_refusal("test://a,b,c,d,e,f,g,h,i/app", "at most 8");
}

static sql_tls tls_of(const char *text, bool *ret_verify)
{
    sql_place p;
    hf_error err;
    sql_tls tls;

    EXPECT_OK(read_place(&p, text, &err), err);
    tls = p.tls;
    *ret_verify = p.tls_verify;
    sql_place_done(&p);
    return tls;
}

/* Who names a CA must not be served by a connection that asks nobody. */
static void secrecy(void)
{
    bool verify;

    EXPECT_EQ(tls_of("test://a/b", &verify), SQL_TLS_PREFER);
    EXPECT_EQ(tls_of("test://a/b?tls=no", &verify), SQL_TLS_NO);
    EXPECT_EQ(tls_of("test://a/b?tls=prefer", &verify), SQL_TLS_PREFER);
    EXPECT_EQ(tls_of("test://a/b?tls=yes", &verify), SQL_TLS_YES);
    EXPECT(verify);
    EXPECT_EQ(tls_of("test://a/b?ca_file=/ca", &verify), SQL_TLS_YES);
    EXPECT(verify);
    EXPECT_EQ(tls_of("test://a/b?tls=yes&tls_verify=no", &verify), SQL_TLS_YES);
    EXPECT(!verify);
    expect_refusal("test://a/b?tls=maybe", "yes, no or prefer");
    expect_refusal("test://a/b?tls=no&ca_file=/ca", "for tls=yes");
    expect_refusal("test://a/b?tls=prefer&cert_file=/c", "for tls=yes");
    expect_refusal("test://a/b?key_file=/k", "for tls=yes");
    expect_refusal("test://a/b?tls_verify=no", "for tls=yes");
    expect_refusal("test://a/b?tls=yes&tls_verify=perhaps", "tls_verify");
}

/* The last host has all that is left, the others a share; none waits for
 * ever. */
static void turns(void)
{
    hf_nsec now = hfd_now(), end = now + HF_MS(9000);
    sql_place p;
    hf_error err;

    EXPECT_OK(read_place(&p, "test://a,b,c/app", &err), err);
    EXPECT(sql_place_turn(&p, 0, end) >= now + HF_MS(3000));
    EXPECT(sql_place_turn(&p, 0, end) < end);
    EXPECT(sql_place_turn(&p, 2, end) >= end - HF_MS(1));
    EXPECT(sql_place_turn(&p, 2, end) <= end);
    EXPECT(sql_place_turn(&p, 0, now - HF_MS(1)) <= hfd_now());
    EXPECT(sql_place_turn(&p, 0, HF_NEVER) <= hfd_now() + HF_MS(30000));
    EXPECT(sql_place_turn(&p, 0, now + HF_MS(600000)) <=
           hfd_now() + HF_MS(30000));
    sql_place_done(&p);
}

/* What is said afterwards reaches nobody; the descriptor stays open. */
static void reset_ends_a_connection(void)
{
    int pair[2];
    char byte;

    EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    sql_reset_socket(pair[0]);
    EXPECT(send(pair[0], "x", 1, MSG_NOSIGNAL) < 0);
    EXPECT_EQ(recv(pair[1], &byte, 1, 0), 0);
    EXPECT_EQ(close(pair[0]), 0);
    EXPECT_EQ(close(pair[1]), 0);
    sql_reset_socket(-1);
}

static const test_case cases[] = {TEST(hosts_and_names), TEST(secrecy),
                                  TEST(turns), TEST(reset_ends_a_connection)};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "sql_place", cases,
                     sizeof cases / sizeof *cases);
}
