/* my_dial_test.c - connections that a real MariaDB refuses, and what is said
 * about it: each text names the cure, none the password. */
#include "my_test.h"

#include <fcntl.h>
#include <unistd.h>

static void expect_refusal(const char *url, int code, const char *says)
{
    hf_error err = {0};
    sql_port *port = NULL;
    int got = try_port(url, NULL, &port, &err);

    if (got != code || err.code != code || !strstr(err.text, says))
        FAIL_TEST("%s: %s, %s", url, hf_error_name(got), err.text);
    EXPECT(!strstr(err.text, "s3cret") && !strstr(err.text, "wr0ng"));
    EXPECT(!strchr(err.text, '\n'));
}

static void wrong_urls(void)
{
    static const char *const urls[] = {"mysql://h/db?tls=perhaps",
                                       "mysql://h/db?socket=/run/x",
                                       "mysql:///db?socket=run",
                                       "mysql:///db?socket=/run/x&tls=yes",
                                       "mysql://h/db?tls=no&ca_file=/x",
                                       "mysql://h/db?tls_verify=no",
                                       "mysql://h/db?returning=some",
                                       "mysql://h/",
                                       "mysql://h",
                                       "mysql://a,b,c,d,e,f,g,h,i/db"};

    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++)
        expect_refusal(urls[i], HF_EURL, "");
}

static void nobody_there(void)
{
    sql_server *s = sql_server_start(ON_MARIADB, NULL);
    char url[300];

    snprintf(url, sizeof url, "%s", sql_server_url(s, "", ""));
    expect_refusal("mysql://u:s3cret@no-such-host.invalid/db", HF_EUNAVAIL,
                   "resolved");
    sql_server_kill(s);
    expect_refusal(url, HF_EUNAVAIL, "nobody answers");
    expect_refusal("mysql:///db?socket=/nonexistent/socket", HF_EUNAVAIL,
                   "nobody answers");
    sql_server_stop(s);
}

/* The first of two hosts is dead, or stopped and silent: the second is found,
 * in its share of the time. */
static void the_second_host(void)
{
    sql_server *s = sql_server_start(ON_MARIADB, NULL);
    sql_server *other = sql_server_start(ON_MARIADB, NULL);
    char url[300];
    sql_conn *conn;
    sql_port *port;

    snprintf(url, sizeof url, "mysql://root@127.0.0.1:%d,127.0.0.1:%d/holdfast",
             other->port, s->port);
    port = port_at(url, NULL);
    conn = conn_to(port);
    EXPECT_EQ(atoi(ask(conn, "SELECT @@port")), other->port);
    port->class->disconnect(conn, false);
    pause_all(other);
    conn = conn_to(port);
    EXPECT_EQ(atoi(ask(conn, "SELECT @@port")), s->port);
    port->class->disconnect(conn, false);
    sql_server_continue(other);
    /* A replica is passed over, and told of if there is nothing else. */
    sql_server_ask(other, "SET GLOBAL read_only = 1");
    conn = conn_to(port);
    EXPECT_EQ(atoi(ask(conn, "SELECT @@port")), s->port);
    leave(port, conn);
    expect_refusal(sql_server_url(other, "", ""), HF_EUNAVAIL, "primary");
    sql_server_stop(other);
    sql_server_stop(s);
}

static void passwords(void)
{
    sql_server *s =
        sql_server_start(ON_MARIADB, &(sql_server_options){.tls = true});
    sql_port *port = port_at(
        sql_server_url(s, "keeper:s3cret", "tls=yes&tls_verify=no"), NULL);
    sql_conn *conn = conn_to(port);

    EXPECT_HAS(ask(conn, "SELECT CURRENT_USER()"), "keeper@");
    leave(port, conn);
    expect_refusal(sql_server_url(s, "keeper:wr0ng", "tls=yes&tls_verify=no"),
                   HF_EAUTH, "password");
    expect_refusal(sql_server_url(s, "keeper", "tls=yes&tls_verify=no"),
                   HF_EAUTH, "password");
    /* The account asks for TLS. */
    expect_refusal(sql_server_url(s, "keeper:s3cret", "tls=no"), HF_EAUTH,
                   "password");
    expect_refusal(sql_server_url(s, "nobody:s3cret", ""), HF_EAUTH,
                   "password");
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
        sql_server_start(ON_MARIADB, &(sql_server_options){.tls = true});
    sql_server *wrong = sql_server_start(
        ON_MARIADB, &(sql_server_options){.tls = true, .wrong_name = true});
    sql_server *plain = sql_server_start(ON_MARIADB, NULL);
    sql_port *port =
        port_at(sql_server_url(s, "keeper:s3cret", with_ca("ca.pem")), NULL);
    sql_conn *conn = conn_to(port);

    EXPECT(ask(conn, "SELECT VARIABLE_VALUE FROM information_schema."
                     "SESSION_STATUS WHERE VARIABLE_NAME = 'SSL_CIPHER'")[0]);
    EXPECT(port->class->stands(conn));
    leave(port, conn);
    /* By default TLS is used where the server has it, and nobody verified. */
    port = port_at(sql_server_url(s, "", ""), NULL);
    conn = conn_to(port);
    EXPECT(((my_conn *)conn)->tls);
    leave(port, conn);
    port = port_at(sql_server_url(plain, "", ""), NULL);
    conn = conn_to(port);
    EXPECT(!((my_conn *)conn)->tls);
    leave(port, conn);
    expect_refusal(sql_server_url(s, "", with_ca("other-ca.pem")), HF_EAUTH,
                   "not of this CA");
    expect_refusal(sql_server_url(s, "", with_ca("missing.pem")), HF_EAUTH,
                   "ca_file");
    expect_refusal(sql_server_url(s, "", "tls=yes"), HF_EAUTH,
                   "not of this CA");
    expect_refusal(sql_server_url(wrong, "", with_ca("ca.pem")), HF_EAUTH,
                   "another name");
    expect_refusal(sql_server_url(plain, "", with_ca("ca.pem")), HF_EAUTH,
                   "no TLS");
    expect_refusal(sql_server_url(plain, "", "tls=yes&tls_verify=no"), HF_EAUTH,
                   "no TLS");
    sql_server_stop(plain);
    sql_server_stop(wrong);
    sql_server_stop(s);
}

