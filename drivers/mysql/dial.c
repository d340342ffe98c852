/* dial.c - a connection to MariaDB or MySQL: made, looked at, ended.
 *
 * Answers: how do we come to a connection that stands by a deadline, with the
 * settings that our statements need, and how do we leave it?  Knows nothing of
 * statements' meaning.
 *
 * Hosts are tried one by one, each with its share of the time: a dead first one
 * does not eat it all.  (The resolver of names knows no deadline.)  A server
 * that is read-only is passed over, also for an account that might write there
 * all the same: a lock that is written on a replica is seen by nobody.
 *
 * READ COMMITTED: what a statement of ours reads beside the row that it locks
 * is read without a lock and as it is now.  The server ends a statement that
 * waits for a row, or for a table's definition, before a lease is in danger.
 *
 * Two of us here: a connection has one owner.  Paused here: the server sees an
 * idle session.  After a statement that was given up the connection is ended by
 * a reset, so that its bytes do not arrive later. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "my.h"

/* Resolving names runs on the library's own stack, too. */
enum { STACK_SIZE = 256 * 1024, SETUP_MAX = 400 };

/* ---- The library -------------------------------------------------------- */

static pthread_once_t library_once = PTHREAD_ONCE_INIT;
static int library_failed;

/* The library makes each TLS context under a lock of its own, for milliseconds.
 * A child that is forked meanwhile would find it taken for ever, and could not
 * open a session of its own: so a fork waits for that, and for the network only
 * while a name is resolved. */
static pthread_mutex_t fork_mu = PTHREAD_MUTEX_INITIALIZER;

static void hold_forks(void)
{
    pthread_mutex_lock(&fork_mu);
}

static void let_fork(void)
{
    pthread_mutex_unlock(&fork_mu);
}

/* It sets SIGPIPE aside for the whole process, which is not its to do. */
static void start_library(void)
{
    struct sigaction before;

    sigaction(SIGPIPE, NULL, &before);
    library_failed = mysql_library_init(0, NULL, NULL);
    sigaction(SIGPIPE, &before, NULL);
    if (!library_failed)
        library_failed = pthread_atfork(hold_forks, let_fork, let_fork);
}

int my_library(hf_error *err)
{
    pthread_once(&library_once, start_library);
    if (library_failed)
        return hfd_error(err, HF_EDRIVER, "mysql", library_failed,
                         "the client library (libmariadb) does not start");
    return 0;
}

/* ---- Ending ------------------------------------------------------------- */

void my_disconnect(sql_conn *conn, bool reset)
{
    my_conn *c = (my_conn *)conn;
    my_quiet quiet;

    if (!c)
        return;
    my_quiet_begin(&quiet, c->tls);
    if (c->my && (reset || c->broken))
        sql_reset_socket(mysql_get_socket(c->my));
    if (c->my)
        mysql_close(c->my);
    /* Behind the connection's end the server is not told of each. */
    for (unsigned i = 0; i < c->named_count; i++) {
        mysql_stmt_close(c->named[i].stmt);
        hfd_free(c->named[i].text);
    }
    my_quiet_end(&quiet);
    hfd_free(c->cells);
    hfd_free(c->long_cell);
    hfd_free(c);
}

/* The memory stays: the library would say goodbye on the parent's
 * connection. */
void my_abandon(sql_conn *conn)
{
    int fd = mysql_get_socket(((my_conn *)conn)->my);

    if (fd >= 0)
        close(fd);
}

bool my_stands(sql_conn *conn)
{
    my_conn *c = (my_conn *)conn;
    struct pollfd fd = {.fd = c->my ? mysql_get_socket(c->my) : -1,
                        .events = POLLIN | POLLRDHUP};

    if (c->broken || fd.fd < 0)
        return false;
    /* A server says nothing by itself but its last words; TLS may. */
    if (poll(&fd, 1, 0) > 0 && ((fd.revents & ~POLLIN) || !c->tls))
        c->broken = true;
    return !c->broken;
}

/* ---- Connecting --------------------------------------------------------- */

static void set_options(const sql_place *place, MYSQL *my)
{
    const size_t stack = STACK_SIZE;
    const unsigned protocol =
        place->socket ? MYSQL_PROTOCOL_SOCKET : MYSQL_PROTOCOL_TCP;
    const unsigned no_files = 0;
    const my_bool no = 0, yes = 1;

    mysql_options(my, MYSQL_OPT_NONBLOCK, &stack);
    mysql_options(my, MYSQL_OPT_PROTOCOL, &protocol);
    mysql_options(my, MYSQL_OPT_RECONNECT, &no);
    mysql_options(my, MYSQL_OPT_LOCAL_INFILE, &no_files);
    mysql_options(my, MYSQL_REPORT_DATA_TRUNCATION, &yes);
    mysql_options(my, MYSQL_SET_CHARSET_NAME, "utf8mb4");
    mysql_options4(my, MYSQL_OPT_CONNECT_ATTR_ADD, "program_name", "holdfast");
    if (place->tls == SQL_TLS_NO || place->socket)
        return;
    mysql_options(my, MYSQL_OPT_SSL_ENFORCE, &yes);
    if (place->tls == SQL_TLS_PREFER)
        return;
    if (place->ca_file)
        mysql_options(my, MYSQL_OPT_SSL_CA, place->ca_file);
    if (place->cert_file)
        mysql_options(my, MYSQL_OPT_SSL_CERT, place->cert_file);
    if (place->key_file)
        mysql_options(my, MYSQL_OPT_SSL_KEY, place->key_file);
    if (place->tls_verify)
        mysql_options(my, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &yes);
}

