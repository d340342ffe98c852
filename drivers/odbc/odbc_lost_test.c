/* odbc_lost_test.c - connections that end, and the sockets under them.
 *
 * The server kills one, stands still, is gone, a child inherits one: each time
 * the call ends in time, says what is known of the statement, and no other
 * socket of the process is touched. */
#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "odbc_port_test.h"

static void check_killed(world *w, const char *who, const char *kill_format)
{
    sql_text update;
    char id[40];

    make_table(w);
    make_text(&update, true, 2, "UPDATE t SET n = ? WHERE k = ?");
    EXPECT_EQ(run(w, &update, "5", "a"), SQL_DONE);
    EXPECT(((odbc_conn *)w->conn)->fd >= 0);
    /* Seen before it is used. */
    SAY(w, who);
    snprintf(id, sizeof id, "%s", sql_cell(&w->rows, 0, 0));
    EXPECT(odbc_stands(w->conn));
    sql_server_ask(w->server, kill_format, id);
    EXPECT(WAIT_FOR(!odbc_stands(w->conn), 5000));
    /* Used nevertheless: nobody knows, and it is not used again. */
    EXPECT_EQ(run(w, &update, "6", "a"), SQL_LOST);
    EXPECT_EQ(w->err.code, HF_EUNAVAIL);
    EXPECT_EQ(run(w, &update, "6", "a"), SQL_BROKEN);
    odbc_disconnect(w->conn, true);
    w->conn = connect_more(w);
    EXPECT_EQ(run(w, &update, "6", "a"), SQL_DONE);
}

static void postgres_killed(void)
{
    world w;

    begin(&w, ON_POSTGRES);
    check_killed(&w, "SELECT pg_backend_pid()",
                 "SELECT pg_terminate_backend(%s)");
    end(&w);
}

static void mariadb_killed(void)
{
    world w;

    begin(&w, ON_MARIADB);
    check_killed(&w, "SELECT connection_id()", "KILL %s");
    end(&w);
}

/* Its threads stop one by one, a moment after the signal was sent. */
static void pause_server(sql_server *server)
{
    sql_server_pause(server);
    test_sleep_ms(100);
}

/* The server stands still: the call ends at its deadline all the same. */
static void check_paused(world *w)
{
    const char *params[] = {"5", "a"};
    sql_text update;
    hf_nsec begun;

    make_table(w);
    make_text(&update, true, 2, "UPDATE t SET n = ? WHERE k = ?");
    EXPECT_EQ(run(w, &update, "4", "a"), SQL_DONE);
    pause_server(w->server);
    begun = hfd_now();
    EXPECT_EQ(odbc_run(w->conn, &update, params, begun + HF_MS(300), &w->rows,
                       NULL, &w->err),
              SQL_LOST);
    EXPECT_HAS(w->err.text, "in time");
    EXPECT(hfd_now() - begun >= HF_MS(300));
    odbc_disconnect(w->conn, true); /* does not wait either */
    EXPECT(hfd_now() - begun < HF_MS(5000));
    w->conn = NULL;
    EXPECT_CODE(odbc_connect(&w->port->base, hfd_now() + HF_MS(1000), &w->conn,
                             &w->err),
                HF_EUNAVAIL);
    sql_server_continue(w->server);
    w->conn = connect_more(w);
    EXPECT_EQ(run(w, &update, "4", "a"), SQL_DONE);
    /* Gone altogether. */
    sql_server_kill(w->server);
    EXPECT(WAIT_FOR(!odbc_stands(w->conn), 5000));
    EXPECT_EQ(run(w, &update, "4", "a"), SQL_LOST);
    odbc_disconnect(w->conn, true);
    w->conn = NULL;
    EXPECT_CODE(odbc_connect(&w->port->base, soon(), &w->conn, &w->err),
                HF_EUNAVAIL);
}

static void postgres_paused(void)
{
    world w;

    begin(&w, ON_POSTGRES);
    check_paused(&w);
    end(&w);
}

static void mariadb_paused(void)
{
    world w;

    begin(&w, ON_MARIADB);
    check_paused(&w);
    end(&w);
}

