/* dial_test.c - connections that a real PostgreSQL refuses, and what is said
 * about it: each text names the cure, none the password. */
#include "pg_test.h"

#include <unistd.h>

static void expect_refusal(const char *url, int code, const char *says)
{
    hf_error err = {0};
    int got = refusal(url, &err);

    if (got != code || err.code != code || !strstr(err.text, says))
        FAIL_TEST("%s: %s, %s", url, hf_error_name(got), err.text);
    EXPECT(!strstr(err.text, "s3cret") && !strstr(err.text, "wr0ng"));
    EXPECT(!strchr(err.text, '\n'));
}

static void wrong_urls(void)
{
    static const char *const urls[] = {
        "postgres://h/db?tls=perhaps",    "postgres://h/db?host=/run",
        "postgres:///db?host=run",        "postgres://h/db?tls=no&ca_file=/x",
        "postgres://h/db?tls_verify=no",  "postgres://h/db?pooler=some",
        "postgres://a,b,c,d,e,f,g,h,i/db"};
    hf_error err;
    sql_port *port;

    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++)
        EXPECT_CODE(try_port(urls[i], NULL, &port, &err), HF_EURL);
}

static bool says_refused(const char *url)
{
    hf_error err = {0};

    return refusal(url, &err) == HF_EUNAVAIL && strstr(err.text, "refused");
}

static void nobody_there(void)
{
    sql_server *s = sql_server_start(ON_POSTGRES, NULL);
    char url[300];

    snprintf(url, sizeof url, "%s", sql_server_url(s, "", ""));
    expect_refusal("postgres://u:s3cret@no-such-host.invalid/db", HF_EUNAVAIL,
                   "resolved");
    sql_server_kill(s);
    /* Its children have the socket until they notice. */
    AWAIT(says_refused(url));
    expect_refusal(url, HF_EUNAVAIL, "refused");
    sql_server_stop(s);
}

static void passwords(void)
{
    sql_server *s =
        sql_server_start(ON_POSTGRES, &(sql_server_options){.tls = true});
    const char *url =
        sql_server_url(s, "keeper:s3cret", "tls=yes&tls_verify=no");
    sql_port *port = port_at(url, NULL);
    sql_conn *conn = conn_to(port);

    EXPECT_STR(ask(conn, "SELECT current_user"), "keeper");
    EXPECT_STR(sql_server_ask(s, "SELECT substr(rolpassword, 1, 6) FROM"
                                 " pg_authid WHERE rolname = 'keeper'"),
               "SCRAM-");
    port->class->disconnect(conn, false);
    port->class->close(port);
    expect_refusal(sql_server_url(s, "keeper:wr0ng", "tls=yes&tls_verify=no"),
                   HF_EAUTH, "password");
    unsetenv("PGPASSWORD");
    setenv("PGPASSFILE", "/nonexistent", 1);
    expect_refusal(sql_server_url(s, "keeper", "tls=yes&tls_verify=no"),
                   HF_EAUTH, "wants a password");
    expect_refusal(sql_server_url(s, "keeper:s3cret", "tls=no"), HF_EAUTH,
                   "pg_hba");
    expect_refusal(sql_server_url(s, "nobody:s3cret", "tls=yes&tls_verify=no"),
                   HF_EAUTH, "28");
    sql_server_stop(s);
}

/* An operator shuts it for a while: later, and not a mistake in the URL. */
static void shut_database(void)
{
    sql_server *s = sql_server_start(ON_POSTGRES, NULL);
    char url[100];

    sql_server_ask(s, "CREATE DATABASE shut ALLOW_CONNECTIONS false");
    snprintf(url, sizeof url, "postgres://postgres@127.0.0.1:%d/shut", s->port);
    expect_refusal(url, HF_EUNAVAIL, "nobody in");
    sql_server_stop(s);
}

static const char *with_ca(const char *file)
{
    static char query[4][300];
    static int turn;
    char *to = query[turn++ % 4];

    snprintf(to, sizeof query[0], "ca_file=%s/%s", test_certificates(), file);
    return to;
}

static void certificates(void)
{
    sql_server *s =
        sql_server_start(ON_POSTGRES, &(sql_server_options){.tls = true});
    sql_server *wrong = sql_server_start(
        ON_POSTGRES, &(sql_server_options){.tls = true, .wrong_name = true});
    sql_server *plain = sql_server_start(ON_POSTGRES, NULL);
    sql_port *port =
        port_at(sql_server_url(s, "keeper:s3cret", with_ca("ca.pem")), NULL);
    sql_conn *conn = conn_to(port);

    EXPECT_STR(ask(conn, "SELECT ssl FROM pg_stat_ssl WHERE pid ="
                         " pg_backend_pid()"),
               "t");
    port->class->disconnect(conn, true); /* no goodbye, and no hanging */
    port->class->close(port);
    expect_refusal(sql_server_url(s, "", with_ca("other-ca.pem")), HF_EAUTH,
                   "not of this CA");
    expect_refusal(sql_server_url(s, "", with_ca("missing.pem")), HF_EAUTH,
                   "ca_file");
    expect_refusal(sql_server_url(wrong, "", with_ca("ca.pem")), HF_EAUTH,
                   "another name");
    expect_refusal(sql_server_url(plain, "", with_ca("ca.pem")), HF_EAUTH,
                   "no TLS");
    setenv("HOME", "/nonexistent", 1);
    expect_refusal(sql_server_url(s, "", "tls=yes"), HF_EAUTH, "ca_file");
    sql_server_stop(plain);
    sql_server_stop(wrong);
    sql_server_stop(s);
}