/* The library does not close its descriptor on exec. */
static int keep_from_exec(const my_conn *c, int status)
{
    int fd = mysql_get_socket(c->my);

    if (fd >= 0)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    return status;
}

static int begin_connect(my_conn *c, size_t host, MYSQL **ret)
{
    const sql_place *p = &((const my_port *)c->base.port)->place;
    int status;

    hold_forks();
    status = mysql_real_connect_start(
        ret, c->my, p->socket ? NULL : p->hosts[host], p->user, p->password,
        p->database, p->ports[host], p->socket, CLIENT_FOUND_ROWS);
    let_fork();
    return status;
}

static int go_on_connecting(my_conn *c, int came, MYSQL **ret)
{
    int status;

    hold_forks();
    status = mysql_real_connect_cont(ret, c->my, came);
    let_fork();
    return status;
}

static int dial(const my_port *port, size_t host, my_conn *c, const char *where,
                hf_nsec deadline, hf_error *err)
{
    MYSQL *done = NULL;

    set_options(&port->place, c->my);
    MY_DRIVE(c, deadline, keep_from_exec(c, begin_connect(c, host, &done)),
             keep_from_exec(c, go_on_connecting(c, status, &done)));
    if (!done)
        return my_judge_dial(c, where, err);
    (void)keep_from_exec(c, 0);
    c->tls = mysql_get_ssl_cipher(c->my) != NULL;
    if (port->place.tls == SQL_TLS_YES && !c->tls)
        return hfd_error(err, HF_EAUTH, "mysql", 0,
                         "the server at %s speaks no TLS, and tls=yes asks for "
                         "it: set it up there (ssl_cert, ssl_key)",
                         where);
    return 0;
}

static int set_up(my_port *port, my_conn *c, const char *where,
                  hf_nsec deadline, hf_error *err)
{
    char settings[SETUP_MAX];
    const char *const texts[] = {
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", settings,
        "SELECT @@global.read_only"};
    sql_rows rows = {0};
    int code = 0;

    snprintf(settings, sizeof settings,
             "SET SESSION autocommit = 1, lock_wait_timeout = 2,"
             " sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION',"
             " innodb_lock_wait_timeout = %d",
             MY_LOCK_S);
    if (c->mariadb && c->version >= 100300)
        snprintf(
            settings + strlen(settings), sizeof settings - strlen(settings),
            ", max_statement_time = %u.%03u, idle_transaction_timeout = 2",
            port->base.statement_ms / 1000, port->base.statement_ms % 1000);
    for (size_t i = 0; i < 3 && code == 0; i++) {
        if (my_say(&c->base, texts[i], deadline, &rows, err) != SQL_DONE)
            code = err->code ? err->code : HF_EUNAVAIL;
    }
    if (code == 0 && sql_number(&rows, 0, 0, 0) != 0)
        code = hfd_error(err, HF_EUNAVAIL, "mysql", 1290,
                         "the server at %s is read-only (a replica?): give the "
                         "address of the primary",
                         where);
    sql_rows_done(&rows);
    return code;
}

static int connect_to(my_port *port, size_t host, hf_nsec deadline,
                      my_conn **ret, hf_error *err)
{
    my_conn *c = hfd_alloc(sizeof *c);
    char where[120];
    int code;

    if (c) {
        c->base.port = &port->base;
        c->cells = hfd_alloc((size_t)MY_COLUMNS * MY_CELL);
        c->my = mysql_init(NULL);
    }
    if (!c || !c->cells || !c->my) {
        if (c)
            my_disconnect(&c->base, false);
        return hfd_error(err, HF_ENOMEM, "mysql", 0, "out of memory");
    }
    sql_place_say_host(&port->place, host, where, sizeof where);
    code = dial(port, host, c, where, deadline, err);
    if (code == 0) {
        c->mariadb = strstr(mysql_get_server_info(c->my), "MariaDB") != NULL;
        c->version = mysql_get_server_version(c->my);
        c->returning =
            c->mariadb && c->version >= 100500 && !port->no_returning;
        code = set_up(port, c, where, deadline, err);
    }
    if (code) {
        my_disconnect(&c->base, true);
        return code;
    }
    *ret = c;
    return 0;
}

int my_connect(sql_port *base, hf_nsec deadline, sql_conn **ret, hf_error *err)
{
    my_port *port = (my_port *)base;
    my_conn *c = atomic_exchange(&port->spare, NULL);
    hf_error why = {0};
    my_quiet quiet;
    int code = c ? 0 : HF_EUNAVAIL;

    my_quiet_begin(&quiet, port->place.tls != SQL_TLS_NO);
    for (size_t i = 0; !c && i < port->place.host_count; i++) {
        code = connect_to(port, i, sql_place_turn(&port->place, i, deadline),
                          &c, &why);
        if (code == HF_ENOMEM)
            break;
    }
    my_quiet_end(&quiet);
    if (code && err)
        *err = why;
    if (code == 0)
        *ret = &c->base;
    return code;
}