/* The same by another way to the same server. */
static void other_paused(sql_server_kind kind, bool tls, const char *format)
{
    const char *params[] = {"5", "a"};
    char url[700];
    sql_text update;
    world w;

    begin_with(&w, kind, &(sql_server_options){.tls = tls});
    make_table(&w);
    odbc_disconnect(w.conn, false);
    w.port->base.class->close(&w.port->base);
    snprintf(url, sizeof url, format, w.server->folder, w.server->port);
    EXPECT_OK(open_url(url, &w.port, &w.err), w.err);
    w.conn = connect_more(&w);
    EXPECT(((odbc_conn *)w.conn)->fd >= 0);
    make_text(&update, true, 2, "UPDATE t SET n = ? WHERE k = ?");
    EXPECT_EQ(run(&w, &update, "4", "a"), SQL_DONE);
    pause_server(w.server);
    EXPECT_EQ(odbc_run(w.conn, &update, params, hfd_now() + HF_MS(300), &w.rows,
                       NULL, &w.err),
              SQL_LOST);
    odbc_disconnect(w.conn, true);
    w.conn = NULL;
    sql_server_continue(w.server);
    end(&w);
}

/* A Unix socket knows no RST; the call ends all the same. */
static void postgres_local(void)
{
    other_paused(ON_POSTGRES, false,
                 "odbc:Driver=PostgreSQL Unicode;Server=%s;"
                 "Port=%d;Database=holdfast;Uid=postgres");
}

static void mariadb_local(void)
{
    other_paused(ON_MARIADB, false,
                 "odbc:Driver=MariaDB Unicode;Server=localhost;"
                 "Socket=%s/socket;Port=%d;Database=holdfast;"
                 "Uid=root");
}

/* OpenSSL stands between the driver and the socket that was cut. */
static void postgres_tls(void)
{
    other_paused(ON_POSTGRES, true,
                 "odbc:Application=%s;Driver=PostgreSQL Unicode;"
                 "Server=127.0.0.1;Port=%d;Database=holdfast;Uid=postgres;"
                 "SSLmode=require");
}

static void mariadb_tls(void)
{
    other_paused(ON_MARIADB, true,
                 "odbc:Application=%s;Driver=MariaDB Unicode;"
                 "Server=127.0.0.1;Port=%d;Database=holdfast;Uid=keeper;"
                 "Pwd=s3cret;FORCETLS=1");
}

/* A child closes its copies; the parent's connection works on. */
static void forked(void)
{
    sql_text update;
    world w;

    begin(&w, ON_POSTGRES);
    make_table(&w);
    make_text(&update, true, 2, "UPDATE t SET n = ? WHERE k = ?");
    EXPECT_EQ(run(&w, &update, "5", "a"), SQL_DONE);
    int theirs = ((odbc_conn *)w.conn)->theirs;
    pid_t child = fork();

    if (child == 0) {
        odbc_abandon(w.conn);
        w.port->base.class->abandon_port(&w.port->base);
        _exit(write(theirs, "x", 1) < 0 ? 0 : 1);
    }
    int status;

    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(run(&w, &update, "6", "a"), SQL_DONE);
    end(&w);
}

/* ---- Sockets ---- */

static int connected_to(int listener)
{
    struct sockaddr_in where;
    socklen_t len = sizeof where;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    EXPECT_EQ(getsockname(listener, (struct sockaddr *)&where, &len), 0);
    EXPECT_EQ(connect(fd, (struct sockaddr *)&where, len), 0);
    return fd;
}

/* One more is the driver's; two more are nobody's. */
static void sockets(void)
{
    struct sockaddr_in any = {.sin_family = AF_INET};
    int listener = socket(AF_INET, SOCK_STREAM, 0), theirs = -1;
    odbc_sockets before;

    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(bind(listener, (struct sockaddr *)&any, sizeof any), 0);
    EXPECT_EQ(listen(listener, 8), 0);
    int old = connected_to(listener);

    odbc_sockets_note(&before);
    EXPECT_EQ(odbc_sockets_find(&before, &theirs), -1);
    int one = connected_to(listener);
    int ours = odbc_sockets_find(&before, &theirs);

    EXPECT(ours >= 0);
    EXPECT_EQ(theirs, one);
    EXPECT(odbc_socket_quiet(ours));
    int other = connected_to(listener);

    EXPECT_EQ(odbc_sockets_find(&before, &theirs), -1);
    odbc_sockets_done(&before);
    /* The cut reaches the driver's descriptor through ours. */
    odbc_socket_cut(ours);
    EXPECT(!odbc_socket_quiet(one));
    EXPECT(odbc_socket_quiet(other));
    close(ours);
    close(one);
    close(other);
    close(old);
    close(listener);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        TEST(sockets),        TEST(postgres_killed), TEST(postgres_paused),
        TEST(mariadb_killed), TEST(mariadb_paused),  TEST(forked),
        TEST(postgres_tls),   TEST(mariadb_tls),     TEST(postgres_local),
        TEST(mariadb_local),
    };

    return run_tests(argc, argv, "odbc_lost", cases,
                     sizeof cases / sizeof *cases);
}