static void databases_and_rights(void)
{
    sql_server *s =
        sql_server_start(ON_POSTGRES, &(sql_server_options){.tls = true});
    char url[300];

    snprintf(url, sizeof url, "postgres://postgres@127.0.0.1:%d/nowhere",
             s->port);
    expect_refusal(url, HF_EURL, "createdb");
    sql_server_ask(s,
                   "REVOKE CONNECT ON DATABASE holdfast FROM public, keeper");
    expect_refusal(sql_server_url(s, "keeper:s3cret", "tls=yes&tls_verify=no"),
                   HF_EPERM, "grants");
    sql_server_stop(s);
}

static void no_connection_left(void)
{
    sql_server *s = sql_server_start(
        ON_POSTGRES,
        &(sql_server_options){.more = {"-c", "max_connections=5", "-c",
                                       "superuser_reserved_connections=1", "-c",
                                       "max_wal_senders=0"}});
    sql_port *port = port_at(sql_server_url(s, "", ""), NULL);
    sql_conn *conns[8] = {0};
    hf_error err = {0};
    int n = 0, code = 0;

    while (n < 8 && (code = port->class->connect(port, in_ms(3000), &conns[n],
                                                 &err)) == 0)
        n++;
    EXPECT_CODE(code, HF_EUNAVAIL);
    EXPECT_HAS(err.text, "max_connections");
    for (int i = 0; i < n; i++)
        port->class->disconnect(conns[i], false);
    AWAIT(port->class->connect(port, in_ms(3000), &conns[0], &err) == 0);
    port->class->disconnect(conns[0], false);
    port->class->close(port);
    sql_server_stop(s);
}

/* A standby is refused; of two addresses the primary is found; one that is
 * promoted is taken. */
static void standbys(void)
{
    sql_server *s = sql_server_start(ON_POSTGRES, NULL);
    sql_server *copy =
        sql_server_start(ON_POSTGRES, &(sql_server_options){.copies = s});
    char url[300];
    sql_port *port;
    sql_conn *conn;
    hf_error err;

    expect_refusal(sql_server_url(copy, "", ""), HF_EUNAVAIL, "primary");
    snprintf(url, sizeof url,
             "postgres://postgres@127.0.0.1:%d,127.0.0.1:%d/holdfast",
             copy->port, s->port);
    port = port_at(url, NULL);
    conn = conn_to(port);
    EXPECT_EQ(strtol(ask(conn, "SHOW port"), NULL, 10), s->port);
    sql_server_kill(s);
    EXPECT_EQ(end_of(conn, "SELECT 1", 2000, &err), SQL_LOST);
    port->class->disconnect(conn, true);
    sql_server_promote(copy);
    conn = conn_to(port);
    EXPECT_EQ(strtol(ask(conn, "SHOW port"), NULL, 10), copy->port);
    port->class->disconnect(conn, false);
    port->class->close(port);
    sql_server_stop(copy);
    sql_server_stop(s);
}

static void by_unix_socket(void)
{
    sql_server *s = sql_server_start(ON_POSTGRES, NULL);
    char url[600], folder[400] = "";
    size_t n = 0;
    sql_port *port;
    sql_conn *conn;

    for (const char *at = s->folder; *at; at++)
        n += (size_t)snprintf(folder + n, sizeof folder - n,
                              *at == '/' ? "%%2F" : "%c", *at);
    snprintf(url, sizeof url, "postgres://postgres@%s:%d/holdfast", folder,
             s->port);
    port = port_at(url, NULL);
    conn = conn_to(port);
    EXPECT_STR(ask(conn, "SELECT inet_client_addr() IS NULL"), "t");
    port->class->disconnect(conn, true);
    port->class->close(port);
    sql_server_stop(s);
}

static const test_case cases[] = {
    TEST(wrong_urls),         TEST(nobody_there), TEST(passwords),
    TEST(shut_database),      TEST(certificates), TEST(databases_and_rights),
    TEST(no_connection_left), TEST(standbys),     TEST(by_unix_socket)};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "dial", cases, sizeof cases / sizeof *cases);
}