static void databases_and_rights(void)
{
    sql_server *s = sql_server_start(ON_MARIADB, NULL);
    char url[300];

    snprintf(url, sizeof url, "mysql://root@127.0.0.1:%d/nowhere", s->port);
    expect_refusal(url, HF_EURL, "create it");
    sql_server_ask(s, "CREATE USER poor@'%%' IDENTIFIED BY 's3cret'");
    expect_refusal(sql_server_url(s, "poor:s3cret", ""), HF_EPERM, "grants");
    sql_server_stop(s);
}

static void no_connection_left(void)
{
    sql_server *s = sql_server_start(
        ON_MARIADB, &(sql_server_options){.more = {"--max-connections=10"}});
    sql_conn *conns[20] = {0};
    hf_error err = {0};
    sql_port *port;
    int n = 0, code = 0;

    sql_server_ask(s, "GRANT ALL ON holdfast.* TO poor@'%%' IDENTIFIED BY 'x'");
    port = port_at(sql_server_url(s, "poor:x", ""), NULL);
    while (n < 20 && (code = port->class->connect(port, in_ms(3000), &conns[n],
                                                  &err)) == 0)
        n++;
    EXPECT_CODE(code, HF_EUNAVAIL);
    EXPECT_HAS(err.text, "max_connections");
    for (int i = 0; i < n; i++)
        port->class->disconnect(conns[i], false);
    AWAIT(port->class->connect(port, in_ms(3000), &conns[0], &err) == 0);
    leave(port, conns[0]);
    sql_server_stop(s);
}

/* The deadline is milliseconds, and nothing is left behind. */
static void silence(void)
{
    sql_server *s = sql_server_start(ON_MARIADB, NULL);
    sql_port *port = port_at(sql_server_url(s, "", ""), NULL);
    sql_conn *spare = conn_to(port), *conn = NULL;
    hf_error err;

    pause_all(s);
    for (int i = 0; i < 3; i++) {
        hf_nsec before = hfd_now();

        EXPECT_CODE(port->class->connect(port, in_ms(200), &conn, &err),
                    HF_EUNAVAIL);
        EXPECT_HAS(err.text, "in time");
        EXPECT(hfd_now() - before >= HF_MS(200));
    }
    sql_server_continue(s);
    conn = conn_to(port);
    EXPECT(fcntl(mysql_get_socket(((my_conn *)conn)->my), F_GETFD) &
           FD_CLOEXEC);
    port->class->disconnect(spare, false);
    leave(port, conn);
    sql_server_stop(s);
}

/* What our statements need is set, whatever the server's defaults are. */
static void the_session(void)
{
    sql_server *s = sql_server_start(
        ON_MARIADB,
        &(sql_server_options){
            .more = {"--transaction-isolation=SERIALIZABLE", "--autocommit=0",
                     "--sql-mode=", "--innodb-lock-wait-timeout=50"}});
    sql_port *port = port_at(sql_server_url(s, "", ""), NULL);
    sql_conn *conn = conn_to(port);

    EXPECT_STR(ask(conn, "SELECT @@tx_isolation"), "READ-COMMITTED");
    EXPECT_STR(ask(conn, "SELECT @@autocommit"), "1");
    EXPECT_STR(ask(conn, "SELECT @@innodb_lock_wait_timeout"), "1");
    EXPECT_HAS(ask(conn, "SELECT @@sql_mode"), "STRICT_ALL_TABLES");
    EXPECT_STR(ask(conn, "SELECT @@max_statement_time"), "2.000000");
    EXPECT_STR(ask(conn, "SELECT @@character_set_client"), "utf8mb4");
    EXPECT(port->dialect == &sql_mariadb);
    leave(port, conn);
    port = port_at(sql_server_url(s, "", "returning=no"), NULL);
    EXPECT(port->dialect == &sql_mysql);
    port->class->close(port);
    sql_server_stop(s);
}

static const test_case cases[] = {
    TEST(wrong_urls),         TEST(nobody_there), TEST(the_second_host),
    TEST(passwords),          TEST(certificates), TEST(databases_and_rights),
    TEST(no_connection_left), TEST(silence),      TEST(the_session)};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "my_dial", cases,
                     sizeof cases / sizeof *cases);
}
